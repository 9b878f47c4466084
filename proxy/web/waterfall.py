"""Geometry of a rollout's calls along time, and of the map of all of them.

Horizontal positions are in percent, so that a chart fits any width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from proxy.web import badges
from proxy.web.badges import Badge

_PARTS = 100  # of a map, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallBar:
    """One call in a waterfall; positions in percent, times in seconds.

    ``findings`` are those that the call shows, by badge and check. ``wait`` is the position and
    width of the pause after a failed call, ``retry_of`` the number of the call that this one
    repeats.
    """

    number: int
    call: Mapping[str, Any]
    badge: Badge
    offset_s: float
    x: float
    width: float
    first_byte: float | None
    wait: tuple[float, float] | None
    waited_s: float | None
    retry_of: int | None
    evidence: bool
    findings: Sequence[tuple[Badge, str]]


def waterfall(
    calls: Sequence[Mapping[str, Any]],
    evidence: Iterable[str],
    *,
    now: float,
    shown: Mapping[str, Mapping[str, Any]] | None = None,
    findings: Sequence[Mapping[str, Any]] = (),
) -> list[WaterfallBar]:
    """Lay out a rollout's calls along time.

    Arguments:
        now: epoch seconds; where bars of calls in flight end.
        shown: the calls to return, by id, with all that is known of them; None is all.
        findings: the validity findings of the verdict; each marks its calls.
    """
    if not calls:
        return []
    start = min(call["started_at"] for call in calls)
    end = max(_ended(call, now) for call in calls)
    scale = 100 / max(end - start, 1e-6)
    proof, repeated = frozenset(evidence), _repeats(calls)
    following = [*calls[1:], None]
    return [
        _waterfall_bar(
            call if shown is None else shown[call["id"]],
            number=1 + n,
            start=start,
            scale=scale,
            ended=_ended(call, now),
            pause_until=after["started_at"] if after else None,
            retry_of=None if (place := repeated[n]) is None else 1 + place,
            evidence=call["id"] in proof,
            findings=[
                (badges.LEVELS[found["level"]], found["check"])
                for found in findings
                if call["id"] in found["evidence"]
            ],
        )
        for n, (call, after) in enumerate(zip(calls, following, strict=True))
        if shown is None or call["id"] in shown
    ]


def _ended(call: Mapping[str, Any], now: float) -> float:
    started: float = call["started_at"]
    if call["ending"] is None:
        return max(now, started)
    return started + float(call["duration_s"] or 0)


def _waterfall_bar(
    call: Mapping[str, Any],
    *,
    number: int,
    start: float,
    scale: float,
    ended: float,
    pause_until: float | None,
    retry_of: int | None,
    evidence: bool,
    findings: Sequence[tuple[Badge, str]],
) -> WaterfallBar:
    x = (call["started_at"] - start) * scale
    width = (ended - call["started_at"]) * scale
    waited = None
    if call["subcategory"] is not None and pause_until is not None and pause_until > ended:
        waited = pause_until - ended
    return WaterfallBar(
        number=number,
        call=call,
        badge=badges.of_call(call),
        offset_s=call["started_at"] - start,
        x=min(x, 99.5),
        width=max(width, 0.5),
        first_byte=call["first_byte_s"] * scale if call["first_byte_s"] else None,
        wait=None if waited is None else (x + width, waited * scale),
        waited_s=waited,
        retry_of=retry_of,
        evidence=evidence,
        findings=findings,
    )


def _repeats(calls: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Return for each call the index of the earlier failed call whose request it repeats."""
    failed: dict[str, int] = {}
    repeated: list[int | None] = []
    for n, call in enumerate(calls):
        digest = call["request_digest"]
        repeated.append(failed.get(digest) if digest else None)
        if digest and call["subcategory"] is not None:
            failed[digest] = n
    return repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """Consecutive calls in a map of all: numbers ``first`` to ``last``, ``x`` in percent.

    ``badge`` is that of the worst of them; ``marked`` where one is evidence or shows a finding.
    """

    first: int
    last: int
    badge: Badge
    label: str
    marked: bool
    x: float
    width: float


def call_map(calls: Sequence[Mapping[str, Any]], marked: Collection[str]) -> list[MapPart]:
    """Lay out all calls of a rollout in a row, each as wide as the others."""
    count = min(_PARTS, len(calls))
    edges = [len(calls) * n // count for n in range(count + 1)] if count else [0]
    return [
        _part(calls[begin:end], begin, marked, x=100 * n / count, width=100 / count)
        for n, (begin, end) in enumerate(pairwise(edges))
    ]


def _part(
    calls: Sequence[Mapping[str, Any]],
    begin: int,
    marked: Collection[str],
    *,
    x: float,
    width: float,
) -> MapPart:
    counts = Counter(badges.of_call(call) for call in calls)
    worst = min(counts, key=lambda badge: (badge == badges.HEALTHY, -counts[badge], badge.label))
    first, last = begin + 1, begin + len(calls)
    name = f"call {first}" if first == last else f"calls {first}–{last}"
    told = ", ".join(f"{count} {badge.label}" for badge, count in counts.most_common())
    return MapPart(
        first=first,
        last=last,
        badge=worst,
        label=f"{name}: {told}",
        marked=any(call["id"] in marked for call in calls),
        x=x,
        width=width,
    )
