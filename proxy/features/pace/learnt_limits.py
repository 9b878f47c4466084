"""The rules of learnt limits: what a 429 teaches that no stated limit explains, and how it is kept.

Functions of numbers, without a clock or a state: `LimitEstimator` counts calls and asks here.
A rate is in calls a second of the whole lane, times are in seconds.

**What is learnt.** A provider that states no limit counts calls over time (a bucket, a window) or
calls under way. A 429 does not say which, so that both are learnt of it: a rate, and a number of
calls at once. An *episode* begins with a 429 and ends with the first call, sent after it, that is
let in. The provider's bucket is empty then, whatever its size. Between two such moments it lets in
what came back in the meantime: the calls let in, over the seconds between the ends of two
episodes, are the limit. No size of a bucket and no length of a window has to be known.

**How a rate is kept.** Right after a 429 the rate v falls to v(1 - D), as the provider has nothing
left; it is v again after K seconds, on TCP CUBIC's curve (RFC 9438), which is flat there:

    rate(t) = v (1 - D (1 - t/K)³)

The curve is odd around K: what it leaves on the way to v, D·v·K/4, it takes beyond v by 2K. So a
bucket of rate v that holds as much, and was empty, is empty again at 2K: all of the limit was used,
and one 429 came in 2K. If none came by then, v is too low; from there the rate doubles in each T
seconds. Measured, this used 98 to 101 % of an unstated limit, where a fall by a tenth and a rise
of a two-hundredth a second used 85 to 89 % (docs/measurements/pace.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FEWEST_AT_ONCE = 2
"""Calls at once, however many 429s come."""

_DROP = 0.1  # D: with K, a bucket wins back half a second's calls
_BACK_S = 20.0  # K, of a lane with many calls: a 429 in 40 s if the limit stays
_BACK_CALLS = 10.0  # a slow lane's K is longer by so many calls: fewer would tell little
_DOUBLED_S = 20.0  # T: as long as K, so that a limit ten times as high is found in some 100 s
_SLOWEST = 0.2  # calls a second, however many 429s come: only a call shows that one may go
_FORGOTTEN_S = 600.0  # without a 429: the rate has doubled over twenty times by then

_TELLING = 5  # calls let in: of fewer, one more or less changes their rate by over a fifth
_TELLING_S = 2.5  # in which they were, as processes report each second how many others' were
_WELL = 20  # calls let in, from which one more or less changes their rate by a twentieth
_SHORT_S = 2.0  # of an episode, in which the end of no window was waited for
_SAME = 0.05  # by which rates differ that two processes learnt from the same 429s

_FEW = 16  # calls at once, up to which a rate is learnt in any case
_SLOW_S = 2.0  # to be answered, from which a rate is learnt only if a window was waited for
_ONE_MORE = 0.1  # calls at once, added each second: one in ten seconds

_IN_VAIN = 3  # 429s in a row, from which all wait for one call to be let in
_PAUSE_S = 0.5  # between calls in vain, at first; it doubles each time
_LONGEST_PAUSE_S = 8.0  # the most that is lost once calls are let in again


@dataclass(frozen=True, slots=True)
class LearntLimit:
    """A limit of a whole lane that a 429 taught: its ``value`` then, and monotonic seconds."""

    value: float
    at: float

    def rate(self, now: float) -> float:
        """Return it as a rate, as of now."""
        return rate_after(self.value, now - self.at)

    def at_once(self, now: float) -> float:
        """Return it as a number of calls at once, as of now."""
        return at_once_after(self.value, now - self.at)

    def precedes(self, other: LearntLimit) -> bool:
        """Return True if the other was learnt later, and holds for the lane."""
        return other.at > self.at


# --- how a limit is kept -----------------------------------------------------------------------


def recovery_s(rate: float) -> float:
    """Return K: the time after which a rate is as high again as it was learnt."""
    return _BACK_S + _BACK_CALLS / rate


def rate_after(rate: float, since_s: float) -> float:
    """Return the rate so long after the 429 that taught it; infinity once it is forgotten."""
    if since_s > _FORGOTTEN_S:
        return math.inf
    recovery = recovery_s(rate)
    past = max(0.0, since_s) / recovery  # clocks of replicas differ
    faster_s = (past - 2) * recovery
    if faster_s > 0:
        return rate * (1 + _DROP) * 2 ** (faster_s / _DOUBLED_S)
    return rate * (1 - _DROP * (1 - past) ** 3)


def at_once_after(number: float, since_s: float) -> float:
    """Return the calls at once so long after the 429 that taught them: they rise evenly."""
    return math.inf if since_s > _FORGOTTEN_S else number + _ONE_MORE * since_s


def pause_after(pause_s: float) -> float:
    """Return the pause before the next call, if that before the last one was in vain."""
    return min(max(2 * pause_s, _PAUSE_S), _LONGEST_PAUSE_S)


# --- what an episode teaches -------------------------------------------------------------------


def in_vain(refusals: int) -> bool:
    """Return True if so many 429s in a row say that nothing is let in at the moment."""
    return refusals >= _IN_VAIN


def shown_at_once(under_way: float, peak: float) -> float:
    """Return the calls at once that the provider is known to let in.

    Arguments:
        under_way: beside the call that met a 429.
        peak: that were all let in before.
    """
    return max(FEWEST_AT_ONCE, under_way, peak)


def tells_number(at_once: float, latency_s: float) -> bool:
    """Return True if a 429 tells of calls at once first, False if of a rate.

    Of a number if calls are many or take long: a rate refuses calls by when they begin.
    """
    return at_once > _FEW or latency_s > _SLOW_S


def number_stands(refusals: int, episode_s: float) -> bool:
    """Return True if the end of an episode bears out that it told of calls at once.

    A place is free as soon as one of the calls ends; a bucket or a window takes longer.
    """
    return not in_vain(refusals) and episode_s < _SHORT_S


def tells_rate(calls: float, since_s: float, *, first: bool) -> bool:
    """Return True if calls let in since the last episode are enough to tell a rate of."""
    return calls >= _TELLING and (first or since_s >= _TELLING_S)


def at_least(rate: float) -> float:
    """Return a rate that is not so low that nothing would be learnt of it any more."""
    return max(rate, _SLOWEST)


def rate_between(
    mean: float, met: float, *, since_s: float, episode_s: float, before: float, was_free: bool
) -> float:
    """Return the limit, from the rate let in on the mean and the one at which the 429 came.

    It lies between them. The mean is right if the bucket was as empty at the last episode's end as
    it is now, and tells of enough calls; the other is right if it was neared slowly.

    Arguments:
        met: infinity if what was learnt before had been forgotten: the mean alone tells then.
        since_s: from the end of the last episode to that of this one.
        episode_s: from this one's 429 to its end.
        before: the rate that was learnt last.
        was_free: some calls waited for no rate: less was let in than might have been.
    """
    if math.isinf(met):
        return mean
    mean = min(mean, met)
    is_near = mean > met * (1 - 2 * _DROP)
    neared = episode_s < max(_SHORT_S, 2 / met) and since_s > recovery_s(before)
    if neared and is_near:
        return met  # as the bucket's size does not matter then
    if neared or is_near or was_free:
        return (mean + met) / 2
    known = min(mean * since_s / _WELL, 1.0)
    return mean * known + met * (1 - known)


def same_rate(one: float, other: float) -> bool:
    """Return True if two processes learnt a rate from the same 429s."""
    return math.isclose(one, other, rel_tol=_SAME)
