"""The rules of a lane: who waits, who tries, when the next try is due, and what counts.

A lane is an upstream, a model and a key. While it answers others, a failed try counts. While it is
down nobody new starts and nothing is counted: the first that waits is the probe when one is due,
after 1, 2, 4 and up to 60 seconds, and its answer releases all. All is pure; times are seconds
since the epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from classifier.lane_health import FEWEST_DOWN, LaneTally
from classifier.verdicts import Subcategory

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Seconds between two tries, which grow from the one to the other."""
LOOKED_BACK_S = 600.0
"""Seconds that tell whether a lane is down: it is tried once a minute at least while any waits."""
PENDING_S = 30.0
"""Seconds for which a call in flight may still be answered."""
BELIEVED_S = 60.0
"""Seconds for which a lane is believed to be down on the word of fewer than four new tasks."""
FORGIVEN_S = 3_600.0
"""Seconds that a lane may answer nobody until tries on it count all the same."""
COOL_DOWN_S, LONGEST_COOL_DOWN_S = 60.0, 600.0
"""Seconds until an open breaker admits a probe: doubled with each one that fails."""
FORGOTTEN_S = 600.0
"""Seconds after which an open breaker's probe of which nothing is heard has failed."""
LOOK_S = 10.0
"""The longest time in seconds after which one that waits asks again."""
_STAGGERED = 0.25  # of the time since a failure, in which all come back once a probe is answered
_PERMANENT = frozenset((Subcategory.AUTH, Subcategory.QUOTA, Subcategory.MODEL_NOT_FOUND))


def wait_s(failed: int, *, first_s: float = FIRST_WAIT_S, most_s: float = LONGEST_WAIT_S) -> float:
    """Return the longest wait in seconds after so many failures in a row before the last one."""
    exponent = min(max(failed, 0), 64)  # beyond, the longest has long been reached
    return min(first_s * 2.0**exponent, most_s)


def cool_down_s(failed_probes: int) -> float:
    """Return for how many seconds a breaker admits nobody after so many probes that failed."""
    return wait_s(failed_probes, first_s=COOL_DOWN_S, most_s=LONGEST_COOL_DOWN_S)


# --- whether it is down ------------------------------------------------------------------------


