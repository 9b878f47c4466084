"""The health of a lane now, in one word, decided from its calls by minute.

A lane is an upstream, a model and a key, and a server where answers tell servers apart. Only
failures of the provider or the operator count: `lane_failures` leaves out what an agent may have
caused, and `lane_health` decides the word. Both are pure; times are seconds since the epoch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from classifier.records import Ending, KeySource
from classifier.statistics import Z, wilson
from classifier.verdicts import Subcategory

OUTAGE_STATUSES = frozenset((502, 503, 504, 529))
"""Statuses that no request brings about by itself, as a rule."""
MINUTE_S = 60
WINDOW_MINUTES = 5
"""Minutes over which failures are weighed together; more where there are few calls."""
SCARCE_MINUTES = 30
"""Minutes that are looked back where the window holds fewer calls than `SCARCE`."""
SCARCE = 12
FEWEST_DOWN, FEWEST_DEGRADED, FEWEST_CALLS = 4, 5, 5
"""The floor of volume: failed calls below which nothing is down or degraded, and answered calls
below which nothing is healthy."""
TOLERATED = 0.05
"""The share of failed calls that a healthy lane may have; degraded is above it, beyond doubt."""
_Z_DEGRADED = 4.0  # one in 30,000: lanes are looked at all the time
_DOWN = 0.5  # share of failed calls, beyond doubt at 97.5 %, from which on a lane is down
_BY_CHANCE = 0.01  # of as many answers in a row while the lane fails as before


class LaneWord(StrEnum):
    """The health of a lane in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"  # too few calls


# --- failures that count ---


class LaneFailure(NamedTuple):
    """The facts of one failed call that say whose failure it may be; ``at`` is its start."""

    rollout_id: str
    at: float
    subcategory: Subcategory
    status: int | None = None
    ending: Ending | None = None
    held: bool | None = None
    key_source: KeySource | None = None
    injected: bool = False


def lane_failures(
    failed: Iterable[LaneFailure], answered: Iterable[tuple[float, str]]
) -> list[LaneFailure]:
    """Return the failures of one lane that are the provider's or the operator's, oldest first.

    A rejected or injected request and one that its agent held back count never. An outage (502,
    503, 504, 529, a connection that is refused or cut), or a failure of the operator's key, counts
    unless one rollout alone has it while others are answered. All others, which an agent can bring
    about by itself (a burst over the limit, a misspelt model, a request that the engine dies of),
    count once three rollouts fail alike. Of a rollout no more count than twice those of the one
    that has the third most (once, where that has one), so that one agent's many weigh little beside
    others' few.

    Arguments:
        answered: when other calls of the lane began that were answered, and of which rollouts.
    """
    alike: defaultdict[Subcategory, list[LaneFailure]] = defaultdict(list)
    for call in sorted(failed, key=lambda call: (call.at, call.rollout_id)):
        if not _never_counts(call):
            alike[call.subcategory].append(call)
    others = sorted(answered)
    counted = [
        call
        for calls in alike.values()
        for together in _together(calls)
        for call in _shared(together, others)
    ]
    return sorted(counted, key=lambda call: call.at)


def _together(calls: Sequence[LaneFailure]) -> Iterator[list[LaneFailure]]:
    """Part failures alike where none is for a while; others' failures then prove nothing."""
    part: list[LaneFailure] = []
    for call in calls:
        if part and call.at - part[-1].at > _APART_S:
            yield part
            part = []
        part.append(call)
    if part:
        yield part


def _never_counts(call: LaneFailure) -> bool:
    withheld = bool(call.held) and (call.ending is not Ending.COMPLETE or call.status == 408)
    return call.injected or withheld or call.subcategory is Subcategory.REJECTED_REQUEST


