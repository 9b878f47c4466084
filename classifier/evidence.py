"""All that the rules look at, gathered once: a rollout's counted calls and what the runner said.

It answers questions of fact; which fact decides is for the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from classifier.fingerprints import Lane
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    calls_of,
    counted,
    ended_at,
    main_calls,
    spoke,
)
from classifier.policy import Policy
from classifier.records import Exchange, ExecutionStatus, Outcome, RolloutRecord

# Statuses with which a runner says by itself that the agent did not run to its end.
# evaluation_failed is not one: there the agent ran, and its verifier did not.
REPORTED_ERRORS = frozenset(ExecutionStatus) - {
    ExecutionStatus.SUCCESS,
    ExecutionStatus.EVALUATION_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One rollout, seen.

    ``exchanges``: every counted attempt by its end, ``failures`` those that failed;
    ``calls``: the same as logical calls, ``main`` those to the model under test;
    ``answers``: the answers of all that were answered.
    """

    rollout: RolloutRecord
    policy: Policy
    exchanges: list[Exchange]
    calls: tuple[LogicalCall, ...]
    main: tuple[LogicalCall, ...]
    failures: list[Exchange]
    answers: list[Exchange]
    standings: frozenset[CallState]

    @classmethod
    def of(cls, rollout: RolloutRecord, policy: Policy) -> Evidence:
        """Gather them; the order in which records arrived makes no difference."""
        exchanges = counted(rollout.exchanges)
        calls = calls_of(exchanges)
        return cls(
            rollout=rollout,
            policy=policy,
            exchanges=exchanges,
            calls=calls,
            main=main_calls(calls, rollout),
            failures=[x for x in exchanges if x.cause is not None],
            standings=frozenset({call.standing for call in calls}),
            answers=[call.last for call in calls if call.standing is CallState.ANSWERED],
        )

    @property
    def outcome(self) -> Outcome | None:
        """What the runner reported, None before it did."""
        return self.rollout.outcome

    @property
    def exempt(self) -> bool:
        """Whether the agent is on a subscription of its own and never passes the proxy."""
        return self.rollout.usage_channel == "none"

    def any(self, *standings: CallState) -> bool:
        """Whether any call stands so."""
        return not self.standings.isdisjoint(standings)


def unprompted(outcome: Outcome | None) -> bool:
    """Whether no prompt was executed; a runner that kept no count is believed to have."""
    if outcome is None:
        return False
    if outcome.prompts_executed is None:
        return outcome.status is ExecutionStatus.SETUP_FAILED
    return outcome.prompts_executed == 0


def reported_error(outcome: Outcome | None) -> bool:
    """Whether the runner itself says that the execution went wrong."""
    return outcome is not None and (bool(outcome.error) or outcome.status in REPORTED_ERRORS)


def reported_activity(outcome: Outcome | None) -> bool:
    """Whether the runner counted tokens or tool calls of its own."""
    return outcome is not None and bool(outcome.total_tokens or outcome.tool_calls)


def any_output(calls: tuple[LogicalCall, ...]) -> bool:
    """Whether any output came, in an answer or in part of one."""
    return any(spoke(attempt) for call in calls for attempt in call.attempts)


def taken_over(facts: Evidence, since: float) -> list[LogicalCall]:
    """Answered calls to other models that ended after ``since`` and can have done the work.

    A call without tools beside a main model that has them is a side call (a title, a
    routing decision), no continuation.
    """
    needs_tools = any(call.last.has_tools for call in facts.main)
    main = {call.model for call in facts.main}
    return [
        call
        for call in facts.calls
        if call.standing is CallState.ANSWERED
        and call.model not in main
        and (call.last.has_tools or not needs_tools)
        and ended_at(call.last) > since
    ]


def main_lane(facts: Evidence) -> str | None:
    """The main lane as last used; what the registration names where no call came."""
    if facts.main:
        return str(Lane.of(facts.main[-1].last))
    rollout = facts.rollout
    if rollout.upstream is None and rollout.model is None:
        return None
    return str(Lane(upstream=rollout.upstream, model=rollout.model))
