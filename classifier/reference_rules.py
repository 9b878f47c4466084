"""The rules of reference calls: what the proxy asks beside a failure, when, and what answers prove.

A question has the model's name and the request form of the failed call. `classifier.attribution`
says what a verdict makes of the comparison; docs/concepts/judging.md explains it ("The reference
call").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from classifier.logical_calls import FILTERED, canonical
from classifier.references import UNASKABLE, AskedBy, ReferenceCall, ReferenceSeries
from classifier.verdicts import Comparison, Subcategory

W = TypeVar("W")  # a request form ("way"): API, path, version, tier and flags


# --- what is asked: the name -------------------------------------------------------------------


class Use(NamedTuple):
    """The calls of one rollout to an upstream with one model name and API, streamed or not.

    ``answered``: the model itself answered at least one, under the name ``answered_model``.
    """

    rollout_id: str
    model: str | None
    api: str
    streamed: bool | None
    answered: bool
    answered_model: str | None = None


class AskedName(NamedTuple):
    """The model name of a question; ``spelled``: another spelling, if the first is not found."""

    model: str | None
    spelled: str | None = None


def name_to_ask(
    called: str | None, registered: Sequence[str], uses: Iterable[Use], *, upstream: str = ""
) -> AskedName:
    """Return the model name to ask for: the failed call's model or a registered one, no other.

    Arguments:
        called: the model name of the failed call.
        registered: the model names that the rollout was registered with.
        uses: the calls of its rollout and of others of the batch to its upstream, newest first.
        upstream: the upstream's name, which registered names may have as a prefix.
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
    """Return the names under which the model answered before; empty: any name will do.

    Arguments:
        uses: the calls of the lane, of any rollout.
    """
    names = {x.answered_model for x in uses if x.answered and x.model in asked}
    return tuple(sorted(name for name in names if name))


# --- what is asked: the form -------------------------------------------------------------------


def usual_way(own: W, plain: W, others: Mapping[W, int]) -> tuple[W, AskedBy] | None:
    """Return the form to try if the failed call's own form fails; None if its own is the usual one.

    An upstream's plain form always counts as usual: no agent chose it to make a call fail.

    Arguments:
        own: the form of the failed call.
        plain: the plainest form of the upstream for the model.
        others: how many other rollouts of the batch use each form for the model.
    """
    usual = max(others, key=lambda way: others[way], default=plain)
    if own in (plain, usual):
        return None
    return usual, AskedBy.SHARED if own in others else AskedBy.USUAL


def usually_streams(rollout_id: str, uses: Collection[Use]) -> bool:
    """Return True unless the rollout was answered before, and no rollout by a stream.

    Streaming is then its agent's own choice, and a broken stream may be too.
    """
    answered = [x for x in uses if x.answered]
    own = any(x.rollout_id == rollout_id for x in answered)
    return not own or any(x.streamed for x in answered)


def nearest_api(own: str, uses: Iterable[Use], plain: Mapping[str, str]) -> str | None:
    """Return the API of the question about a call: its own, else that of the last answered call.

    None if no plain question exists for either.

    Arguments:
        own: the API of the failed call.
        uses: calls to the upstream, those of the rollout first.
        plain: the API of the plain question, by the API of the call.
    """
    answered = (x.api for x in uses if x.answered)
    return next((plain[api] for api in (own, *answered) if api in plain), None)


# --- when it is asked --------------------------------------------------------------------------


LANE_A_MINUTE = 12
"""The most series of one lane, in any form."""
ALL_A_MINUTE = 60
"""The most series of the whole service."""
MINUTE_S = 60.0
_AT_ENDS = 3  # one in three of both is kept for failures that an outcome waits for
_FARTHEST_S = 300.0  # the most between series that fail alike
_AWAITED_S = 5.0  # the same, if an outcome waits for one


def a_minute(most: int, *, awaited: bool) -> int:
    """Return how many of the ``most`` series a minute there may be: a third is for awaited ones."""
    return most if awaited else most - most // _AT_ENDS


def due_at(
    series: Sequence[ReferenceSeries], now: float, *, way: str | None = None, awaited: bool = False
) -> float:
    """Return when a lane may be asked again, in epoch seconds.

    A lane has at most twelve series a minute, eight of them for failures that nobody waits for, so
    that these leave some for a rollout's last failure. While series of one form fail alike, the
    time between two starts at a second and doubles up to five minutes.

    Arguments:
        series: the lane's series that asked something, the newest first.
        now: in epoch seconds.
        way: the form of the next series.
        awaited: an outcome waits, so series that fail alike are at most five seconds apart.
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
    """Return the subcategory that the last question failed with; None if it did not fail."""
    last = series.calls[-1] if series.calls else None
    return last.subcategory if last is not None and last.answered is False else None


def told_to_wait(series: ReferenceSeries) -> float:
    """Return when the wait that a provider stated to a series ends, in epoch seconds; 0 if none."""
    waits = (call.ended_at + call.retry_after_s for call in series.calls if call.retry_after_s)
    return max(waits, default=0.0)


# --- how it is read ----------------------------------------------------------------------------


SLOW_S = 1.5
"""The shortest silence, in seconds, for which a slow one-word answer excuses an abandoned call."""


class Failure(NamedTuple):
    """A failed call, as a series is compared with it.

    ``subcategory``: None for a call that its agent gave up after ``waited_s`` seconds. ``silent``:
    it failed by silence or a time-out; only then a time-out of the reference is alike.
    ``filtered``: a content filter refused it.
    """

    subcategory: Subcategory | None
    silent: bool = False
    filtered: bool = False
    waited_s: float | None = None


def compare(series: ReferenceSeries | None, failed: Failure) -> Comparison | None:
    """Compare a failure with the series that was asked beside it; None while the series runs.

    If the failed call's own form fails and the usual form is answered, the failure is the agent's
    if no other rollout uses that form, else the provider is partly down. A call without a plain
    form of its own is compared with the usual form; if that says nothing, other rollouts' calls
    decide.
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
    if usual is Comparison.OTHERWISE:  # the upstream may not have that form at all
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
    """Return True if a question took as long as the agent waited before it gave its call up."""
    return call.duration_s >= waited_s >= SLOW_S
