"""The law of reference calls: what the proxy asks beside a failure, when, and what answers prove.

A question is the failed call's twin: its model's name, and the way in which it asked. What a
verdict makes of the comparison is in `classifier.attribution`; docs/concepts/judging.md, "The
reference call", tells it all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from classifier.logical_calls import FILTERED, canonical
from classifier.references import UNASKABLE, AskedBy, ReferenceCall, ReferenceSeries
from classifier.verdicts import Comparison, Subcategory

W = TypeVar("W")  # a way to ask: its API, mount, version, tier and flags


# --- what is asked: the name -------------------------------------------------------------------


class Use(NamedTuple):
    """The calls of one rollout to an upstream by one name, API and way of answering.

    ``answered``: at least one was, by the model itself, as ``answered_model``.
    """

    rollout_id: str
    model: str | None
    api: str
    streamed: bool | None
    answered: bool
    answered_model: str | None = None


class AskedName(NamedTuple):
    """The name that is asked for; ``spelled``: that of the same model if it is not found."""

    model: str | None
    spelled: str | None = None


def name_to_ask(
    called: str | None, registered: Sequence[str], uses: Iterable[Use], *, upstream: str = ""
) -> AskedName:
    """Return the name to ask for: never another model than the failed call's or the registered.

    Arguments:
        called: by the failed call.
        uses: of its upstream by its rollout and others of the batch, the last first.
        upstream: its name, which registered names may have as a prefix.
    """
    if called in registered:
        return AskedName(called)
    answered = list(dict.fromkeys(x.model for x in uses if x.answered and x.model))
    if registered:
        own = next((x for x in registered if canonical(x) == canonical(called)), registered[0])
        prefix, _, bare = own.partition("/")
        if bare and own not in answered and (prefix == upstream or bare in (called, *answered)):
            own = bare
        spelled = next((x for x in answered if canonical(x) == canonical(own)), None)
        return AskedName(own, spelled if spelled != own else None)
    if called is None or called in answered:
        return AskedName(called or next(iter(answered), None))
    same = next((x for x in answered if canonical(x) == canonical(called)), None)
    return AskedName(same or called)


def answered_as(asked: AskedName, uses: Iterable[Use]) -> tuple[str, ...]:
    """Return the names under which a model answered that was asked for so; none known: any will do.

    They are of the lane's calls, whoever made them.
    """
    names = {x.answered_model for x in uses if x.answered and x.model in asked}
    return tuple(sorted(name for name in names if name))


# --- what is asked: the way --------------------------------------------------------------------


def usual_way(own: W, plain: W, others: Mapping[W, int]) -> tuple[W, AskedBy] | None:
    """Return the way to ask by if the failed call's own fails; None if its own is the usual one.

    The plain form of an upstream is nobody's trick, however others ask.

    Arguments:
        plain: the upstream's plainest form for the model.
        others: how many other rollouts of the batch ask the model by each way.
    """
    usual = max(others, key=lambda way: others[way], default=plain)
    if own in (plain, usual):
        return None
    return usual, AskedBy.SHARED if own in others else AskedBy.USUAL


def usually_streams(rollout_id: str, uses: Collection[Use]) -> bool:
    """Return True if a model that a rollout streams is usually asked for streams.

    It is, unless the rollout was answered before, and nobody by a stream: a stream that breaks is
    then one that its agent began.
    """
    answered = [x for x in uses if x.answered]
    own = any(x.rollout_id == rollout_id for x in answered)
    return not own or any(x.streamed for x in answered)


def nearest_api(own: str, uses: Iterable[Use], plain: Mapping[str, str]) -> str | None:
    """Return the API by which a call's is asked about: its own, else the last answered one's.

    None if neither has a plain question.

    Arguments:
        uses: the rollout's own first.
        plain: the API of the plain question, by those that have one.
    """
    answered = (x.api for x in uses if x.answered)
    return next((plain[api] for api in (own, *answered) if api in plain), None)


# --- when it is asked --------------------------------------------------------------------------


LANE_A_MINUTE = 12
"""Series of one lane, by whatever way."""
ALL_A_MINUTE = 60
"""Series of the service."""
MINUTE_S = 60.0
_AT_ENDS = 3  # one in so many of both is kept for failures whose outcome waits
_FARTHEST_S = 300.0  # between series that fail alike
_AWAITED_S = 5.0  # the same, if the answer to an outcome waits for one


def a_minute(most: int, *, awaited: bool) -> int:
    """Return how many of so many series a minute a failure may have, awaited or not."""
    return most if awaited else most - most // _AT_ENDS


def due_at(
    series: Sequence[ReferenceSeries], now: float, *, way: str | None = None, awaited: bool = False
) -> float:
    """Return from when on a lane may be asked again, in epoch seconds.

    At most twelve series a minute, eight if nobody waits: an agent that fails and is answered by
    turns cannot use up what its last failure needs. While those by one way fail alike, the distance
    of two doubles from a second up to five minutes.

    Arguments:
        series: the lane's that asked something, the newest first.
        awaited: somebody waits, so that series that fail alike are at most five seconds apart.
    """
    due, most = 0.0, a_minute(LANE_A_MINUTE, awaited=awaited)
    if len(series) >= most and series[most - 1].started_at > now - MINUTE_S:
        due = series[most - 1].started_at + MINUTE_S
    run = [each for each in series if each.way == way]
    ends = [_failed_as(each) for each in run]
    alike = next((at for at, end in enumerate(ends) if end is None or end != ends[0]), len(ends))
    if alike:
        distance = min(2.0 ** (alike - 1), _AWAITED_S if awaited else _FARTHEST_S)
        due = max(due, run[0].started_at + distance)
    return due


def _failed_as(series: ReferenceSeries) -> Subcategory | None:
    """Return the subcategory that the last question failed with; None if it did not."""
    last = series.calls[-1] if series.calls else None
    return last.subcategory if last is not None and last.answered is False else None


def told_to_wait(series: ReferenceSeries) -> float:
    """Return until when the questions of a series were told to wait, in epoch seconds; 0: not."""
    waits = (call.ended_at + call.retry_after_s for call in series.calls if call.retry_after_s)
    return max(waits, default=0.0)


# --- how it is read ----------------------------------------------------------------------------


SLOW_S = 1.5
"""The least that a one-word answer and a call that was left took if they were silent alike."""


class Failure(NamedTuple):
    """A failed call, as a series is compared with it.

    ``subcategory``: None for a call that its agent gave up, after ``waited_s``. ``silent``: it was
    silence or a time-out; one of the reference's counts as alike only then. ``filtered``: by a
    content filter.
    """

    subcategory: Subcategory | None
    silent: bool = False
    filtered: bool = False
    waited_s: float | None = None


def compare(series: ReferenceSeries | None, failed: Failure) -> Comparison | None:
    """Compare a failure with the series that was asked beside it; None while it has no end.

    What fails by its own way, and is answered by the usual one, is the agent's if it alone asks so;
    else the provider is partly down. A call without a plain form of its own is compared with the
    usual way; if that says nothing, other rollouts' calls decide.
    """
    if series is None or series.running:
        return None
    if series.not_run in UNASKABLE:
        return Comparison.NO_REFERENCE
    own = [call for call in series.calls if call.asked_by is AskedBy.OWN]
    second = [call for call in series.calls if call.asked_by is not AskedBy.OWN]
    first = _compared(own, failed)
    if not second:
        return first
    usual = _compared(second, failed)
    if not own:
        return Comparison.NO_REFERENCE if usual is Comparison.OTHERWISE else usual
    if usual is Comparison.OTHERWISE:  # it may not be the provider's way at all
        return first
    if usual is not Comparison.ANSWERED:
        return usual
    if second[0].asked_by is AskedBy.USUAL:
        return Comparison.ANSWERED
    return Comparison.PARTLY if first is Comparison.FAILED_ALIKE else Comparison.OTHERWISE


def _compared(calls: Sequence[ReferenceCall], failed: Failure) -> Comparison:
    failures = [call for call in calls if call.answered is False]
    answered = any(call.answered for call in calls)
    if failures:
        if not all(_alike(call, failed) for call in failures):
            return Comparison.OTHERWISE
        return Comparison.PARTLY if answered else Comparison.FAILED_ALIKE
    if not answered or any(call.answered is None for call in calls):
        return Comparison.OTHERWISE
    waited_s = failed.waited_s or 0.0
    if failed.subcategory is None and any(as_slow(call, waited_s) for call in calls):
        return Comparison.OTHERWISE
    return Comparison.ANSWERED


def _alike(call: ReferenceCall, failed: Failure) -> bool:
    if failed.filtered:
        return call.reason == FILTERED
    if call.explained or (call.timed_out and not failed.silent):
        return False
    return call.subcategory is failed.subcategory or (failed.silent and call.timed_out)


def as_slow(call: ReferenceCall, waited_s: float) -> bool:
    """Return True if a question was silent for as long as an agent waited that gave up."""
    return call.duration_s >= waited_s >= SLOW_S
