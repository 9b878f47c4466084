"""The evidence that the rules read: a rollout's counted calls and the runner's outcome."""

from __future__ import annotations

from dataclasses import dataclass

from classifier.fingerprints import Lane
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    calls_of,
    counted,
    ended_at,
    has_output,
    main_calls,
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
    """The evidence of one rollout.

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
    states: frozenset[CallState]

    @classmethod
    def of(cls, rollout: RolloutRecord, policy: Policy) -> Evidence:
        """Gather the evidence; the order in which records arrived makes no difference."""
        exchanges = counted(rollout.exchanges)
        calls = calls_of(exchanges)
        return cls(
            rollout=rollout,
            policy=policy,
            exchanges=exchanges,
            calls=calls,
            main=main_calls(calls, rollout),
            failures=[x for x in exchanges if x.cause is not None],
            states=frozenset({call.state for call in calls}),
            answers=[call.last for call in calls if call.state is CallState.ANSWERED],
        )

    @property
    def outcome(self) -> Outcome | None:
        """The outcome that the runner reported; None before."""
        return self.rollout.outcome

    @property
    def exempt(self) -> bool:
        """Whether the agent has its own subscription and never calls the proxy."""
        return self.rollout.usage_channel == "none"

    def any(self, *states: CallState) -> bool:
        """Whether any call is in one of these states."""
        return not self.states.isdisjoint(states)


def unprompted(outcome: Outcome | None) -> bool:
    """Whether no prompt was executed; without a count only a failed setup says so."""
    if outcome is None:
        return False
    if outcome.prompts_executed is None:
        return outcome.status is ExecutionStatus.SETUP_FAILED
    return outcome.prompts_executed == 0


def reported_error(outcome: Outcome | None) -> bool:
    """Whether the runner reported an execution error."""
    return outcome is not None and (bool(outcome.error) or outcome.status in REPORTED_ERRORS)


def reported_activity(outcome: Outcome | None) -> bool:
    """Whether the runner counted tokens or tool calls of its own."""
    return outcome is not None and bool(outcome.total_tokens or outcome.tool_calls)


def any_output(calls: tuple[LogicalCall, ...]) -> bool:
    """Whether any output came, in a complete response or a partial one."""
    return any(has_output(attempt) for call in calls for attempt in call.attempts)


def taken_over(facts: Evidence, since: float) -> list[LogicalCall]:
    """Return answered calls to other models after ``since`` that may have done the work.

    A call without tools beside a main model that has them is a side call (a title, a
    routing decision), no continuation.
    """
    needs_tools = any(call.last.has_tools for call in facts.main)
    main = {call.model for call in facts.main}
    return [
        call
        for call in facts.calls
        if call.state is CallState.ANSWERED
        and call.model not in main
        and (call.last.has_tools or not needs_tools)
        and ended_at(call.last) > since
    ]


def main_lane(facts: Evidence) -> str | None:
    """Return the main lane as last used, else the registration's."""
    if facts.main:
        return str(Lane.of(facts.main[-1].last))
    rollout = facts.rollout
    if rollout.upstream is None and rollout.model is None:
        return None
    return str(Lane(upstream=rollout.upstream, model=rollout.model))
