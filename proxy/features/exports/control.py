"""The export of rollouts, outcomes and calls: all that counting and judging them again takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from classifier import codec
from classifier.exported_batch import COUNTED, REPEATS, encode_counted
from proxy.control import judge, listing
from proxy.control.queries import Service, unknown_batch
from proxy.store.batch_counts import as_counted
from truezero.models.batches import ListParameters


async def export(
    service: Service, parameters: ListParameters
) -> AsyncIterator[list[dict[str, Any]]]:
    """Export the rollouts of a list; the verdicts in the database may be out of date.

    Returns:
        The records of some rollouts after another, those of each together.

    Raises:
        Refusal: 404 for a batch without rollouts; 422 if ``after`` is not a cursor of the list.
    """
    query = listing.query_of(parameters)
    after = listing.position_of(parameters.after, query)
    pages = listing.in_pages(service, query, after, parameters.limit, listing.ids_of, fresh=True)
    first: list[str] = await anext(pages, [])
    if not first and parameters.model_fields_set == {"batch"}:
        raise await unknown_batch(service, ", ".join(parameters.batch))
    return _exported(service, first, pages)


_TOGETHER = 20  # rollouts that are loaded with the same queries, and
_CALLS_TOGETHER = 200  # calls, by those that the rollouts before had


async def _exported(
    service: Service, first: Sequence[str], others: AsyncIterator[list[str]]
) -> AsyncIterator[list[dict[str, Any]]]:
    calls_each = 1.0
    page: Sequence[str] = first
    while page:
        at = 0
        while at < len(page):
            size = max(1, min(_TOGETHER, int(_CALLS_TOGETHER / calls_each)))
            ids = page[at : at + size]
            records = await service.run(_records, service, ids)
            calls_each = max(1.0, len(records) / len(ids) - 2)
            yield records
            at += size
        page = await anext(others, [])


def _records(service: Service, rollout_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Encode rollouts, each with what it counts, its outcome and its calls."""
    records = []
    counted = service.database.read(as_counted, rollout_ids)
    for loaded in judge.load_some(service, rollout_ids):
        rollout = loaded.rollout
        record = {"record": "rollout", **codec.encode_rollout(rollout)}
        if (known := counted.get(rollout.id)) is not None:
            record[REPEATS] = known.repeats
            record[COUNTED] = encode_counted(known.rollout, version=known.version)
            if known.calls is not None:
                rollout = judge.as_judged(rollout, known.calls)
        records.append(record)
        if rollout.outcome is not None:
            owner = {"record": "outcome", "rollout_id": rollout.id}
            records.append({**owner, **codec.encode_outcome(rollout.outcome)})
        exchanges = service.prices.encode(rollout.exchanges)
        records += [{"record": "exchange", **exchange} for exchange in exchanges]
    return records
