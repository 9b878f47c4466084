"""The scores of several batches at once."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from proxy.store.tables import verdicts


def mean_rewards(connection: Connection, batches: Sequence[str]) -> dict[str, float]:
    """Return the mean reward over what was measured of each batch that measured anything."""
    query = (
        select(verdicts.c.batch, func.avg(verdicts.c.reward))
        .where(verdicts.c.batch.in_(batches), verdicts.c.scoreable == "yes")
        .group_by(verdicts.c.batch)
    )
    return {batch: mean for batch, mean in connection.execute(query) if mean is not None}