def _shared(
    calls: Sequence[LaneFailure], answered: Sequence[tuple[float, str]]
) -> Sequence[LaneFailure]:
    """Return those of some failures alike that are not one agent's own."""
    if len({call.rollout_id for call in calls}) < _ALIKE:
        calls = [call for call in calls if _beyond_an_agent(call)]
    if not calls:
        return ()
    (most, _), *more = counts = Counter(call.rollout_id for call in calls).most_common()
    if not more:
        begin = bisect_left(answered, (calls[0].at, ""))
        end = bisect_left(answered, (calls[-1].at, ""))
        return () if any(each != most for _, each in answered[begin:end]) else calls
    third = counts[min(len(counts), _ALIKE) - 1][1]
    limit = 2 * third if third > 1 else 1
    taken: Counter[str] = Counter()
    kept = []
    for call in calls:
        taken[call.rollout_id] += 1
        if taken[call.rollout_id] <= limit:
            kept.append(call)
    return kept


_ALIKE = 3  # rollouts
_APART_S = 600.0


def _beyond_an_agent(call: LaneFailure) -> bool:
    if call.subcategory is Subcategory.PROVIDER_ERROR:
        cut = call.ending in (Ending.NEVER_CONNECTED, Ending.CUT_UPSTREAM)
        return cut or call.status in OUTAGE_STATUSES
    own = call.key_source in (KeySource.OPERATOR, KeySource.ADDED)
    return own and call.subcategory in (Subcategory.AUTH, Subcategory.QUOTA)


# --- the word ---


_NONE: Mapping[str, float] = MappingProxyType({})


class LaneMinute(NamedTuple):
    """The calls of a lane that began in one minute; counts may be estimates.

    ``failed`` counts those that count, by cause; ``pending`` are in flight and not overdue, so that
    failures, which end sooner than answers, are not all that is seen of the last minute.
    """

    minute: int
    answered: float = 0.0
    pending: float = 0.0
    failed: Mapping[str, float] = _NONE

    @property
    def failures(self) -> float:
        """All that failed in it."""
        return sum(self.failed.values()) if self.failed else 0.0

    @property
    def calls(self) -> float:
        """All that began in it, whatever an agent caused left out."""
        return self.answered + self.pending + self.failures


