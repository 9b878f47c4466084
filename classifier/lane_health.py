"""The health of a lane now, in one word, decided from its calls by minute.

A lane is an upstream, a model and a key, and a server where answers tell servers apart. Rollouts
are weighed, not calls: `weighed` gives each one vote a minute and leaves out failures that an agent
may have caused, and `lane_health` decides the word. All is pure; times are seconds since the epoch.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
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
"""Minutes that are looked back where the window holds fewer votes than `SCARCE`."""
SCARCE = 12
FEWEST_DOWN, FEWEST_DEGRADED, FEWEST_CALLS = 4, 5, 5
"""The floor of volume: votes for a failure below which nothing is down or degraded, and answered
calls below which nothing is healthy."""
TOLERATED = 0.05
"""The share of failures that a healthy lane may have; degraded is above it, beyond doubt."""
_Z_DEGRADED = 3.5  # one in 4,300: lanes are looked at all the time
_DOWN = 0.5  # share of failures, beyond doubt at 97.5 %, from which on a lane is down
_BY_CHANCE = 0.01  # of as many answers in a row while the lane fails as before


_NONE: Mapping[str, float] = MappingProxyType({})


class LaneWord(StrEnum):
    """The health of a lane in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"  # too few calls


# --- votes ---
#
# A rollout has one vote a minute on a lane that it called, however many calls it made: the share of
# them that failed is for a failure, the rest for an answer.


NAMED_ANSWERING, NAMED_FAILING = 24, 64
"""Rollouts that are told apart in a minute by name; further ones are counted."""
_ALIKE = 3  # rollouts
_APART = 10  # minutes


class Failures(NamedTuple):
    """The failed calls of one rollout with one cause in one minute that may be the lane's.

    ``outage``: an agent does not bring such a failure about by itself. ``first`` and ``last`` are
    starts of calls, in seconds since the epoch; ``seconds`` has a bit for each second of the minute
    in which one began.
    """

    calls: int
    outage: bool
    first: float
    last: float
    seconds: int = 0

    def begins(self) -> Iterator[float]:
        """Yield when its calls began: the first and the last exactly, others to the second."""
        yield self.first
        minute = self.first // MINUTE_S * MINUTE_S
        between = self.seconds & ~(second_of(self.first) | second_of(self.last))
        for second in range(MINUTE_S) if between else ():
            if between >> second & 1:
                yield minute + second
        yield self.last


def second_of(at: float) -> int:
    """Return the bit of a time in `Failures.seconds`."""
    return 1 << int(at % MINUTE_S)


class RolloutCalls(NamedTuple):
    """The calls of one rollout in one minute of a lane: answered ones, and failures by cause."""

    answered: int
    failed: Mapping[str, Failures]


class Vote(NamedTuple):
    """The part of a rollout's vote that is for failures, and these."""

    part: float
    failures: Failures


class Alike(NamedTuple):
    """The votes of a minute for failures with one cause, by rollout.

    ``total`` is their sum; ``failing_from`` when the first of these calls after the minute's last
    answered one began, else the first, None without any.
    """

    votes: Mapping[str, Vote]
    total: float
    failing_from: float | None


def _alike(votes: Mapping[str, Vote], answered_at: float | None) -> Alike:
    total = sum(vote.part for vote in votes.values())
    return Alike(votes, total, _begin((of for _, of in votes.values()), answered_at))


