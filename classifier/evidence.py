"""The evidence that the rules read, and the finding that one of them returns.

Evidence is a rollout's counted calls and the runner's outcome.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple

from classifier.fingerprints import Lane
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    by_end,
    calls_of,
    canonical,
    counted,
    cut_short,
    ended_at,
    filter_as_answer,
    filtered,
    has_content,
    has_output,
    proven_empty,
    proves,
    refused,
    state_of,
    unsized,
    with_continuations,
)
from classifier.records import (
    HARNESS_BUDGET,
    HARNESS_REFUSAL,
    READ_REQUEST_BYTES,
    WRONG_SHAPE,
    AnswerState,
    Cause,
    Ending,
    Exchange,
    ExecutionStatus,
    Kind,
    Outcome,
    RolloutRecord,
)
from classifier.reference_rules import Failure, compare
from classifier.references import ReferenceSeries
from classifier.verdicts import (
    SEED,
    UNTRUSTED,
    Comparison,
    Health,
    Policy,
    Proof,
    ProofSource,
    Subcategory,
)

# --- main lane ---
#
# The calls to the model under test, whatever upstreams and gateways call it.


class MainLane(NamedTuple):
    """The calls to the model under test.

    ``bound``: registration names them, so that no other call counts as reaching the model.
    ``unseen``: a model is registered, and no call asked for it or was answered by it.
    """

    calls: tuple[LogicalCall, ...]
    bound: bool = False
    unseen: bool = False


def main_lane_of(calls: tuple[LogicalCall, ...], rollout: RolloutRecord) -> MainLane:
    """Return the calls to the model under test, over any key.

    Registration names it by upstream, model and declared fallbacks; what no call went to
    binds nothing. Else it is the model whose calls carry tools, else the one with the most
    request bytes, over any upstream. A request that is too long for its model to be read counts as
    one to it.
    """
    pool: Sequence[LogicalCall] = _at(calls, rollout.upstream) or calls
    by_model: dict[str | None, list[LogicalCall]] = {}
    for call in pool:
        by_model.setdefault(call.model, []).append(call)
    models = rollout.models
    named = {name for model in models for name in _named(by_model, model)}
    bound = bool(named) or pool is not calls
    unseen = bool(models and calls) and not named and None not in _names(calls)
    if len(by_model) > 1:
        chosen = named or {max(by_model.items(), key=_weight)[0]}
        pool = [call for call in pool if call.model in chosen or _may_be_to(call, chosen, by_model)]
    return MainLane(calls if len(pool) == len(calls) else tuple(pool), bound, unseen)


def _may_be_to(
    call: LogicalCall, chosen: set[str | None], by_model: dict[str | None, list[LogicalCall]]
) -> bool:
    """Return True if a request too long to be read went where ``chosen`` models are asked."""
    if call.model is not None or call.asked.request_bytes <= READ_REQUEST_BYTES:
        return False
    if canonical(call.last.answered_model) not in (None, *chosen):
        return False
    place = call.asked.upstream, call.asked.api
    return any(
        place == (other.asked.upstream, other.asked.api)
        for name in chosen
        for other in by_model[name]
    )


def _at(calls: Iterable[LogicalCall], upstream: str | None) -> list[LogicalCall]:
    return [call for call in calls if call.asked.upstream == upstream] if upstream else []


def _names(calls: Iterable[LogicalCall]) -> set[str | None]:
    return {call.model or call.last.answered_model for call in calls}


def _named(by_model: dict[str | None, list[LogicalCall]], model: str) -> set[str | None]:
    return _equal(by_model, model, canonical) or _equal(by_model, model, unsized)


def _equal(
    by_model: dict[str | None, list[LogicalCall]],
    model: str,
    key: Callable[[str | None], str | None],
) -> set[str | None]:
    """Return the models that were asked for or that answered under an equal name."""
    wanted = key(model)
    return {
        name
        for name, calls in by_model.items()
        if key(name) == wanted or any(key(call.last.answered_model) == wanted for call in calls)
    }


def _weight(item: tuple[str | None, list[LogicalCall]]) -> tuple[bool, int, int, str]:
    name, calls = item
    tools = any(call.asked.has_tools for call in calls)
    return (tools, sum(call.asked.request_bytes for call in calls), len(calls), name or "")


# --- tail ---
#
# The failures on the main lane that nothing had made good when the rollout ended.


LOST_STATE = "lost_state"  # the reason of a cause
# platform.openai.com/docs/api-reference/responses/create#responses-create-previous_response_id
_LOST_RESPONSE = "previous_response_not_found"  # the code of one


class Strength(IntEnum):
    """The strength of a failure as evidence that the agent was cut off, weakest first."""

    EXPLAINED = 1  # a rejection with a reason: the agent's own doing
    LOST_STATE = 2  # a conversation's state that a client dropped or the provider lost
    UNEXPLAINED = 3  # a rejection that only a status speaks for: nobody knows whose
    TRANSIENT = 4  # rate_limit, provider_error
    PERMANENT = 5  # auth, quota, model_not_found, an answer in the shape of another API

    @classmethod
    def of(cls, cause: Cause) -> Strength:
        """Return the strength of a cause."""
        if cause.subcategory is not Subcategory.REJECTED_REQUEST:
            return cls.TRANSIENT if cause.transient else cls.PERMANENT
        if cause.reason == WRONG_SHAPE:
            return cls.PERMANENT
        if cause.reason == HARNESS_REFUSAL:
            return cls.TRANSIENT  # what else is left failed outweighs it
        if cause.reason == LOST_STATE or cause.code == _LOST_RESPONSE:
            return cls.LOST_STATE
        return cls.UNEXPLAINED if cause.reason is None else cls.EXPLAINED


class UnresolvedFailures(NamedTuple):
    """The failed calls to the model under test that nothing made good, by their ends.

    ``failures``: all their failed attempts, by their ends, ``strongest`` those with the
    strongest cause, whose ``strength`` is None if no call is left failed; ``last`` is that
    of the last cause. ``continued``: another model went on with the work.
    """

    calls: tuple[LogicalCall, ...] = ()
    failures: tuple[Exchange, ...] = ()
    strongest: tuple[Exchange, ...] = ()
    strength: Strength | None = None
    last: Strength | None = None
    continued: bool = False

    @property
    def cut_off(self) -> bool:
        """True if the rollout ends in failures of the provider or the account."""
        return self.strength is not None and self.strength >= Strength.TRANSIENT


def _began(call: LogicalCall) -> float:
    """Return when its last attempt began; fetching a background response begins nothing."""
    last = call.last if call.last.kind is Kind.INFERENCE else call.asked
    return last.timing.started_at


class _Answers:
    """Answered calls, asked whether one of them makes a failure good.

    One does that began after it ended. An overlapping one does only if it is the same
    request, or if it offers tools where the lane does (``tools``), began later and carries at
    least as many bytes: a title or a short-lived sub-agent is another conversation. Bytes
    stand for messages, whose number is not captured.
    """

    def __init__(self, answered: Sequence[LogicalCall], *, tools: bool) -> None:
        self._last_begun = max(map(_began, answered), default=float("-inf"))
        self._until: dict[str | None, float] = {}
        for call in answered:
            digest = call.asked.request_digest
            self._until[digest] = max(ended_at(call.last), self._until.get(digest, 0.0))
        self._until.pop(None, None)
        able = sorted(
            (_began(call), call.asked.request_bytes)
            for call in answered
            if call.asked.has_tools or not tools
        )
        self._starts = [start for start, _ in able]
        sizes = [size for _, size in reversed(able)]
        self._largest_since = list(accumulate(sizes, max))[::-1]

    def excuse(self, call: LogicalCall) -> bool:
        """Return True if an answered call makes up for this failed or abandoned one."""
        began = _began(call)
        if self._last_begun >= ended_at(call.last):
            return True
        if self._until.get(call.asked.request_digest, float("-inf")) > began:
            return True
        since = bisect_left(self._starts, began)
        largest = self._largest_since[since] if since < len(self._starts) else -1
        return largest >= call.asked.request_bytes


def offers_tools(calls: Iterable[LogicalCall]) -> bool:
    """Return True if any of the calls offered tools."""
    return any(call.asked.has_tools for call in calls)


def continued_elsewhere(
    main: Sequence[LogicalCall], calls: Sequence[LogicalCall], left: Sequence[LogicalCall]
) -> bool:
    """Return True if answered calls outside the main lane continued the work of the calls ``left``.

    A call without tools beside a main model that has them is a side call (a title, a
    routing decision), no continuation.
    """
    if len(main) == len(calls):
        return False
    own = {id(call) for call in main}
    tools = offers_tools(main)
    others = [
        call
        for call in calls
        if call.state is CallState.ANSWERED
        and id(call) not in own
        and (call.asked.has_tools or not tools)
    ]
    answers = _Answers(others, tools=tools)
    return bool(others) and all(answers.excuse(call) for call in left)


def unresolved_failures(
    main: tuple[LogicalCall, ...], calls: tuple[LogicalCall, ...]
) -> UnresolvedFailures:
    """Return what was left failed among the calls ``main``, of all ``calls``."""
    failed = _left(main, CallState.FAILED)
    if not failed:
        return UnresolvedFailures()
    failures = sorted((x for call in failed for x in call.failures), key=_by_end)
    strengths = [Strength.of(x.cause) for x in failures if x.cause is not None]
    most = max(strengths)
    return UnresolvedFailures(
        calls=tuple(failed),
        failures=tuple(failures),
        strongest=tuple([x for x, each in zip(failures, strengths, strict=True) if each is most]),
        strength=most,
        last=strengths[-1],
        continued=continued_elsewhere(main, calls, failed),
    )


def _left(main: Sequence[LogicalCall], state: CallState) -> list[LogicalCall]:
    """Return the calls in this state that no answer made good."""
    left = [call for call in main if call.state is state]
    answered = [call for call in main if call.state is CallState.ANSWERED] if left else []
    return _not_made_good(main, left, answered) if answered else left


def _by_end(exchange: Exchange) -> tuple[float, str]:
    return ended_at(exchange), exchange.id


def _not_made_good(
    main: Sequence[LogicalCall], failed: list[LogicalCall], answered: Sequence[LogicalCall]
) -> list[LogicalCall]:
    # Nearly always this settles it; only calls at the same time need the closer look.
    last_begun = max(map(_began, answered))
    failed = [call for call in failed if ended_at(call.last) > last_begun]
    if not failed:
        return failed
    tools = offers_tools(main)
    answers = _Answers(answered, tools=tools)
    failed = [call for call in failed if not answers.excuse(call)]
    return _without_recaps(failed, answered) if tools else failed


def _without_recaps(
    failed: Sequence[LogicalCall], answered: Sequence[LogicalCall]
) -> list[LogicalCall]:
    """Leave out calls without tools after a final answer: a recap or a title of the work."""
    if all(call.asked.has_tools is not False for call in failed):
        return list(failed)
    turns = [(ended_at(call.last), call) for call in answered if call.asked.has_tools]
    ends = [end for end, _ in turns]
    return [
        call
        for call in failed
        if call.asked.has_tools is not False
        or not (before := bisect_left(ends, ended_at(call.last)))
        or not _final(turns[before - 1][1].last)
    ]


def _final(answer: Exchange) -> bool:
    """Return True if an answer ends the work: it has text and no tool call."""
    spoken = has_content(answer) is True or refused(answer)
    return answer.tool_calls == 0 and spoken and not cut_short(answer)


# --- causes that only the rollout decides ---


_BARE_404 = "status.404"  # the row of a 404 that says nothing but its status


def _without_words(exchanges: list[Exchange]) -> list[Exchange]:
    """Take the reason from each bare 404 on a lane that has answered before.

    Where nothing ever answered the route is wrong; where something did, nobody knows why.
    """
    if not any(x.cause is not None and x.cause.rule == _BARE_404 for x in exchanges):
        return exchanges
    answered: set[tuple[str, str | None]] = set()
    judged: list[Exchange] = []
    for exchange in exchanges:
        cause, lane = exchange.cause, _lane(exchange)
        bare = cause is not None and cause.rule == _BARE_404 and lane in answered
        judged.append(_unexplained(exchange) if bare else exchange)
        if state_of(exchange) is CallState.ANSWERED:
            answered.add(lane)
    return judged


BROKEN_FILTER = "reference.content_filter"
"""The rule of the cause of a request that was filtered as the proxy's own question was."""


