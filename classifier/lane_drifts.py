"""The drifts of a lane's answers against its own last seven days.

A lane that answers each call may still answer worse: with nothing, cut at a limit, or slowly. What
agents ask for moves such figures too, so that rollouts are counted and not calls, like is compared
with like, and a batch alone shows a drift only against itself. Pure; times are seconds since the
epoch.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from classifier.logical_calls import CUT_SHORT, REFUSALS, bare_reason
from classifier.records import DriftMeasure
from classifier.statistics import wilson

WINDOWS_MINUTES = (10, 20, 40, 60)
"""Minutes that are weighed: the least in which `ENOUGH` rollouts were answered."""
ENOUGH = 24
FEWEST = 8
"""Rollouts of a batch that show a drift, at least."""
FEWEST_USUAL = 20
"""Rollouts of the last seven days behind what is usual, at least."""
MORE = 0.1
"""The share of empty or of cut answers by which a drift is above the usual one, and twice it."""
TIMES = 2.0
"""The multiple of the usual time from which an answer is slow; nineteen in twenty are faster."""
SLOW_SHARE = 0.3
"""The share of slow answers from which on, beyond doubt, a lane drifts."""
EACH_S = 300.0
"""Seconds between the moments at which drifts are looked for."""
HELD_S = 600.0
"""Seconds for which a drift must not be seen before it is over."""
_Z = 3.0
_FEW_TOKENS = 16  # of an answer whose speed says something
_SHARES = (DriftMeasure.EMPTY_OR_REFUSED, DriftMeasure.CUT_AT_LIMIT)
_SLOW = 0.95


class Measured(NamedTuple):
    """One figure of an answer, and the kind of request that it is compared within.

    ``value`` is 1 or 0 of a share, else seconds, of a token or up to the first byte.
    """

    measure: DriftMeasure
    kind: Hashable
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneAnswer:
    """One answered call to a lane, as far as drifts are concerned; ``at`` is its start."""

    rollout_id: str
    batch: str | None
    at: float
    figures: Sequence[Measured]


def measured(
    *,
    streamed: bool | None,
    first_byte_s: float | None,
    duration_s: float | None,
    input_tokens: int | None,
    output_tokens: int | None,
    output_limit: int | None,
    finish_reason: str | None,
    content_seen: bool | None,
    weight_version: str | None,
) -> list[Measured]:
    """Return the figures of an answer, as far as they are known.

    What the request decides is in the kind: the limit of output that it set, by powers of two, the
    length of prompt and answer, by powers of four, and whether it asked for a stream. Weights that
    a trainer updates are another model, so that their answers are not compared.

    Arguments:
        input_tokens: those that no cache held.
        content_seen: text or a tool call came.
    """
    reason = bare_reason(finish_reason)
    asked = (_size(output_limit), weight_version)
    cut = reason in CUT_SHORT
    figures = []
    if reason:
        figures.append(Measured(DriftMeasure.CUT_AT_LIMIT, asked, float(cut)))
    if content_seen is not None or reason in REFUSALS:
        poor = not cut and (reason in REFUSALS or not content_seen)
        figures.append(Measured(DriftMeasure.EMPTY_OR_REFUSED, asked, float(poor)))
    if duration_s is None or first_byte_s is None or input_tokens is None:
        return figures
    sent = (_size(input_tokens, 2), streamed)
    if streamed:
        figures.append(Measured(DriftMeasure.FIRST_BYTE, sent, first_byte_s))
    if output_tokens is not None and output_tokens >= _FEW_TOKENS:
        wrote_s = duration_s - first_byte_s if streamed else duration_s
        kind = (*sent, _size(output_tokens, 2))
        figures.append(Measured(DriftMeasure.OUTPUT_SPEED, kind, wrote_s / output_tokens))
    return figures


def _size(count: int | None, bits: int = 1) -> int | None:
    """Return the class of a count: those of one class differ by less than a power of two."""
    return None if count is None else count.bit_length() // bits


# --- what is usual ---


class Usual(NamedTuple):
    """The usual figure of one kind of request, and what is clearly worse.

    Of a share ``limit`` is Wilson's upper bound, of a time what one answer in twenty takes.
    """

    typical: float
    limit: float


_Kind = tuple[DriftMeasure, Hashable]


def usual_of(answers: Iterable[LaneAnswer]) -> dict[_Kind, Usual]:
    """Return what is usual by kind of request, where enough rollouts tell.

    Each rollout weighs the same in a share, however many calls it made.
    """
    values: defaultdict[_Kind, defaultdict[str, list[float]]]
    values = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        for measure, kind, value in answer.figures:
            values[measure, kind][answer.rollout_id].append(value)
    return {
        kind: _usual(kind[0], list(of_rollouts.values()))
        for kind, of_rollouts in values.items()
        if len(of_rollouts) >= FEWEST_USUAL
    }


def _usual(measure: DriftMeasure, of_rollouts: Sequence[Sequence[float]]) -> Usual:
    if measure in _SHARES:
        share = sum(map(_mean, of_rollouts)) / len(of_rollouts)
        return Usual(share, wilson(share, len(of_rollouts))[1])
    every = sorted(value for values in of_rollouts for value in values)
    typical = median(every)
    worst = every[min(len(every) - 1, int(_SLOW * len(every)))]
    return Usual(typical, max(worst, TIMES * typical))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class LaneUsual:
    """The answers of a lane of its last seven days, and what is usual by them."""

    def __init__(self, answers: Sequence[LaneAnswer]) -> None:
        self._answers = answers
        self._of_batches: dict[str | None, dict[_Kind, Usual]] = {}
        self.of_lane = usual_of(answers)

    def of_batch(self, batch: str | None) -> dict[_Kind, Usual]:
        """Return what is usual in one batch alone."""
        if batch not in self._of_batches:
            own = [each for each in self._answers if each.batch == batch]
            self._of_batches[batch] = usual_of(own)
        return self._of_batches[batch]


# --- drifts ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A time in which answers of a lane were worse than usual; ``until`` is None while it lasts.

    ``figure`` and ``usual`` are shares, or medians: output tokens a second, seconds up to the first
    byte. ``rollouts`` are those in which it was measured.
    """

    measure: DriftMeasure
    since: float
    until: float | None
    figure: float
    usual: float
    rollouts: int


