"""Evidence beside a rollout's own calls: read while it is judged, kept by its final verdict.

Judging an export gives the same verdicts, because what they stood on is in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any

from classifier import codec, rules
from classifier.logical_calls import CallState, ended_at, is_abort, says_nothing, state_of
from classifier.neighbours import NEAR_S, neighbours_of
from classifier.records import (
    ABANDONED,
    UNATTRIBUTED,
    Exchange,
    Kind,
    Neighbours,
    RolloutRecord,
)
from classifier.references import NotRun, ReferenceSeries
from classifier.validity.surroundings import least_reward, rewarded
from classifier.verdicts import UNTRUSTED, Subcategory
from proxy.control.queries import Service
from proxy.feature import modules
from proxy.routing.keys import AGENT
from proxy.store.references import series_of
from proxy.store.tables import as_json


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceKind:
    """One kind of evidence.

    ``concerns`` is True of a rollout that it may say something of. ``load`` reads it, blocking.
    ``encode`` returns what a final verdict keeps of it, as JSON has it, None if there is none;
    ``decode`` is its reverse.
    """

    name: str
    concerns: Callable[[Service, RolloutRecord], bool]
    load: Callable[[Service, RolloutRecord], RolloutRecord]
    encode: Callable[[RolloutRecord], Any]
    decode: Callable[[RolloutRecord, Any], RolloutRecord]


@cache
def kinds() -> Sequence[EvidenceKind]:
    """Return all kinds, in the order in which they are read."""
    return [*_OWN, *(module.EVIDENCE for _, module in modules("evidence"))]


def with_evidence(
    service: Service, rollout: RolloutRecord, kept: Mapping[str, Any] | None
) -> RolloutRecord:
    """Return a rollout with all evidence: as a final verdict kept it, else as it is now.

    Arguments:
        kept: the evidence that its final verdict stands on, by kind; None if it has none.
    """
    for kind in kinds():
        if not kind.concerns(service, rollout):
            continue
        if kept is None:
            rollout = kind.load(service, rollout)
        elif kind.name in kept:
            rollout = kind.decode(rollout, kept[kind.name])
    return rollout


def stands_on(rollout: RolloutRecord) -> str | None:
    """Return the evidence that a verdict stands on, as its column has it; None without any."""
    encoded = {kind.name: kind.encode(rollout) for kind in kinds()}
    found = {name: each for name, each in encoded.items() if each is not None}
    return as_json(found) if found else None


def as_it_stood(rollout: RolloutRecord, column: str | None) -> RolloutRecord:
    """Return a rollout with the evidence that the column of its final verdict has."""
    found: Mapping[str, Any] = json.loads(column) if column else {}
    for kind in kinds():
        if kind.name in found:
            rollout = kind.decode(rollout, found[kind.name])
    return rollout


# --- neighbours of a failure -------------------------------------------------------------------
# Results that other rollouts got around it, read with bounded work and cached.


_FAILURES = 20  # of one rollout that are looked at, the last ones
_SPANS = 4  # times apart from each other that are read, the last ones
_LONGEST_S = 300.0  # a neighbour that began longer before the failures is not seen
_ROWS = 1000  # calls read before and after the end of one span
# Failures that the spelling of a model's name may bring about.
_SPELT = frozenset((Subcategory.MODEL_NOT_FOUND, Subcategory.RATE_LIMIT, Subcategory.QUOTA))


def _needs_neighbours(service: Service, rollout: RolloutRecord) -> bool:
    """Return True if a rollout's failures are weighed by others.

    A trusted agent needs neighbours once, for the details of the final verdict.
    """
    untrusted = _untrusted(service, rollout)
    return (untrusted or rollout.outcome is not None) and any(
        _may_matter(x, untrusted=untrusted) for x in rollout.exchanges
    )


def _untrusted(service: Service, rollout: RolloutRecord) -> bool:
    return (rollout.agents or service.policy.agents) == UNTRUSTED


def _may_matter(exchange: Exchange, *, untrusted: bool) -> bool:
    if exchange.role != "agent" or exchange.kind not in (Kind.INFERENCE, Kind.CONTINUATION):
        return False
    return exchange.failed or (untrusted and exchange.ending in ABANDONED)


def _with_neighbours(service: Service, rollout: RolloutRecord) -> RolloutRecord:
    """Return a rollout with the neighbours of its last failures."""
    untrusted, database = _untrusted(service, rollout), service.database
    failures = [x for x in rollout.exchanges if _may_matter(x, untrusted=untrusted)]
    last = sorted(failures, key=ended_at)[-_FAILURES:]
    neighbours: dict[str, Neighbours] = {}
    for span in _spans(last)[-_SPANS:]:
        first, end = ended_at(span[0]), ended_at(span[-1])
        others = database.calls.near(
            since=first - NEAR_S - _LONGEST_S,
            at=end,
            until=end + NEAR_S,
            upstreams={x.upstream for x in span},
            limit=_ROWS,
        )
        peers: Collection[str] = ()
        if any(x.cause is not None and x.cause.subcategory in _SPELT for x in span):
            peers = database.rollouts.registered_alike(rollout, {x.rollout_id for x in others})
        neighbours |= {x.id: neighbours_of(x, others, peers=peers) for x in span}
    return replace(rollout, neighbours=neighbours)


def _spans(failures: Iterable[Exchange]) -> list[list[Exchange]]:
    """Group failures, ordered by their ends, with less than a minute between two of a group."""
    spans: list[list[Exchange]] = []
    for failure in failures:
        if spans and ended_at(failure) - ended_at(spans[-1][-1]) < NEAR_S:
            spans[-1].append(failure)
        else:
            spans.append([failure])
    return spans


NEIGHBOURS = EvidenceKind(
    name="neighbours",
    concerns=_needs_neighbours,
    load=_with_neighbours,
    encode=lambda x: codec.encode_neighbours(x.neighbours) if x.neighbours else None,
    decode=lambda x, kept: replace(x, neighbours=codec.decode_neighbours(kept)),
)


# --- reference calls asked beside its failures -------------------------------------------------


ASKED_S = 60.0  # after an outcome, in which questions about it may end; then it is final


def _may_want_references(_service: Service, rollout: RolloutRecord) -> bool:
    return any(map(_may_want_reference, rollout.exchanges))


def _may_want_reference(exchange: Exchange) -> bool:
    if exchange.kind not in (Kind.INFERENCE, Kind.CONTINUATION):
        return False
    left = exchange.failed or exchange.ending in ABANDONED
    return left or is_abort(exchange.finish_reason) or says_nothing(exchange)


def _with_references(service: Service, rollout: RolloutRecord) -> RolloutRecord:
    """Return a rollout with the series that were asked beside its failed calls.

    Of a call that one is wanted for and that has none, a series runs as long as the service may
    still ask; after that it was stopped, as one is that still runs then. Where the service asks
    none there is none, and the calls of other rollouts decide.
    """
    since = service.now() if rollout.ended_at is None else rollout.ended_at
    over = since + ASKED_S <= service.now()
    rows = service.database.references.of_rollout(rollout.id)
    known = {call: series_of(row) for call, row in rows.items()}
    if over:
        known = {call: _stopped(each, since) for call, each in known.items()}
    with_known = replace(rollout, references=known) if known else rollout
    if not service.asks_references:
        return with_known
    lacking = {
        need.id: ReferenceSeries(
            id=need.id,
            upstream=need.upstream,
            model=need.model,
            api=need.api,
            started_at=since,
            ended_at=since if over else None,
            not_run=NotRun.STOPPED if over else None,
        )
        for need in rules.references_wanted(with_known, service.policy)
    }
    return replace(with_known, references={**known, **lacking}) if lacking else with_known


def _stopped(series: ReferenceSeries, since: float) -> ReferenceSeries:
    """Return a series without what came of it later than a verdict waits for.

    Arguments:
        since: when the rollout ended, in epoch seconds.
    """
    ended_at = series.ended_at
    if ended_at is not None and ended_at <= since + ASKED_S:
        return series
    return replace(series, ended_at=since + ASKED_S, not_run=NotRun.STOPPED, calls=())


REFERENCES = EvidenceKind(
    name="references",
    concerns=_may_want_references,
    load=_with_references,
    encode=lambda x: codec.encode_references(x.references) if x.references else None,
    decode=lambda x, kept: replace(x, references=codec.decode_references(kept)),
)


# --- calls without a rollout, while one ran that seems to have made none -----------------------


# A rollout that its outcome alone registers may have run as long as this before it, in seconds.
LONGEST_S = 86_400.0
_AGENTS = frozenset((Kind.INFERENCE, Kind.CONTINUATION, Kind.ACTIVITY))


def _seems_idle(_service: Service, rollout: RolloutRecord) -> bool:
    """Return True of a rollout that made no call, or has a reward and no answer to its calls."""
    if rollout.outcome is None or rollout.began_at is None or rollout.ended_at is None:
        return False
    return not any(map(_is_agents, rollout.exchanges)) or _lacks_answer(rollout)


def _with_unattributed(service: Service, rollout: RolloutRecord) -> RolloutRecord:
    """Return a rollout with the number of calls that may be its own, although none says so."""
    began_at, until = rollout.began_at, rollout.ended_at
    assert began_at is not None, "such a rollout seems idle"
    assert until is not None, "likewise"
    since = began_at if began_at < until else until - LONGEST_S
    number = service.database.calls.unattributed(since=since, until=until)
    missing = service.recorder.missing(UNATTRIBUTED)  # served, and not in the database
    return replace(rollout, unattributed_calls=number + missing)


def _is_agents(exchange: Exchange) -> bool:
    return exchange.role == AGENT and exchange.kind in _AGENTS


def _lacks_answer(rollout: RolloutRecord) -> bool:
    """Return True if a rollout has a reward, and none of its calls, media aside, was answered."""
    own = [x for x in rollout.exchanges if _is_agents(x)]
    return bool(rewarded(rollout)) and not any(
        x.kind is Kind.ACTIVITY or state_of(x) is CallState.ANSWERED for x in own
    )


UNATTRIBUTED_CALLS = EvidenceKind(
    name="unattributed_calls",
    concerns=_seems_idle,
    load=_with_unattributed,
    encode=lambda x: x.unattributed_calls or None,
    decode=lambda x, kept: replace(x, unattributed_calls=kept),
)


# --- other passes of its task ------------------------------------------------------------------


def _passed(_service: Service, rollout: RolloutRecord) -> bool:
    return rollout.task is not None and not rollout.client_cache and bool(rewarded(rollout))


def _with_task_passes(service: Service, rollout: RolloutRecord) -> RolloutRecord:
    """Return a rollout with the median output of its task's other passes, in tokens."""
    assert rollout.task is not None, "such a rollout passed its task"
    others = service.database.verdicts.passes_output(
        rollout.batch, rollout.task, above=least_reward(rollout), but=rollout.id
    )
    return replace(rollout, passes_tokens=float(median(others)) if others else None)


TASK_PASSES = EvidenceKind(
    name="passes_tokens",
    concerns=_passed,
    load=_with_task_passes,
    encode=lambda x: x.passes_tokens,
    decode=lambda x, kept: replace(x, passes_tokens=kept),
)

_OWN = (NEIGHBOURS, REFERENCES, UNATTRIBUTED_CALLS, TASK_PASSES)
