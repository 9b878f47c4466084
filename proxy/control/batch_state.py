"""A batch with its verdicts up to date."""

from __future__ import annotations

from proxy.control.judge import Judge
from proxy.control.queries import Queries, unknown_batch
from proxy.store.batches import BatchVersion, batch_version

_RUNNING = 2  # rollouts that run and are judged each time, so that it costs the same always


async def up_to_date(queries: Queries, judge: Judge, batch: str) -> BatchVersion:
    """Judge a batch's rollouts anew where they changed; returns the version that it then has.

    Of those that still run, a part: where hundreds of calls end each second, the provisional
    verdicts of others are some seconds old. No score hangs on them.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = await queries.read(batch_version, batch)
    if version is None:
        raise unknown_batch(batch)
    if not version.waits:
        return version
    await judge.refresh(batch, running=_RUNNING)
    return await queries.read(batch_version, batch) or version
