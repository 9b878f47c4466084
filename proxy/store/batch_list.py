"""Batches in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, RowMapping, select, tuple_

from proxy.store.derived import batches


class BatchPlace(NamedTuple):
    """A batch's place in the list: when its last rollout began, and its name."""

    last_at: float
    batch: str


def newest(
    connection: Connection, *, after: BatchPlace | None = None, offset: int = 0, limit: int
) -> Sequence[RowMapping]:
    """List batches with when their first and last rollout began, the newest first.

    Arguments:
        after: the place of the batch before the page.
        offset: how many more to pass over.
    """
    query = select(batches.c.batch, batches.c.first_at, batches.c.last_at)
    if after is not None:
        query = query.where(tuple_(batches.c.last_at, batches.c.batch) < after)
    query = (
        query.order_by(batches.c.last_at.desc(), batches.c.batch.desc()).offset(offset).limit(limit)
    )
    return connection.execute(query).mappings().all()