def drifts(
    usual: LaneUsual, answers: Iterable[LaneAnswer], *, since: float, now: float
) -> list[Drift]:
    """Return the drifts of a lane that were seen from ``since`` to ``now``, oldest first.

    Arguments:
        answers: those that began then, and in the hour before it.
    """
    if not usual.of_lane:
        return []
    ordered = sorted(answers, key=lambda answer: answer.at)
    starts = [answer.at for answer in ordered]
    found: list[Drift] = []
    for moment in _moments(since, now):
        begin = bisect_left(starts, moment - WINDOWS_MINUTES[-1] * 60)
        end = bisect_right(starts, moment)
        seen = _seen(usual, ordered[begin:end], moment)
        found = _carried_on(found, seen, moment)
    return [_open(each, now) for each in sorted(found, key=lambda each: each.since)]


def _moments(since: float, now: float) -> list[float]:
    """Return the moments to look at, so that ``now`` is one, and others are the same each time."""
    steps = range(math.ceil(since / EACH_S), math.ceil(now / EACH_S))
    return [*(step * EACH_S for step in steps), now]


def _carried_on(found: list[Drift], seen: Iterable[Drift], moment: float) -> list[Drift]:
    """Join what is seen now to what was seen before; ``until`` is the last moment for now."""
    for drift in seen:
        for place, before in enumerate(found):
            last = before.until or 0.0
            if before.measure is drift.measure and min(drift.since, moment - HELD_S) <= last:
                worst = max(before, drift, key=lambda each: abs(each.figure - each.usual))
                found[place] = Drift(
                    measure=drift.measure, since=min(before.since, drift.since), until=moment,
                    figure=worst.figure, usual=worst.usual, rollouts=worst.rollouts,
                )  # fmt: skip
                break
        else:
            found.append(drift)
    return found


def _open(drift: Drift, now: float) -> Drift:
    lasts = drift.until is not None and drift.until > now - HELD_S
    return Drift(
        measure=drift.measure, since=drift.since, until=None if lasts else drift.until,
        figure=drift.figure, usual=drift.usual, rollouts=drift.rollouts,
    )  # fmt: skip


def _seen(usual: LaneUsual, answers: Sequence[LaneAnswer], moment: float) -> list[Drift]:
    """Return the drifts that the answers up to a moment show."""
    window = _window(answers, moment)
    batches: defaultdict[str | None, list[LaneAnswer]] = defaultdict(list)
    for answer in window:
        batches[answer.batch].append(answer)
    found = []
    for measure in DriftMeasure:
        shows = [
            batch
            for batch, theirs in batches.items()
            if _is_beyond(_rollouts(measure, usual.of_lane, theirs), measure)
        ]
        if len(shows) == 1:
            (batch,) = shows
            own = _rollouts(measure, usual.of_batch(batch), batches[batch])
            shows = shows if _is_beyond(own, measure) else []
        if shows:
            struck = [answer for answer in answers if answer.batch in shows]
            found.append(_drift(measure, usual.of_lane, struck, moment))
    return found