class State(StrEnum):
    """The answer of a lane to one that asks to start."""

    ANSWERING = "answering"  # start
    PROBING = "probing"  # start: it is the probe
    WAITING = "waiting"  # ask again


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Failures on a lane since it last answered anybody, that are not an agent's own.

    ``since`` and ``last`` are when the first and the last failed call began; ``failed`` counts the
    rollouts that made them, and ``cause`` is their most frequent one.
    """

    since: float
    last: float
    failed: int
    cause: str

    def is_down(self, pending: int) -> bool:
        """Return True if nobody is to start but a probe.

        Arguments:
            pending: rollouts with calls in flight that began meanwhile and may be answered.
        """
        return self.failed >= FEWEST_DOWN and self.failed > pending

    def next_at(self, probed_at: float | None) -> float:
        """Return when the next probe is due: so long after the last as the lane fails by then.

        Arguments:
            probed_at: when the last probe was let go; until a call fails after that, it is out.
        """
        if probed_at is not None and probed_at > self.last:
            return probed_at + LONGEST_WAIT_S
        return self.last + min(FIRST_WAIT_S + self.last - self.since, LONGEST_WAIT_S)


def silence(tallies: Iterable[LaneTally]) -> Silence | None:
    """Return the failures since a lane last answered; None if it did after the last of them.

    Permanent failures, which waiting does not mend, are passed over.

    Arguments:
        tallies: of its minutes, of all its keys, in any order.
    """
    known = list(tallies)
    answered = max((each.last_answered_at or 0.0 for each in known), default=0.0)
    names: set[str] = set()
    causes: Counter[str] = Counter()
    starts: list[float] = []
    more = 0
    for each in known:
        for name, calls in each.failing.items():
            for cause, failures in calls.failed.items():
                if failures.last > answered and cause not in _PERMANENT:
                    names.add(name)
                    causes[cause] += failures.calls
                    starts += [at for at in (failures.first, failures.last) if at > answered]
        unnamed = {cause: n for cause, n in each.more_failing.items() if cause not in _PERMANENT}
        if unnamed and (each.last_failed_at or 0.0) > answered:
            starts.append(each.last_failed_at or 0.0)
            causes.update(unnamed)
            more += sum(unnamed.values())
    if not starts:
        return None
    cause = max(causes, key=lambda cause: (causes[cause], cause))
    return Silence(since=min(starts), last=max(starts), failed=len(names) + more, cause=cause)


class TurnTaken(NamedTuple):
    """The answer to one that asks to start; ``ask_s``: after how many seconds to ask again."""

    state: State
    ask_s: float = 0.0
    next_at: float | None = None


def turn(
    silent: Silence | None,
    *,
    pending: int,
    probed_at: float | None,
    now: float,
    drawn: float,
) -> TurnTaken:
    """Decide whether one that asks may start on a lane.

    The caller has to note a probe before the next one asks.

    Arguments:
        drawn: a number from 0 to 1, so that those that wait do not come back together.
    """
    if silent is None or not silent.is_down(pending):
        return TurnTaken(State.ANSWERING)
    due = silent.next_at(probed_at)
    if due <= now:
        return TurnTaken(State.PROBING)
    out = probed_at is not None and probed_at > silent.last
    soon = _STAGGERED * (now - silent.last) if out else due - now
    most = min(max(soon, FIRST_WAIT_S), LOOK_S)
    return TurnTaken(State.WAITING, most * (1 + drawn) / 2, due)


def sentence(name: str, silent: Silence, taken: TurnTaken, *, now: float) -> str:
    """Return a sentence that says since when a lane is down, and when the next try is due."""
    since = datetime.fromtimestamp(silent.since, UTC)
    down = f"{name} has answered nobody since {since:%Y-%m-%dT%H:%M:%SZ} ({silent.cause})"
    if taken.next_at is None:
        return f"{down}: this is the next try"
    return f"{down}: the next try is due in {max(taken.next_at - now, 0.0):.0f} s"


# --- what counts -------------------------------------------------------------------------------


class Spell(NamedTuple):
    """A time in which a lane answered nobody.

    ``until`` is when the first call after it began that was answered, None while it lasts.
    ``failed`` counts the tasks, or their repeats, that failed in it; while it lasts only those that
    did at their first try: who is left at a batch's end may be a few that always fail.
    """

    until: float | None
    failed: int

    @property
    def proven(self) -> bool:
        """Return True if it was the lane that failed, and not a few tasks of theirs."""
        return self.failed >= FEWEST_DOWN


class Counted(NamedTuple):
    """The number of tries at a task that count, and whether the last one does."""

    counted: int
    last_counts: bool


def tries(begins: Sequence[float], spell_at: Callable[[float], Spell], *, now: float) -> Counted:
    """Count the tries at a task that failed while its lane answered others.

    Counted in one time without an answer count once, when it is over, unless so many failed in it
    that it was the lane. While it lasts they do not count, unless it lasts for an hour, or too few
    failed in it: then each does after a minute, or at once at a task that failed beside answers.

    Arguments:
        begins: of the failures of each try, oldest first, this one's last.
        spell_at: returns the time without an answer around a failure.
    """
    counted, place = 0, 0
    while True:
        begin = begins[place]
        spell = spell_at(begin)
        within = [at for at in begins[place:] if spell.until is None or at < spell.until]
        place += max(len(within), 1)
        if spell.until is not None:
            counted += not spell.proven
            if place >= len(begins):
                return Counted(counted, not spell.proven)
            continue
        if now - begin > FORGIVEN_S:
            return Counted(counted + len(within), last_counts=True)
        believed_s = 0.0 if counted else BELIEVED_S
        late = 0 if spell.proven else sum(at - begin >= believed_s for at in within)
        return Counted(counted + late, late > 0)


def repetitions(cause: str | None, earlier: Sequence[str]) -> int:
    """Count the attempts in a row, the last one included, with this cause; 0 for None."""
    if cause is None:
        return 0
    count = 1
    for before in reversed(earlier):
        if before != cause:
            break
        count += 1
    return count
