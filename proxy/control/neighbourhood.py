"""What other rollouts got around a rollout's failures, read with bounded work and kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from classifier import codec
from classifier.attribution import NEAR_S, neighbours_of
from classifier.logical_calls import ended_at
from classifier.records import ABANDONED, Exchange, Kind, Neighbours, RolloutRecord
from classifier.verdicts import UNTRUSTED
from proxy.store.database import Database

_FAILURES = 20  # of one rollout that are looked at, the last ones
_SPANS = 4  # times apart from each other that are read, the last ones
_LONGEST_S = 300.0  # a neighbour that began longer before the failures is not seen
_ROWS = 1000  # calls read before and after the end of one span


def with_neighbours(rollout: RolloutRecord, database: Database, *, agents: str) -> RolloutRecord:
    """Return a rollout with the neighbours of its last failures.

    They stay what they were for its final verdict: judging an export gives the same.

    Arguments:
        agents: how agents are trusted where the rollout's batch does not say. Trusted ones need
            it once, for what the final verdict tells of it.
    """
    untrusted = (rollout.agents or agents) == UNTRUSTED
    if not untrusted and rollout.outcome is None:
        return rollout
    failures = [x for x in rollout.exchanges if _may_matter(x, untrusted=untrusted)]
    if not failures:
        return rollout
    kept = database.verdicts.neighbours(rollout.id)
    if kept is not None:
        return replace(rollout, neighbours=codec.decode_neighbours(json.loads(kept)))
    last = sorted(failures, key=ended_at)[-_FAILURES:]
    return replace(rollout, neighbours=_read(last, database))


def _may_matter(exchange: Exchange, *, untrusted: bool) -> bool:
    if exchange.role != "agent" or exchange.kind not in (Kind.INFERENCE, Kind.CONTINUATION):
        return False
    return exchange.failed or (untrusted and exchange.ending in ABANDONED)


def _read(failures: Sequence[Exchange], database: Database) -> dict[str, Neighbours]:
    found: dict[str, Neighbours] = {}
    for span in _spans(failures)[-_SPANS:]:
        first, last = ended_at(span[0]), ended_at(span[-1])
        others = database.calls.near(
            since=first - NEAR_S - _LONGEST_S,
            at=last,
            until=last + NEAR_S,
            upstreams={x.upstream for x in span},
            limit=_ROWS,
        )
        found |= {failure.id: neighbours_of(failure, others) for failure in span}
    return found


def _spans(failures: Iterable[Exchange]) -> list[list[Exchange]]:
    """Group failures, ordered by their ends, where less than a minute lies between two."""
    spans: list[list[Exchange]] = []
    for failure in failures:
        if spans and ended_at(failure) - ended_at(spans[-1][-1]) < NEAR_S:
            spans[-1].append(failure)
        else:
            spans.append([failure])
    return spans