def _begin(failures: Iterable[Failures], answered_at: float | None) -> float | None:
    """Return when the first of these calls after an answered one began, else the first of all."""
    first = after = math.inf
    for of in failures:
        first = min(first, of.first)
        if answered_at is None or of.first > answered_at:
            after = min(after, of.first)
        elif of.last > answered_at:
            after = min(after, *(at for at in of.begins() if at > answered_at))
    return after if after < math.inf else first if first < math.inf else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTally:
    """The counts of one lane's calls that began in one minute.

    ``calls`` have ended; those that neither failed nor were answered were left by their agents.
    ``failed`` counts all failures by cause, whosever they are. ``answering`` and ``failing`` are
    rollouts by name, with their calls; ``more_answering`` and ``more_failing`` (by cause) count
    rollouts beyond those, and ``more_seconds`` are theirs as of `Failures`. ``own_key``: a setting
    of the operator's has the key. Times are starts, in seconds since the epoch.
    """

    minute: int
    calls: int
    answered: int
    failed: Mapping[str, int]
    first_failed_at: float | None = None
    last_failed_at: float | None = None
    last_answered_at: float | None = None
    own_key: bool = False
    answering: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, RolloutCalls] = field(default_factory=dict)
    more_answering: int = 0
    more_failing: Mapping[str, int] = field(default_factory=dict)
    more_seconds: Mapping[str, int] = field(default_factory=dict)
    _alike: dict[str, Alike] = field(default_factory=dict, init=False, compare=False, repr=False)

    def alike(self) -> Mapping[str, Alike]:
        """Return the votes for failures that rollouts may have, by cause; computed once."""
        if not self._alike and self.failing:
            causes: defaultdict[str, dict[str, Vote]] = defaultdict(dict)
            for name, of in self.failing.items():
                calls = of.answered + sum(each.calls for each in of.failed.values())
                for cause, failures in of.failed.items():
                    causes[cause][name] = Vote(failures.calls / calls, failures)
            for cause, votes in causes.items():
                self._alike[cause] = _alike(votes, self.last_answered_at)
        return self._alike

    @property
    def last_at(self) -> float | None:
        """Start of the last call that was answered or failed; None if all were left."""
        return _of(max, (self.last_failed_at, self.last_answered_at))

    def more_failing_from(self, cause: str) -> float | None:
        """Return what `Alike` has of the rollouts beyond those that are named, to the second."""
        begin = self.minute * float(MINUTE_S)
        seconds = self.more_seconds.get(cause, 0)
        starts = [begin + second for second in range(MINUTE_S) if seconds >> second & 1]
        later = [at for at in starts if at > (self.last_answered_at or 0.0)]
        return min(later or starts, default=None)


def vote_of(
    subcategory: str,
    *,
    status: int | None,
    ending: str | None,
    held: bool | None,
    key_source: str | None,
    injected: bool,
) -> bool | None:
    """Return whether a failed call votes against its lane whoever else fails.

    True for an outage (502, 503, 504, 529, a connection that is refused or cut) and for a failure
    of the operator's key. False for what an agent can bring about by itself (a burst over the
    limit, a misspelt model, a request that the engine dies of), which votes once three rollouts
    fail alike. None for what never votes: a rejected or injected request, and one that its agent
    held back.
    """
    withheld = bool(held) and (ending != Ending.COMPLETE or status == 408)
    if injected or withheld or subcategory == Subcategory.REJECTED_REQUEST:
        return None
    if subcategory == Subcategory.PROVIDER_ERROR:
        cut = ending in (Ending.NEVER_CONNECTED, Ending.CUT_UPSTREAM)
        return cut or status in OUTAGE_STATUSES
    own = key_source in (KeySource.OPERATOR, KeySource.ADDED)
    return own and subcategory in (Subcategory.AUTH, Subcategory.QUOTA)


def merged(tallies: Sequence[LaneTally]) -> LaneTally:
    """Add up what several processes and servers counted of the same minute of a lane."""
    first = tallies[0]
    if len(tallies) == 1:
        return first
    failed: Counter[str] = Counter()
    more: Counter[str] = Counter()
    more_seconds: dict[str, int] = {}
    answering: Counter[str] = Counter()
    failing: dict[str, RolloutCalls] = {}
    for each in tallies:
        failed.update(each.failed)
        more.update(each.more_failing)
        for cause, seconds in each.more_seconds.items():
            more_seconds[cause] = more_seconds.get(cause, 0) | seconds
        answering.update(each.answering)
        for name, calls in each.failing.items():
            failing[name] = _both(failing[name], calls) if name in failing else calls
    for name in failing.keys() & answering.keys():
        of = failing[name]
        failing[name] = RolloutCalls(of.answered + answering.pop(name), of.failed)
    return LaneTally(
        minute=first.minute,
        calls=sum(each.calls for each in tallies),
        answered=sum(each.answered for each in tallies),
        failed=failed,
        first_failed_at=_of(min, [each.first_failed_at for each in tallies]),
        last_failed_at=_of(max, [each.last_failed_at for each in tallies]),
        last_answered_at=_of(max, [each.last_answered_at for each in tallies]),
        own_key=any(each.own_key for each in tallies),
        answering=answering,
        failing=failing,
        more_answering=sum(each.more_answering for each in tallies),
        more_failing=more,
        more_seconds=more_seconds,
    )