def _window(answers: Sequence[LaneAnswer], moment: float) -> Sequence[LaneAnswer]:
    starts = [answer.at for answer in answers]
    for minutes in WINDOWS_MINUTES:
        window = answers[bisect_left(starts, moment - minutes * 60) :]
        if len({answer.rollout_id for answer in window}) >= ENOUGH:
            return window
    return answers


class _OfRollout(NamedTuple):
    """One rollout's share of poor answers, and the one that is still usual."""

    share: float
    limit: float


def _rollouts(
    measure: DriftMeasure, usual: Mapping[_Kind, Usual], answers: Iterable[LaneAnswer]
) -> list[_OfRollout]:
    """Return the shares of each rollout of which some answers can be compared."""
    of_rollouts: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    is_share = measure in _SHARES
    for answer, value, known in _compared(measure, usual, answers):
        shown = (value, known.limit) if is_share else (float(value > known.limit), 0.0)
        of_rollouts[answer.rollout_id].append(shown)
    return [
        _OfRollout(_mean([share for share, _ in calls]), _mean([limit for _, limit in calls]))
        for calls in of_rollouts.values()
    ]


def _compared(
    measure: DriftMeasure, usual: Mapping[_Kind, Usual], answers: Iterable[LaneAnswer]
) -> Iterable[tuple[LaneAnswer, float, Usual]]:
    for answer in answers:
        for each, kind, value in answer.figures:
            if each is measure and (known := usual.get((each, kind))) is not None:
                yield answer, value, known


def _is_beyond(rollouts: Sequence[_OfRollout], measure: DriftMeasure) -> bool:
    """Return True if the share over rollouts is beyond doubt too high."""
    if len(rollouts) < FEWEST:
        return False
    share = _mean([each.share for each in rollouts])
    limit = _mean([each.limit for each in rollouts])
    most = max(2 * limit, limit + MORE) if measure in _SHARES else SLOW_SHARE
    return wilson(share, len(rollouts), z=_Z)[0] > most


def _drift(
    measure: DriftMeasure, usual: Mapping[_Kind, Usual], answers: Sequence[LaneAnswer], until: float
) -> Drift:
    compared = list(_compared(measure, usual, answers))
    figure, typical = _figures(measure, compared)
    too_much = [
        value - (figure + typical) / 2 if measure in _SHARES else (value > known.limit) - SLOW_SHARE
        for _, value, known in compared
    ]
    since = _began([answer.at for answer, _, _ in compared], too_much)
    compared = [each for each in compared if each[0].at >= since]
    figure, typical = _figures(measure, compared)
    if measure is DriftMeasure.OUTPUT_SPEED:
        figure, typical = 1 / max(figure, 1e-9), 1 / max(typical, 1e-9)
    return Drift(
        measure=measure,
        since=since,
        until=until,
        figure=figure,
        usual=typical,
        rollouts=len({answer.rollout_id for answer, _, _ in compared}),
    )


def _figures(
    measure: DriftMeasure, compared: Sequence[tuple[LaneAnswer, float, Usual]]
) -> tuple[float, float]:
    """Return the figure of some answers and the usual one: shares over rollouts, or medians."""
    if measure not in _SHARES:
        typical = median(known.typical for _, _, known in compared)
        return median(value for _, value, _ in compared), typical
    of_rollouts: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for answer, value, known in compared:
        of_rollouts[answer.rollout_id].append((value, known.typical))
    figures = [_mean([value for value, _ in calls]) for calls in of_rollouts.values()]
    usual = [_mean([typical for _, typical in calls]) for calls in of_rollouts.values()]
    return _mean(figures), _mean(usual)


def _began(at: Sequence[float], poor: Sequence[float]) -> float:
    """Return from when on the sum of what is too much is the largest."""
    place = sorted(range(len(at)), key=at.__getitem__)
    most, total, since = -math.inf, 0.0, at[place[-1]]
    for n in reversed(place):
        total += poor[n]
        if total >= most:
            most, since = total, at[n]
    return since


_DRIFTED = {
    DriftMeasure.EMPTY_OR_REFUSED: "{:.0%} of its answers are empty or refused, usually {:.0%}",
    DriftMeasure.CUT_AT_LIMIT: "{:.0%} of its answers are cut at a limit, usually {:.0%}",
    DriftMeasure.OUTPUT_SPEED: "it writes {:.1f} tokens a second, usually {:.1f}",
    DriftMeasure.FIRST_BYTE: "its first byte takes {:.1f} s, usually {:.1f} s",
}


def drift_sentence(measure: DriftMeasure, figure: float, usual: float) -> str:
    """Return a drift with its figure: ``it writes 12.0 tokens a second, usually 61.3``."""
    return _DRIFTED[measure].format(figure, usual)