def _as_filtered(exchange: Exchange, references: Mapping[str, ReferenceSeries]) -> Exchange:
    """Return a filtered call as the provider's failure if its filter refuses plain questions."""
    cause, series = exchange.cause, references.get(exchange.id)
    if cause is None or series is None or not filtered(exchange):
        return exchange
    compared = compare(series, Failure(cause.subcategory, filtered=True))
    if compared is not Comparison.FAILED_ALIKE:
        return exchange
    broken = replace(cause, subcategory=Subcategory.PROVIDER_ERROR, transient=True)
    return replace(exchange, cause=replace(broken, rule=BROKEN_FILTER))


def _unexplained(rejected: Exchange) -> Exchange:
    cause = rejected.cause
    return replace(rejected, cause=None if cause is None else replace(cause, reason=None))


def _lane(exchange: Exchange) -> tuple[str, str | None]:
    return exchange.upstream, canonical(exchange.model)


def _failures_by_shape(rollout: RolloutRecord, exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the failed calls at paths of no dialect that were inference calls: POSTs and jobs.

    They are known by their lane: one that answered this rollout by its shape, or that is
    registered by upstream and model. Telemetry goes elsewhere or names no model. Where calls name
    none, a failed one has to carry as many bytes as one that was answered: an agent's prompts
    grow, and what else it sends to that upstream is shorter.
    """
    failed = [
        x
        for x in rollout.exchanges
        if x.cause is not None
        and x.kind is Kind.OTHER
        and x.role == "agent"
        and (x.method == "POST" or x.response_digest is not None)
    ]
    if not failed:
        return []
    least: dict[tuple[str, str | None], int] = {}  # bytes, by lane
    for answered in (x for x in exchanges if x.inferred):
        lane = _lane(answered)
        size = answered.request_bytes if lane[1] is None else 0
        least[lane] = min(size, least.get(lane, size))
    if rollout.upstream is not None:
        least |= {(rollout.upstream, canonical(model)): 0 for model in rollout.models}
    return [x for x in failed if (lane := _lane(x)) in least and x.request_bytes >= least[lane]]


def _jobs(rollout: RolloutRecord) -> list[Exchange]:
    """Return the calls that tell how the batch jobs of a rollout ended, if any of them failed.

    They count where the rollout made no inference call. A job that failed says so in an answer
    whose status is a success; a refused upload is no job.
    """
    works = [x for x in _works(rollout) if x.kind is Kind.ACTIVITY]
    failed = {x.id for x in works if x.cause and x.status is not None and x.status < 300}
    if not failed:
        return []
    return sorted((x for x in works if x.id in failed or _carries(x)), key=by_end)


# --- evidence ---


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
    ``answers``: the answers of all that were answered; ``tail``: what was left failed;
    ``proof``: that the model under test answered, which the seed policy does not ask for;
    ``kept``: weighing found that the agent's own failures take no reward away.
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
    tail: UnresolvedFailures
    proof: Proof | None
    kept: bool = False

    @classmethod
    def of(cls, rollout: RolloutRecord, policy: Policy) -> Evidence:
        """Gather the evidence; the order in which records arrived makes no difference."""
        if policy.name == SEED.name:
            exchanges = counted(rollout.exchanges)
            calls = calls_of(exchanges, settled=True)
        else:
            exchanges = with_continuations(rollout.exchanges) or _jobs(rollout)
            failures = _failures_by_shape(rollout, exchanges)
            if failures:
                exchanges = sorted((*exchanges, *failures), key=by_end)
            if any(x.cause is not None for x in exchanges):
                on_requests = (rollout.content_filter or policy.content_filter) == "answer"
                exchanges = [filter_as_answer(x, on_requests=on_requests) for x in exchanges]
                exchanges = _without_words(exchanges)
                exchanges = [_as_filtered(x, rollout.references) for x in exchanges]
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
            tail=unresolved_failures(main.calls, calls),
            proof=None if policy.name == SEED.name else proof_of(calls, main, rollout),
        )

    @property
    def activity(self) -> bool:
        """True if model output came by a call whose tokens are not read.

        That is a picture, speech, a film, the lines of a batch; or a background response that
        this rollout did not begin. What was recorded before answers had a state is taken for
        output where it succeeded.
        """
        return any(map(_carries, _works(self.rollout)))

    @property
    def unseen_answers(self) -> list[Exchange]:
        """The answers of the model under test that nobody could look at."""
        works = (x for x in _works(self.rollout) if _to_main(x, self.rollout, self.bound))
        answers = (call.last for call in self.main if call.state is CallState.ANSWERED)
        return [x for x in (*answers, *works) if x.answer_state is AnswerState.UNSEEN]

    @property
    def model_answered(self) -> bool:
        """True if an answer of the model under test came, unless it is known to be empty.

        Or a part of one, or output by a call whose tokens are not read; or of another model that
        did the work where none is registered and no call to this one failed.
        """
        answered = (x.last for x in self.main if x.state is CallState.ANSWERED)
        if any_output(self.main) or not all(map(proven_empty, answered)):
            return True
        works = (x for x in _works(self.rollout) if _to_main(x, self.rollout, self.bound))
        if any(_carries(x) or x.answer_state is AnswerState.UNSEEN for x in works):
            return True
        return not any(call.failures for call in self.main) and self.others_worked

    @property
    def others_worked(self) -> bool:
        """True if another model may have done the work. None counts if one is registered."""
        if self.bound or len(self.main) == len(self.calls):
            return False
        tools = offers_tools(self.main)
        main = {id(call) for call in self.main}
        return any(
            call.state is CallState.ANSWERED
            and id(call) not in main
            and (call.asked.has_tools or not tools)
            for call in self.calls
        )

    @property
    def left_unread(self) -> list[LogicalCall]:
        """The calls to the model under test that nobody could read, where no answer followed.

        Empty where another model went on with the work.
        """
        if not self.any(CallState.UNREAD):
            return []
        left = _left(self.main, CallState.UNREAD)
        return [] if continued_elsewhere(self.main, self.calls, left) else left

    @property
    def left_held(self) -> list[LogicalCall]:
        """The calls to the model under test given up while the proxy had them wait.

        Without those that an answer followed, or that another model went on with.
        """
        if not self.any(CallState.HELD):
            return []
        left = _left(self.main, CallState.HELD)
        return [] if continued_elsewhere(self.main, self.calls, left) else left

    @property
    def spent_budget(self) -> bool:
        """True if a limit ended the agent: one registered here, or the harness's own budget."""
        left = (x.cause is not None and x.cause.reason for x in self.tail.failures)
        reached = self.rollout.limit_reached
        return (reached is not None and not reached.is_of_proxy) or HARNESS_BUDGET in left

    @property
    def untrusted(self) -> bool:
        """True if the rollout's agent may fail calls to rid itself of a score."""
        return (self.rollout.agents or self.policy.agents) == UNTRUSTED

    @property
    def outcome(self) -> Outcome | None:
        """The outcome that the runner reported; None before."""
        return self.rollout.outcome

    @property
    def exempt(self) -> bool:
        """True if the agent has its own subscription and never calls the proxy."""
        return self.rollout.usage_channel == "none"

    def any(self, *states: CallState) -> bool:
        """Return True if any call is in one of these states."""
        return not self.states.isdisjoint(states)


def proof_of(
    calls: tuple[LogicalCall, ...], main: MainLane, rollout: RolloutRecord
) -> Proof | None:
    """Return the first and the last exchange with output of the model under test.

    Without a registered model that was called, any model's output counts. Where the wire shows
    none, the runner's own counts are the proof.
    """
    read = _first_and_last(main.calls)
    if read is None and not main.bound and len(main.calls) < len(calls):
        read = _first_and_last(calls)
    if read is None:
        works = [x for x in _works(rollout) if _carries(x) and _to_main(x, rollout, main.bound)]
        read = (min(works, key=by_end), max(works, key=by_end)) if works else None
    if read is not None:
        return Proof(ProofSource.WIRE, read[0].id, read[1].id)
    return Proof(ProofSource.REPORTED) if reported_activity(rollout.outcome) else None


def unprompted(outcome: Outcome | None) -> bool:
    """Return True if no prompt was executed. Without a count, only a failed setup shows that."""
    if outcome is None:
        return False
    if outcome.prompts_executed is None:
        return outcome.status is ExecutionStatus.SETUP_FAILED
    return outcome.prompts_executed == 0


def reported_error(outcome: Outcome | None) -> bool:
    """Return True if the runner reported an execution error."""
    return outcome is not None and (bool(outcome.error) or outcome.status in REPORTED_ERRORS)


def reported_activity(outcome: Outcome | None) -> bool:
    """Return True if the runner itself counted tokens or tool calls."""
    return outcome is not None and bool(outcome.total_tokens or outcome.tool_calls)


def never_began(facts: Evidence) -> bool:
    """Return True if the runner reports an error after a prompt, and the agent made no call.

    A probe is no call: agents send one as they start.
    """
    outcome = facts.outcome
    if facts.calls or facts.exempt or facts.rollout.gaps or not reported_error(outcome):
        return False
    if unprompted(outcome) or reported_activity(outcome):
        return False
    return all(x.kind is Kind.PROBE for x in facts.rollout.exchanges if x.role == "agent")


def any_output(calls: tuple[LogicalCall, ...]) -> bool:
    """Return True if any output came, in a complete or a partial response."""
    return any(has_output(attempt) for call in calls for attempt in call.attempts)


def _first_and_last(calls: Sequence[LogicalCall]) -> tuple[Exchange, Exchange] | None:
    """Return the first and the last exchange in which output was read."""
    for call in calls:
        for first in call.attempts:
            if proves(first):
                backwards = (x for each in reversed(calls) for x in reversed(each.attempts))
                return first, next(x for x in backwards if proves(x))
    return None


def _works(rollout: RolloutRecord) -> Iterator[Exchange]:
    """Yield the agent's calls for pictures, sound, films, files and batches.

    And those that fetch a response; where this rollout began it, they are part of a call.
    """
    kinds = (Kind.ACTIVITY, Kind.CONTINUATION)
    return (x for x in rollout.exchanges if x.kind in kinds and x.role == "agent")


def _to_main(work: Exchange, rollout: RolloutRecord, bound: bool) -> bool:
    """Return True if the call can be to the registered upstream and model, or if they do not bind.

    A call of which no model was read can be to any model.
    """
    if not bound:
        return True
    if rollout.upstream is not None and work.upstream != rollout.upstream:
        return False
    names = {canonical(name) for name in rollout.models}
    called = {canonical(name) for name in (work.model, work.answered_model) if name}
    return not (names and called) or not names.isdisjoint(called)


def _carries(work: Exchange) -> bool:
    """Return True if the call brought model output."""
    if work.cause is not None:
        return False
    if work.answer_state is not None:
        return work.answer_state is AnswerState.READ
    if work.ending is not Ending.COMPLETE:
        return False
    if work.kind is Kind.CONTINUATION:
        return bool(has_content(work))
    return work.status is not None and work.status < 300 and work.response_bytes > 0


def main_lane(facts: Evidence) -> str | None:
    """Return the main lane as last used, else the registration's."""
    if facts.main:
        last = facts.main[-1]
        return str(Lane.of(last.last if last.last.kind is Kind.INFERENCE else last.asked))
    rollout = facts.rollout
    if rollout.upstream is None and rollout.model is None:
        return None
    return str(Lane(upstream=rollout.upstream, model=rollout.model))


# --- findings ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The rule that fired and its evidence.

    ``failures`` decided it, by their ends, and ``strongest`` of them name it (all of them
    where it is empty); ``share`` says how many calls that is; ``evidence`` are exchange ids.
    ``unproven``: undecided only because no output of the model was read.
    """

    health: Health
    rule: str
    failures: Sequence[Exchange] = ()
    strongest: Sequence[Exchange] = ()
    share: str = ""
    evidence: tuple[str, ...] = ()
    sentence: str | None = None
    unproven: bool = False


Rule = Callable[[Evidence], Finding | None]


def ids(exchanges: Iterable[Exchange]) -> tuple[str, ...]:
    """Return the ids of exchanges, in their order."""
    return tuple(exchange.id for exchange in exchanges)