def _of(pick: Callable[[Iterable[float]], float], times: Iterable[float | None]) -> float | None:
    known = [at for at in times if at is not None]
    return pick(known) if known else None


def _both(one: RolloutCalls, other: RolloutCalls) -> RolloutCalls:
    failed = dict(one.failed)
    for cause, new in other.failed.items():
        old = failed.get(cause, new)
        failed[cause] = Failures(
            new.calls + (old.calls if cause in one.failed else 0),
            old.outage or new.outage,
            min(old.first, new.first),
            max(old.last, new.last),
            old.seconds | new.seconds,
        )
    return RolloutCalls(one.answered + other.answered, failed)


def weighed(
    tallies: Sequence[LaneTally],
    *,
    pending: Mapping[int, int] | None = None,
    explained: Callable[[str, Failures], bool] | None = None,
) -> list[LaneMinute]:
    """Return a lane's minutes with the votes of its rollouts.

    An outage votes unless one rollout alone has it while others are answered. What an agent can
    bring about by itself votes once three rollouts fail alike. No rollout has more votes in a row
    than twice the one that has the third most (one, where that has one), so that one agent's many
    weigh little beside others' few.

    Arguments:
        tallies: one a minute, oldest first.
        pending: rollouts that have calls in flight which are not overdue, by minute.
        explained: whether a reference question was answered beside a rollout's failures.
    """
    votes: dict[int, dict[str, float]] = {}
    begins: dict[int, list[float]] = {}
    failing: defaultdict[str, list[tuple[LaneTally, Alike]]] = defaultdict(list)
    for each in tallies:
        for cause in (causes := each.alike()).keys() | each.more_failing.keys():
            alike = causes.get(cause, _NOBODY)
            if explained is not None:
                kept = {
                    name: vote
                    for name, vote in alike.votes.items()
                    if not explained(name, vote.failures)
                }
                alike = _alike(kept, each.last_answered_at)
            if alike.votes or cause in each.more_failing:
                failing[cause].append((each, alike))
    for cause in sorted(failing):
        for together in _together(failing[cause]):
            for at, share, begin in _shared(together, cause, tallies):
                votes.setdefault(at, {})[cause] = share
                if begin is not None:
                    begins.setdefault(at, []).append(begin)
    open_ = pending or {}
    known = {each.minute: each for each in tallies}
    return [
        _minute(known.get(at), at, open_.get(at, 0), votes.get(at, _NONE), begins.get(at, ()))
        for at in sorted({*known, *open_})
    ]


_NOBODY = Alike({}, 0.0, None)
_Together = Sequence[tuple[LaneTally, Alike]]


def _together(alike: _Together) -> Iterator[_Together]:
    """Part failures alike where none is for a while; others' failures then prove nothing."""
    part: list[tuple[LaneTally, Alike]] = []
    for each in alike:
        if part and each[0].minute - part[-1][0].minute > _APART:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _shared(
    together: _Together, cause: str, tallies: Sequence[LaneTally]
) -> Iterator[tuple[int, float, float | None]]:
    """Yield minutes with the votes of failures alike that are not one agent's own.

    Each has the time since when they fail, as of `Alike`.
    """
    minutes = Counter(chain.from_iterable(alike.votes for _, alike in together))
    more = sum(each.more_failing.get(cause, 0) for each, _ in together)
    if len(minutes) + more < _ALIKE:
        together = [(each, _outages(each, alike)) for each, alike in together]
        minutes = Counter(chain.from_iterable(alike.votes for _, alike in together))
        if not minutes or (
            len(minutes) == 1 and _others_answered(together, next(iter(minutes)), tallies)
        ):
            return
    third = sorted(minutes.values(), reverse=True)[:_ALIKE][-1] if minutes else 1
    limit = 2 * third if third > 1 else 1
    if len(minutes) + more > 1 and any(count > limit for count in minutes.values()):
        together = _limited(together, limit)
    for each, alike in together:
        if share := alike.total + each.more_failing.get(cause, 0):
            more_from = each.more_failing_from(cause)
            yield each.minute, share, _earlier(alike.failing_from, more_from, each.last_answered_at)


