"""The event stream of a batch."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from proxy.control import judge
from proxy.control.queries import Service
from proxy.store.tables import Row

_POLL_S = 0.3
_NOTIFIED_POLL_S = 1.0  # if the database notifies of new events
_GROUP_S = 0.05  # so that a burst of events is read in groups
_DOOM = ("subcategory", "fingerprint", "error", "lane")


class BatchEvent(NamedTuple):
    """One event of a batch; without a kind it is a keep-alive."""

    id: int
    kind: str
    data: dict[str, Any]


async def follow(
    service: Service, batch: str, *, after: int | None = None
) -> AsyncIterator[BatchEvent]:
    """Yield the events of a batch that any process recorded, until this process ends.

    Arguments:
        after: the id of the last event already received; None starts with the next one.
    """
    stored = service.database.events
    position = await service.run(stored.last_id) if after is None else after
    doomed: set[str] = set()
    news, loop = asyncio.Event(), asyncio.get_running_loop()
    with stored.subscribe(lambda: loop.call_soon_threadsafe(news.set)) as notified:
        while not service.stopping():
            news.clear()
            rows, position = await service.run(stored.of_batch, batch, after=position)
            judged: set[str] = set()  # of this group; their verdicts hold for all of it
            for row in rows:
                for event in await _events(service, row, judged, doomed):
                    yield event
            if not rows:
                yield BatchEvent(position, "", {})
                await _wait(news if notified else None)


async def _events(
    service: Service, row: Row, judged: set[str], doomed: set[str]
) -> list[BatchEvent]:
    """Return a stored event, followed by `rollout_doomed` if it doomed its rollout."""
    event = BatchEvent(row["id"], row["kind"], _data(row, json.loads(row["data"])))
    rollout = row["rollout_id"]
    if event.kind != "exchange_failed" or rollout in judged or rollout in doomed:
        return [event]
    judged.add(rollout)
    verdict = await judge.verdict(service, rollout)
    if not verdict["doomed"]:
        return [event]
    doomed.add(rollout)
    data = _data(row, {name: verdict[name] for name in _DOOM})
    return [event, BatchEvent(event.id, "rollout_doomed", data)]


def _data(row: Row, data: dict[str, Any]) -> dict[str, Any]:
    return {"rollout_id": row["rollout_id"], "at": row["at"], **data}


async def _wait(news: asyncio.Event | None) -> None:
    """Wait until it is time to read events again; None if nobody notifies of them."""
    if news is None:
        await asyncio.sleep(_POLL_S)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(news.wait(), _NOTIFIED_POLL_S)
    await asyncio.sleep(_GROUP_S)
