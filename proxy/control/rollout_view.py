"""One rollout as its page shows it: attributes, outcome, verdict and a part of its calls."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, groupby
from typing import Any

from proxy.control import judge
from proxy.control.queries import Service, run_in_thread
from proxy.control.upstreams import series_facts
from proxy.routing.errors import Refusal
from proxy.store import statistics
from proxy.store.calls import known_calls, outline, some_of

# --- lines of calls: which are listed, and which fold into one ---------------------------------


Facts = Mapping[str, Any]

ITEMS = 36  # lines on one page
_FEW = 24  # calls of a rollout that are never folded
_LEAST = 4  # calls in a row that are worth folding


class CallFilter(StrEnum):
    """The calls that are listed."""

    FOLDED = "folded"
    ALL = "all"
    FAILED = "failed"
    PROOF = "proof"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedCalls:
    """Consecutive calls that went well: numbers ``first`` to ``last``.

    ``retried`` counts those that failed and whose model answered afterwards, by subcategory;
    ``ok`` the others. Tokens are sums of the known ones, None if none is known.
    """

    first: int
    last: int
    ok: int
    retried: Mapping[str, int]
    input_total: int | None
    output_total: int | None
    span_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CallList:
    """One page of lines: folds, and numbers of calls from 1.

    ``before`` and ``after`` are the numbers of the calls that the pages beside it begin with, None
    if there is none; ``failed`` counts the failed and unended calls of the whole rollout,
    ``foldable`` is True if the folded list differs from the whole one.
    """

    lines: Sequence[CollapsedCalls | int]
    before: int | None
    after: int | None
    failed: int
    foldable: bool


def call_list(
    calls: Sequence[Facts],
    *,
    marked: Collection[str],
    answered: Collection[str | None] = (),
    show: CallFilter = CallFilter.FOLDED,
    opened: tuple[int, int] | None = None,
    at: int = 1,
) -> CallList:
    """Lay out the lines of one page.

    Arguments:
        calls: the outline of all of a rollout's calls, oldest first.
        marked: ids that are evidence of the verdict or of a finding; they are never folded.
        answered: ids that prove that the model answered; with ``marked`` they are the proof.
        opened: numbers of the first and last call of a fold to list one by one.
        at: the number of a call that the page shows.
    """
    recovered = _recovered(calls)
    quiet = [
        call["id"] not in marked and _went_well(call, recovered=n in recovered)
        for n, call in enumerate(calls)
    ]
    folded = list(_folded(calls, quiet, opened))
    shown: Mapping[CallFilter, Sequence[CollapsedCalls | int]] = {
        CallFilter.FOLDED: folded,
        CallFilter.ALL: range(1, len(calls) + 1),
        CallFilter.FAILED: [n + 1 for n, call in enumerate(calls) if not _ok(call)],
        CallFilter.PROOF: [
            n + 1 for n, call in enumerate(calls) if call["id"] in {*marked, *answered}
        ],
    }
    lines = shown[show]
    begins = [line.first if isinstance(line, CollapsedCalls) else line for line in lines]
    place = max(0, bisect_right(begins, at) - 1) // ITEMS * ITEMS
    return CallList(
        lines=lines[place : place + ITEMS],
        before=begins[place - ITEMS] if place else None,
        after=begins[place + ITEMS] if place + ITEMS < len(lines) else None,
        failed=sum(not _ok(call) for call in calls),
        foldable=len(folded) < len(calls) or opened is not None,
    )


def _ok(call: Facts) -> bool:
    return call["ending"] == "complete" and call["subcategory"] is None


def _went_well(call: Facts, *, recovered: bool) -> bool:
    return _ok(call) or (recovered and call["subcategory"] is not None)


def _recovered(calls: Sequence[Facts]) -> frozenset[int]:
    """Return the places of failed calls after which the same model answered the same role."""
    answered: set[tuple[str, str | None]] = set()
    recovered = []
    for n in range(len(calls) - 1, -1, -1):
        call = calls[n]
        lane = (call["role"], call["model"])
        if _ok(call) and call["kind"] == "inference":
            answered.add(lane)
        elif call["subcategory"] is not None and lane in answered:
            recovered.append(n)
    return frozenset(recovered)


def _folded(
    calls: Sequence[Facts], quiet: Sequence[bool], opened: tuple[int, int] | None
) -> Iterator[CollapsedCalls | int]:
    few = len(calls) <= _FEW
    first, last = opened or (0, -1)

    def stays(n: int) -> bool:
        return few or not quiet[n] or first <= n + 1 <= last

    for listed, run in groupby(range(len(calls)), key=stays):
        places = list(run)
        if listed or len(places) < _LEAST:
            yield from (n + 1 for n in places)
        else:
            yield _fold(places[0] + 1, [calls[n] for n in places])


def _fold(first: int, calls: Sequence[Facts]) -> CollapsedCalls:
    retried = Counter(call["subcategory"] for call in calls if call["subcategory"] is not None)
    ended = max(call["started_at"] + (call["duration_s"] or 0.0) for call in calls)
    return CollapsedCalls(
        first=first,
        last=first + len(calls) - 1,
        ok=len(calls) - retried.total(),
        retried=dict(retried.most_common()),
        input_total=_sum_known(call["input_total"] for call in calls),
        output_total=_sum_known(call["output_total"] for call in calls),
        span_s=ended - min(call["started_at"] for call in calls),
    )


def _sum_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# --- the page's data ---------------------------------------------------------------------------


CALLS = 10_000  # of one rollout that a page looks at
PROVING = 6  # calls that are shown as the proof


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDetail:
    """The contents of a rollout's page.

    ``facts`` are its columns, ``outcome`` as the runner reported it (None before), ``known`` the
    counts of calls behind the verdict's sums; ``calls`` is the outline of the first of ``total``
    calls, ``marked`` the ids that are evidence, ``proof`` those that prove the verdict's sentence,
    the first ones. ``details`` has all fields of the proof and of the calls listed, by id;
    ``asked`` what the proxy asked the provider itself beside failed calls.
    """

    facts: Facts
    outcome: Facts | None
    verdict: Facts
    known: Facts
    calls: Sequence[Facts]
    total: int
    marked: Collection[str]
    proof: Sequence[str]
    listed: CallList
    details: Mapping[str, Facts]
    asked: Sequence[AskedSeries]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSeries:
    """A series that the proxy asked beside a failed call; ``facts`` as `series_facts` has it."""

    series: str
    beside: str
    result: str | None
    facts: Facts


async def rollout_detail(
    service: Service,
    rollout_id: str,
    *,
    show: CallFilter = CallFilter.FOLDED,
    opened: tuple[int, int] | None = None,
    at: int = 1,
) -> RolloutDetail:
    """Return one rollout and a page of its calls.

    Arguments:
        opened: numbers of the first and last call of a fold to list one by one.
        at: the number of a call that the page shows.

    Raises:
        Refusal: 404 for an unknown rollout.
    """
    verdict = await judge.verdict(service, rollout_id)
    row = await service.read(statistics.facts, rollout_id)
    if row is None:  # its only calls could not be recorded
        detail = f"no call of rollout {rollout_id!r} could be recorded"
        raise Refusal(404, "unknown_rollout", detail)
    outlined = await service.read(outline, rollout_id, limit=CALLS)
    calls, marked = outlined.calls, _marked(verdict)
    answered = _answered(verdict)
    listed = await run_in_thread(
        call_list, calls, marked=marked, answered=answered, show=show, opened=opened, at=at
    )
    deciding = deciding_calls(verdict)
    asked = [
        AskedSeries(
            series=each["series"], beside=each["exchange_id"], result=each["result"], facts=facts
        )
        for each in {each["series"]: each for each in verdict["references"]}.values()
        if (facts := await series_facts(service, each["series"])) is not None
    ]
    beside = [each.beside for each in asked]
    return RolloutDetail(
        facts=row,
        outcome=json.loads(row["outcome"]) if row["outcome"] else None,
        verdict=verdict,
        known=await service.read(known_calls, rollout_id),
        calls=calls,
        total=outlined.total,
        marked=marked,
        proof=deciding[:PROVING],
        listed=listed,
        details=await _details(service, rollout_id, calls, listed, [*deciding[:PROVING], *beside]),
        asked=asked,
    )


def deciding_calls(verdict: Facts) -> Sequence[str]:
    """Return the ids of the calls that the score hangs on.

    Those of the findings that take the score away, as of a dead judge; else the first and the last
    that the model answered if it was reached; else those of the rule.
    """
    named = verdict["excluded_by"]
    against = [each["evidence"] for each in verdict["validity"] if each["check"] in named]
    reached = _answered(verdict) if verdict["health"] == "healthy" else ()
    return list(dict.fromkeys(chain(*against))) or reached or verdict["evidence"]


def _answered(verdict: Facts) -> Sequence[str]:
    """Return the ids of the first and the last call that the model answered, as far as known."""
    proof = verdict["proof"] or {}
    return [*dict.fromkeys(filter(None, (proof.get("first"), proof.get("last"))))]


async def call_detail(service: Service, rollout_id: str, call_id: str) -> Facts:
    """Return all fields of one call.

    Raises:
        Refusal: 404 if the rollout has no such call.
    """
    calls = await _encoded(service, rollout_id, [call_id])
    if call_id not in calls:
        detail = f"rollout {rollout_id!r} has no call {call_id!r}"
        raise Refusal(404, "unknown_call", detail)
    number = await service.run(service.database.calls.number, rollout_id, call_id)
    return {**calls[call_id], "number": number}


async def _details(
    service: Service,
    rollout_id: str,
    calls: Sequence[Facts],
    listed: CallList,
    beside: Collection[str],
) -> Mapping[str, Facts]:
    shown = {line for line in listed.lines if not isinstance(line, CollapsedCalls)}
    numbers = {
        call["id"]: number
        for number, call in enumerate(calls, start=1)
        if number in shown or call["id"] in beside
    }
    details = await _encoded(service, rollout_id, [*numbers])
    return {
        each: {**details[each], "number": number}
        for each, number in numbers.items()
        if each in details
    }


async def _encoded(service: Service, rollout_id: str, ids: Sequence[str]) -> Mapping[str, Facts]:
    exchanges = await service.read(some_of, rollout_id, ids)
    encoded = await service.run(service.prices.encode, exchanges.values())
    return {call["id"]: call for call in encoded}


def _marked(verdict: Facts) -> frozenset[str]:
    """Return the calls that prove a verdict, of it or of a role, or a finding against it."""
    against = (each for each in verdict["validity"] if each["level"] != "info")
    parts = (*against, *verdict["roles"].values())
    return frozenset(verdict["evidence"]).union(*(part["evidence"] for part in parts))