def _earlier(one: float | None, other: float | None, answered_at: float | None) -> float | None:
    """Return the earlier of two times, of those after an answer if there are any."""
    known = [at for at in (one, other) if at is not None]
    later = [at for at in known if answered_at is None or at > answered_at]
    return min(later or known, default=None)


def _outages(tally: LaneTally, alike: Alike) -> Alike:
    kept = {name: vote for name, vote in alike.votes.items() if vote.failures.outage}
    return _alike(kept, tally.last_answered_at)


def _limited(together: _Together, limit: int) -> _Together:
    """Leave no rollout more votes than the limit, its first ones."""
    taken: Counter[str] = Counter()
    limited = []
    for each, alike in together:
        taken.update(alike.votes.keys())
        kept = {name: vote for name, vote in alike.votes.items() if taken[name] <= limit}
        limited.append(
            (each, alike if len(kept) == len(alike.votes) else _alike(kept, each.last_answered_at))
        )
    return limited


def _others_answered(together: _Together, name: str, tallies: Sequence[LaneTally]) -> bool:
    """Return True if others were answered between the failures of the only one that fails."""
    theirs = [alike.votes[name].failures for _, alike in together if name in alike.votes]
    first, last = min(of.first for of in theirs), max(of.last for of in theirs)
    return any(
        first // MINUTE_S <= each.minute <= last // MINUTE_S
        and (each.last_answered_at or 0.0) > first
        and _answered_others(each, name)
        for each in tallies
    )


def _answered_others(tally: LaneTally, name: str) -> bool:
    if tally.more_answering or tally.answering.keys() - {name}:
        return True
    return any(of.answered for other, of in tally.failing.items() if other != name)


def _minute(
    tally: LaneTally | None,
    minute: int,
    pending: int,
    failed: Mapping[str, float],
    begins: Sequence[float],
) -> LaneMinute:
    if tally is None:
        return LaneMinute(minute, pending=pending)
    answered = len(tally.answering) + tally.more_answering + len(tally.failing)
    answered_at = tally.last_answered_at
    later = [at for at in begins if answered_at is None or at > answered_at]
    return LaneMinute(
        minute, answered - sum(each.total for each in tally.alike().values()), pending, failed,
        tally.answered, min(later or begins, default=None), answered_at,
    )  # fmt: skip


# --- the word ---


class LaneMinute(NamedTuple):
    """The votes of a lane's rollouts in one minute.

    ``failed`` has those for a failure, by cause; ``pending`` rollouts have calls in flight that are
    not overdue, so that failures, which end sooner than answers, are not all that is seen of the
    last minute. ``answers`` counts answered calls. ``failing_from`` is when the first failed call
    after the minute's last answered one began, else the first failed one.
    """

    minute: int
    answered: float = 0.0
    pending: float = 0.0
    failed: Mapping[str, float] = _NONE
    answers: int = 0
    failing_from: float | None = None
    last_answered_at: float | None = None

    @property
    def failures(self) -> float:
        """All votes for a failure."""
        return sum(self.failed.values()) if self.failed else 0.0

    @property
    def votes(self) -> float:
        """All votes."""
        return self.answered + self.pending + self.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReference:
    """The last reference call to a lane, and its result; None: it is no evidence."""

    at: float
    answered: bool | None
    subcategory: Subcategory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHealth:
    """The word and its evidence.

    ``votes`` and ``failed``, those for a failure by cause, are of the time that was weighed, since
    ``weighed_from``; ``share_low`` is Wilson's lower bound of their share. ``since`` is when the
    first failed call after the last answered one began, None if that is not known, and ``cause``
    the most frequent cause; both None if the lane does not fail. ``answered_at`` is when its last
    answered call began. ``waiting``
    calls are in flight for longer than the lane ever takes. ``episodes`` are the times in which it
    failed, oldest first.
    """

    word: LaneWord
    votes: float
    failed: Mapping[str, float]
    share_low: float | None
    weighed_from: float | None
    since: float | None = None
    cause: str | None = None
    answered_at: float | None = None
    waiting: int = 0
    reference: LastReference | None = None
    episodes: Sequence[Episode] = ()

    @property
    def failures(self) -> float:
        """All votes for a failure in the time that was weighed."""
        return sum(self.failed.values())


