"""The evidence that the rules read: a rollout's counted calls and the runner's outcome."""

from __future__ import annotations

from dataclasses import dataclass

from classifier.fingerprints import Lane
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    calls_of,
    counted,
    filter_as_answer,
    has_content,
    has_output,
    with_continuations,
)
from classifier.main_lane import main_lane_of
from classifier.policy import SEED, Policy
from classifier.records import (
    Ending,
    Exchange,
    ExecutionStatus,
    Kind,
    Outcome,
    RolloutRecord,
)
from classifier.tails import Tail, tail_of

# Statuses with which a runner says by itself that the agent did not run to its end.
# evaluation_failed is not one: there the agent ran, and its verifier did not.
REPORTED_ERRORS = frozenset(ExecutionStatus) - {
    ExecutionStatus.SUCCESS,
    ExecutionStatus.EVALUATION_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence of one rollout.

    ``exchanges``: every counted attempt by its end, one that a filter stopped as an answer where
    it is one, ``failures`` those that failed;
    ``calls``: the same as logical calls, ``main`` those to the model under test, which
    registration names where ``bound``; ``unseen``: no call was to the registered model;
    ``answers``: the answers of all that were answered; ``tail``: what was left failed.
    """

    rollout: RolloutRecord
    policy: Policy
    exchanges: list[Exchange]
    calls: tuple[LogicalCall, ...]
    main: tuple[LogicalCall, ...]
    bound: bool
    unseen: bool
    failures: list[Exchange]
    answers: list[Exchange]
    states: frozenset[CallState]
    tail: Tail

    @classmethod
    def of(cls, rollout: RolloutRecord, policy: Policy) -> Evidence:
        """Gather the evidence; the order in which records arrived makes no difference."""
        if policy.name == SEED.name:
            exchanges = counted(rollout.exchanges)
            calls = calls_of(exchanges, settled=True)
        else:
            exchanges = with_continuations(rollout.exchanges)
            if any(x.cause is not None for x in exchanges):
                on_requests = (rollout.content_filter or policy.content_filter) == "answer"
                exchanges = [filter_as_answer(x, on_requests=on_requests) for x in exchanges]
            calls = calls_of(exchanges, settled=rollout.outcome is not None)
            if any(x.kind is Kind.CONTINUATION for x in exchanges):
                read = {x.id for call in calls for x in call.attempts}
                exchanges = [x for x in exchanges if x.id in read]
        main = main_lane_of(calls, rollout)
        return cls(
            rollout=rollout,
            policy=policy,
            exchanges=exchanges,
            calls=calls,
            main=main.calls,
            bound=main.bound,
            unseen=main.unseen,
            failures=[x for x in exchanges if x.cause is not None],
            states=frozenset({call.state for call in calls}),
            answers=[call.last for call in calls if call.state is CallState.ANSWERED],
            tail=tail_of(main.calls, calls),
        )

    @property
    def activity(self) -> bool:
        """Whether a call was answered of which no tokens are read: a picture, a batch, a file.

        So is a background response that this rollout did not begin.
        """
        return any(
            x.role == "agent" and _answered_unread(x)
            for x in self.rollout.exchanges
            if x.kind is Kind.ACTIVITY or x.kind is Kind.CONTINUATION
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


def never_began(facts: Evidence) -> bool:
    """Whether a prompt was executed, nothing was called, and the runner reports an error.

    A probe is no call: agents send one as they start.
    """
    outcome = facts.outcome
    if facts.calls or facts.exempt or facts.rollout.gaps or not reported_error(outcome):
        return False
    if unprompted(outcome) or reported_activity(outcome):
        return False
    return all(x.kind is Kind.PROBE for x in facts.rollout.exchanges if x.role == "agent")


def any_output(calls: tuple[LogicalCall, ...]) -> bool:
    """Whether any output came, in a complete response or a partial one."""
    return any(has_output(attempt) for call in calls for attempt in call.attempts)


def _answered_unread(exchange: Exchange) -> bool:
    whole = exchange.cause is None and exchange.ending is Ending.COMPLETE
    if exchange.kind is Kind.CONTINUATION:
        return whole and bool(has_content(exchange))
    status = exchange.status
    return whole and status is not None and status < 300 and exchange.response_bytes > 0


def main_lane(facts: Evidence) -> str | None:
    """Return the main lane as last used, else the registration's."""
    if facts.main:
        last = facts.main[-1]
        return str(Lane.of(last.last if last.last.kind is Kind.INFERENCE else last.asked))
    rollout = facts.rollout
    if rollout.upstream is None and rollout.model is None:
        return None
    return str(Lane(upstream=rollout.upstream, model=rollout.model))
