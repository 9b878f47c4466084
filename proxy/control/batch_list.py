"""The list of batches, the newest first, each with the main figures of its summary."""

from __future__ import annotations

from typing import Any

from proxy.control import cursors
from proxy.control.batches import BatchService
from proxy.control.queries import Queries
from proxy.routing.errors import Refusal
from proxy.store.batches import BatchPlace, newest
from proxy.store.tables import Row
from truezero.models.lists import BatchItem

_SPAN = ("first_at", "last_at")
_FROM_SUMMARY = tuple(n for n in BatchItem.model_fields if n not in ("batch", *_SPAN))


class BatchList:
    """Lists batches."""

    def __init__(self, *, queries: Queries, batches: BatchService) -> None:
        self._queries = queries
        self._batches = batches

    async def page(self, *, after: str | None = None, limit: int = 20) -> dict[str, Any]:
        """Return a page of batches and the cursor of the next one.

        Arguments:
            after: the `next` of the page before.

        Raises:
            Refusal: 422 if ``after`` is not a cursor.
        """
        rows = await self._queries.read(newest, after=_place(after), limit=limit + 1)
        shown = rows[:limit]
        items = [item for row in shown if (item := await self._item(row)) is not None]
        return {"items": items, "next": _cursor(shown[-1]) if len(rows) > limit else None}

    async def _item(self, row: Row) -> dict[str, Any] | None:
        """Return a batch as it is listed; None if it was deleted meanwhile."""
        try:
            summary = await self._batches.summary(row["batch"])
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return None
        span = {name: row[name] for name in _SPAN}
        return {"batch": row["batch"], **span, **{name: summary[name] for name in _FROM_SUMMARY}}


def _cursor(row: Row) -> str:
    return cursors.encode([row["last_at"], row["batch"]])


def _place(cursor: str | None) -> BatchPlace | None:
    if cursor is None:
        return None
    try:
        last_at, batch = cursors.decode(cursor)
        return BatchPlace(cursors.number(last_at), cursors.name(batch))
    except (ValueError, TypeError, OverflowError):
        raise cursors.invalid() from None