class Episode(NamedTuple):
    """A time in which a lane was not healthy; ``until`` is None while it lasts.

    ``since`` is when its first failed call began, None if that is not known, and ``answered_at``
    when the last answered one before it did, None if none is known. ``minute`` is that with which
    it was beyond doubt, which may be the one after ``since``.
    """

    since: float | None
    until: float | None
    word: LaneWord
    cause: str
    minute: int
    answered_at: float | None = None


def lane_health(
    minutes: Iterable[LaneMinute],
    now: float,
    *,
    waiting: int = 0,
    reference: LastReference | None = None,
) -> LaneHealth:
    """Decide the health of a lane.

    It is degraded or down once the share of failures is beyond doubt too high, in the last minute
    or the last few, and stays so until as many votes in a row are for an answer as would be by
    chance once in a hundred times. What is not called any more stays as it was.

    Arguments:
        minutes: in any order; those without a vote may be missing.
        waiting: calls in flight that are overdue; they are said, and decide nothing.
        reference: the last one; one that failed after the last call keeps a lane from being
            healthy, and one that was answered ends nothing: it is one call.
    """
    known = _ordered(minutes)
    found = _episodes(known)
    last = found[-1] if found else None
    fails = last is not None and last.until is None
    if last is not None and last.until is None:
        recent = _weighed([each for each in known if each.minute >= last.minute])
    else:
        after = -math.inf if last is None or last.until is None else last.until // MINUTE_S
        oldest = now / MINUTE_S - SCARCE_MINUTES
        recent = [m for m in _weighed(known) if m.minute >= after and m.minute > oldest]
    failed = _failed(recent)
    failures, votes = sum(failed.values()), sum(m.votes for m in recent)
    health = LaneHealth(
        word=LaneWord.UNKNOWN,
        votes=votes,
        failed=failed,
        share_low=_low(failures, votes),
        weighed_from=recent[0].minute * MINUTE_S if recent else None,
        answered_at=_of(max, [each.last_answered_at for each in known]),
        waiting=waiting,
        reference=reference,
        episodes=found,
    )
    if last is not None and fails:
        cause = max(failed, key=lambda cause: (failed[cause], cause), default=last.cause)
        return replace(health, word=_word(failures, votes), since=last.since, cause=cause)
    if sum(m.answers for m in recent) >= FEWEST_CALLS and not _denied(reference, known):
        return replace(health, word=LaneWord.HEALTHY)
    return health


def episodes(minutes: Iterable[LaneMinute]) -> list[Episode]:
    """Return the times in which a lane was not healthy, oldest first."""
    return _episodes(_ordered(minutes))


def _ordered(minutes: Iterable[LaneMinute]) -> list[LaneMinute]:
    return sorted((m for m in minutes if m.votes > 0), key=lambda m: m.minute)


def _word(failed: float, votes: float) -> LaneWord:
    low = _low(failed, votes)
    return LaneWord.DOWN if low is not None and low > _DOWN else LaneWord.DEGRADED


def _denied(reference: LastReference | None, known: Sequence[LaneMinute]) -> bool:
    """Return True if a reference failed after the last call began."""
    if reference is None or reference.answered is not False:
        return False
    return not known or reference.at >= (known[-1].minute + 1) * MINUTE_S


def _low(failed: float, votes: float, z: float = Z) -> float | None:
    return None if votes <= 0 else wilson(min(1.0, failed / votes), votes, z=z)[0]


