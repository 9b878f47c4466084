"""Judge the rollouts of an archive, and apply the operator's rows to its calls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from classifier.records import Exchange, RolloutRecord
from classifier.rejudging import Rejudged
from proxy.control.evidence_kinds import as_it_stood
from proxy.control.judge import as_it_counts
from proxy.features.exports.rows import RECORD_TYPES, Record, Row, place_of
from proxy.store.rollouts import record_of
from proxy.store.rows import exchange_of, exchange_row


def rollouts_in(records: Iterable[Record]) -> Iterator[RolloutRecord]:
    """Yield the rollouts of an archive as they count; one is held at a time."""
    for group in _groups(records):
        first = next(group)
        if first[0] == "rollout":
            yield _rollout([first, *group])


def rejudged(records: Iterable[Record], tally: Rejudged) -> Iterator[Record]:
    """Yield the records of an archive with the causes that the operator's rows give its calls.

    A rollout with a changed call comes without its verdict, which the service that imports the
    archive gives anew.
    """
    for group in _groups(records):
        first = next(group)
        if first[0] != "rollout":
            yield from (_record(tally, *each) for each in (first, *group))
            continue
        whole = [first, *group]
        changed = tally.rollout(_rollout(whole))
        for name, row in whole:
            if not (changed and name == "verdict"):
                yield _record(tally, name, row)


def _groups(records: Iterable[Record]) -> Iterator[Iterator[Record]]:
    """Yield all about each rollout; what is of a batch is of no rollout."""
    for _, group in groupby(records, place_of):
        yield group


def _record(tally: Rejudged, name: str, row: Row) -> Record:
    if name != "exchange":
        return name, row
    exchange = exchange_of(row)
    changed = tally.call(exchange)
    return name, (row if changed is exchange else exchange_row(changed))


def _rollout(records: Sequence[Record]) -> RolloutRecord:
    """Build a rollout as it counts, with the evidence that its verdict stands on."""
    columns: dict[str, Mapping[str, Any]] = {
        name: dict(zip(RECORD_TYPES[name].columns, row, strict=True))
        for name, row in records
        if name != "exchange"
    }
    calls: list[Exchange] = [exchange_of(row) for name, row in records if name == "exchange"]
    calls.sort(key=lambda call: (call.timing.started_at, call.id))
    rollout = columns["rollout"]
    record = as_it_counts(rollout, record_of(rollout, calls), math.inf)
    verdict = columns.get("verdict", {})
    return as_it_stood(record, verdict.get("stands_on"))