def failures_by_minute(failures: Iterable[LaneFailure]) -> dict[int, Counter[str]]:
    """Count failures by minute since the epoch, and by cause."""
    failed: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for call in failures:
        failed[int(call.at // MINUTE_S)][call.subcategory.value] += 1
    return failed


def minutes_of(
    answered: Mapping[int, float],
    failed: Mapping[int, Mapping[str, float]],
    *,
    pending: Mapping[int, float] | None = None,
) -> list[LaneMinute]:
    """Return the calls of each minute, oldest first.

    Arguments:
        answered: counts by minute since the epoch, as ``pending`` are.
        failed: counts by minute and cause of those that count (`lane_failures`).
    """
    open_ = pending or {}
    return [
        LaneMinute(
            minute, answered.get(minute, 0.0), open_.get(minute, 0.0), failed.get(minute, _NONE)
        )
        for minute in sorted({*answered, *failed, *open_})
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReference:
    """The last reference call to a lane, and its result; None: it is no evidence."""

    at: float
    answered: bool | None
    subcategory: Subcategory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHealth:
    """The word and its evidence.

    ``calls`` and ``failed`` are those of the time that was weighed, since ``weighed_from``;
    ``share_low`` is Wilson's lower bound of their share. ``since`` is when it began to fail and
    ``cause`` the most frequent one, None if it does not. ``waiting`` calls are in flight for
    longer than the lane ever takes. ``episodes`` are the times in which it failed, oldest first.
    """

    word: LaneWord
    calls: float
    failed: Mapping[str, float]
    share_low: float | None
    weighed_from: float | None
    since: float | None = None
    cause: str | None = None
    last_at: float | None = None
    waiting: int = 0
    reference: LastReference | None = None
    episodes: Sequence[Episode] = ()

    @property
    def failures(self) -> float:
        """All that failed in the time that was weighed."""
        return sum(self.failed.values())


class Episode(NamedTuple):
    """A time in which a lane was not healthy; ``until`` is None while it lasts."""

    since: float
    until: float | None
    word: LaneWord
    cause: str
    failed: float
    calls: float


def lane_health(
    minutes: Iterable[LaneMinute],
    now: float,
    *,
    waiting: int = 0,
    reference: LastReference | None = None,
) -> LaneHealth:
    """Decide the health of a lane.

    It is degraded or down once the share of failed calls is beyond doubt too high, in the last
    minute or the last few, and stays so until as many calls in a row were answered as would be by
    chance once in a hundred times. What is not called any more stays as it was.

    Arguments:
        minutes: in any order; those without a call may be missing.
        waiting: calls in flight that are overdue; they are said, and decide nothing.
        reference: the last one; one that failed after the last call keeps a lane from being
            healthy, and one that was answered ends nothing: it is one call.
    """
    known = _ordered(minutes)
    found = _episodes(known)
    last = found[-1] if found else None
    if last is not None and last.until is None:
        recent = _weighed([each for each in known if each.minute * MINUTE_S >= last.since])
        failing = _failing(last, recent, known, waiting=waiting, reference=reference)
        return replace(failing, episodes=found)
    after = -math.inf if last is None or last.until is None else last.until
    recent = [m for m in _weighed(known) if m.minute * MINUTE_S >= after]
    fresh = [m for m in recent if m.minute > now / MINUTE_S - SCARCE_MINUTES]
    failed = _failed(fresh)
    calls = sum(m.calls for m in fresh)
    enough = sum(m.answered for m in fresh) >= FEWEST_CALLS and not _denied(reference, known)
    return LaneHealth(
        word=LaneWord.HEALTHY if enough else LaneWord.UNKNOWN,
        calls=calls,
        failed=failed,
        share_low=_low(sum(failed.values()), calls),
        weighed_from=fresh[0].minute * MINUTE_S if fresh else None,
        last_at=known[-1].minute * MINUTE_S if known else None,
        waiting=waiting,
        reference=reference,
        episodes=found,
    )


def episodes(minutes: Iterable[LaneMinute]) -> list[Episode]:
    """Return the times in which a lane was not healthy, oldest first."""
    return _episodes(_ordered(minutes))


def _ordered(minutes: Iterable[LaneMinute]) -> list[LaneMinute]:
    return sorted((m for m in minutes if m.calls > 0), key=lambda m: m.minute)


def _failing(
    last: Episode,
    recent: Sequence[LaneMinute],
    known: Sequence[LaneMinute],
    *,
    waiting: int,
    reference: LastReference | None,
) -> LaneHealth:
    failed, calls = _failed(recent), sum(m.calls for m in recent)
    low = _low(sum(failed.values()), calls)
    return LaneHealth(
        word=_word(sum(failed.values()), calls),
        calls=calls,
        failed=failed,
        share_low=low,
        weighed_from=recent[0].minute * MINUTE_S,
        since=last.since,
        cause=max(failed, key=lambda cause: (failed[cause], cause), default=last.cause),
        last_at=known[-1].minute * MINUTE_S,
        waiting=waiting,
        reference=reference,
    )


def _word(failed: float, calls: float) -> LaneWord:
    low = _low(failed, calls)
    return LaneWord.DOWN if low is not None and low > _DOWN else LaneWord.DEGRADED


def _denied(reference: LastReference | None, known: Sequence[LaneMinute]) -> bool:
    """Return True if a reference failed after the last call began."""
    if reference is None or reference.answered is not False:
        return False
    return not known or reference.at >= (known[-1].minute + 1) * MINUTE_S


def _low(failed: float, calls: float, z: float = Z) -> float | None:
    return None if calls <= 0 else wilson(min(1.0, failed / calls), calls, z=z)[0]


def _failed(minutes: Iterable[LaneMinute]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for m in minutes:
        for cause, count in m.failed.items():
            total[cause] += count
    return dict(total)


def _weighed(known: Sequence[LaneMinute]) -> list[LaneMinute]:
    """Return the last minutes that are weighed together: more of them where calls are scarce."""
    if not known:
        return []
    last, calls = known[-1].minute, 0.0
    taken: list[LaneMinute] = []
    for m in reversed(known):
        age = last - m.minute
        if age >= SCARCE_MINUTES or (age >= WINDOW_MINUTES and calls >= SCARCE):
            break
        taken.append(m)
        calls += m.calls
    return taken[::-1]


def _episodes(known: Sequence[LaneMinute]) -> list[Episode]:
    found: list[Episode] = []
    began: int | None = None  # place of the minute from which on it is beyond doubt
    first = 0  # place of the minute with which the episode began
    free = 0  # place of the first minute that belongs to no episode
    sums = [(m.failures, m.calls) for m in known]
    if all(failed <= TOLERATED * calls for failed, calls in sums):
        return []  # nor do any minutes together fail more
    for n, m in enumerate(known):
        if began is None:
            if not m.failed:
                continue
            began = _begin(known, sums, free, n)
            first = n if began is None else _first(known, sums, free, began, n)
        elif _recovered(known[began : n + 1]):
            found.append(_episode(known[first : n + 1], until=m.minute * MINUTE_S))
            began, free = None, n + 1
    if began is not None:
        found.append(_episode(known[first:], until=None))
    return found


def _begin(
    known: Sequence[LaneMinute], sums: Sequence[tuple[float, float]], free: int, at: int
) -> int | None:
    """Return the place of the minute with which a failure begins that is beyond doubt.

    It is one of those that are weighed together with the minute at a place (`_weighed`).

    Arguments:
        sums: failures and calls of each minute.
        free: place of the first minute that may belong to it.
    """
    last, failed, total = known[at].minute, 0.0, 0.0
    for n in range(at, free - 1, -1):
        age = last - known[n].minute
        if age >= SCARCE_MINUTES or (age >= WINDOW_MINUTES and total >= SCARCE):
            return None
        failures, calls = sums[n]
        failed += failures
        total += calls
        if failures and _beyond_doubt(failed, total):
            return n
    return None


def _first(
    known: Sequence[LaneMinute],
    sums: Sequence[tuple[float, float]],
    free: int,
    began: int,
    at: int,
) -> int:
    """Return the place of the first minute that failed as much as those that leave no doubt.

    Arguments:
        began, at: places of the first and the last of these.
    """
    failed, calls = (sum(part) for part in zip(*sums[began : at + 1], strict=True))
    first = began
    while first > free and known[at].minute - known[first - 1].minute < SCARCE_MINUTES:
        before, total = sums[first - 1]
        if before * calls < failed * total:
            break
        first -= 1
    return first


def _beyond_doubt(failed: float, calls: float) -> bool:
    if failed < FEWEST_DOWN or failed <= TOLERATED * calls:  # no bound is above the share itself
        return False
    if failed >= FEWEST_DOWN and _word(failed, calls) is LaneWord.DOWN:
        return True
    return failed >= FEWEST_DEGRADED and (_low(failed, calls, _Z_DEGRADED) or 0.0) > TOLERATED


def _recovered(since: Sequence[LaneMinute]) -> bool:
    """Return True if so many calls in a row were answered that the failure must be over."""
    answered, place = 0.0, len(since)
    while place and not since[place - 1].failed:
        place -= 1
        answered += since[place].answered
    before = since[:place]
    calls = sum(m.calls for m in before)
    share = sum(m.failures for m in before) / calls if calls else 1.0
    needed = math.log(_BY_CHANCE) / math.log(max(1e-9, 1 - share)) if share < 1 else 0.0
    return answered >= max(FEWEST_CALLS, needed)


def _episode(within: Sequence[LaneMinute], *, until: float | None) -> Episode:
    failed = _failed(within)
    during = [m for m in within if until is None or m.minute * MINUTE_S < until]
    calls = sum(m.calls for m in during)
    return Episode(
        since=within[0].minute * MINUTE_S,
        until=until,
        word=_word(sum(failed.values()), calls),
        cause=max(failed, key=lambda cause: (failed[cause], cause)),
        failed=sum(failed.values()),
        calls=calls,
    )