def _failed(minutes: Iterable[LaneMinute]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for m in minutes:
        for cause, count in m.failed.items():
            total[cause] += count
    return dict(total)


def _weighed(known: Sequence[LaneMinute]) -> list[LaneMinute]:
    """Return the last minutes that are weighed together: more of them where votes are scarce."""
    if not known:
        return []
    last, votes = known[-1].minute, 0.0
    taken: list[LaneMinute] = []
    for m in reversed(known):
        age = last - m.minute
        if age >= SCARCE_MINUTES or (age >= WINDOW_MINUTES and votes >= SCARCE):
            break
        taken.append(m)
        votes += m.votes
    return taken[::-1]


def _episodes(known: Sequence[LaneMinute]) -> list[Episode]:
    found: list[Episode] = []
    began: int | None = None  # place of the minute from which on it is beyond doubt
    first = 0  # place of the minute with which the episode began
    free = 0  # place of the first minute that belongs to no episode
    sums = [(m.failures, m.votes) for m in known]
    if all(failed <= TOLERATED * votes for failed, votes in sums):
        return []  # nor do any minutes together fail more
    for n, m in enumerate(known):
        if began is None:
            if not m.failed:
                continue
            began = _begin_of(known, sums, free, n)
            first = n if began is None else _first(known, sums, free, began, n)
        elif _recovered(known[began : n + 1]):
            since = _since(known, free, first)
            until = m.minute * float(MINUTE_S)
            found.append(_episode(known[first : n + 1], known[: first + 1], since, until=until))
            began, free = None, n + 1
    if began is not None:
        since = _since(known, free, first)
        found.append(_episode(known[first:], known[: first + 1], since, until=None))
    return found


def _since(known: Sequence[LaneMinute], free: int, first: int) -> float | None:
    """Return the start of the first failed call after the last answered one, None if not known.

    An outage begins within a minute, most of whose calls may have been answered before.

    Arguments:
        free: place of the first minute that may belong to it.
        first: place of the first minute that failed beyond doubt.
    """
    place = first
    while place > free and known[place].last_answered_at is None:
        before = known[place - 1]
        if before.failing_from is None or before.failing_from < (before.last_answered_at or 0.0):
            break
        place -= 1
    return known[place].failing_from


def _begin_of(
    known: Sequence[LaneMinute], sums: Sequence[tuple[float, float]], free: int, at: int
) -> int | None:
    """Return the place of the minute with which a failure begins that is beyond doubt.

    It is one of those that are weighed together with the minute at a place (`_weighed`).

    Arguments:
        sums: failures and votes of each minute.
        free: place of the first minute that may belong to it.
    """
    last, failed, total = known[at].minute, 0.0, 0.0
    for n in range(at, free - 1, -1):
        age = last - known[n].minute
        if age >= SCARCE_MINUTES or (age >= WINDOW_MINUTES and total >= SCARCE):
            return None
        failures, votes = sums[n]
        failed += failures
        total += votes
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
    failed, votes = (sum(part) for part in zip(*sums[began : at + 1], strict=True))
    first = began
    while first > free and known[at].minute - known[first - 1].minute < SCARCE_MINUTES:
        before, total = sums[first - 1]
        if before * votes < failed * total:
            break
        first -= 1
    return first


def _beyond_doubt(failed: float, votes: float) -> bool:
    if failed < FEWEST_DOWN or failed <= TOLERATED * votes:  # no bound is above the share itself
        return False
    if failed >= FEWEST_DOWN and _word(failed, votes) is LaneWord.DOWN:
        return True
    return failed >= FEWEST_DEGRADED and (_low(failed, votes, _Z_DEGRADED) or 0.0) > TOLERATED


def _recovered(since: Sequence[LaneMinute]) -> bool:
    """Return True if so many votes in a row are for an answer that the failure must be over."""
    answered, place = 0.0, len(since)
    while place and not since[place - 1].failed:
        place -= 1
        answered += since[place].answered
    before = since[:place]
    votes = sum(m.votes for m in before)
    share = sum(m.failures for m in before) / votes if votes else 1.0
    needed = math.log(_BY_CHANCE) / math.log(max(1e-9, 1 - share)) if share < 1 else 0.0
    return answered >= max(FEWEST_CALLS, needed)


def _episode(
    within: Sequence[LaneMinute],
    before: Sequence[LaneMinute],
    since: float | None,
    *,
    until: float | None,
) -> Episode:
    """Return a time with what is known of it.

    Arguments:
        before: the minutes up to that with which it began.
    """
    failed = _failed(within)
    during = [m for m in within if until is None or m.minute * MINUTE_S < until]
    return Episode(
        since=since,
        until=until,
        word=_word(sum(failed.values()), sum(m.votes for m in during)),
        cause=max(failed, key=lambda cause: (failed[cause], cause)),
        minute=within[0].minute,
        answered_at=_answered_before(before, since),
    )


def _answered_before(minutes: Sequence[LaneMinute], since: float | None) -> float | None:
    """Return when the last answered call before a time began, as far as minutes tell."""
    answered_at = _of(max, [each.last_answered_at for each in minutes])
    if since is None or answered_at is None or answered_at > since:
        return None
    return answered_at
