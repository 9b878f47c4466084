"""What a batch has to run again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from classifier.policy import Policy
from classifier.reruns import Rerun, RerunGroup, Reruns, reruns
from proxy.control.batch_state import up_to_date
from proxy.control.judge import Judge
from proxy.control.kept import Kept
from proxy.control.queries import Queries
from proxy.store import attempts
from proxy.store.batches import BatchVersion

_CACHED = 8  # batches whose lists are kept until something happens in them


class RerunService:
    """Sorts what is not measured by what is to be done about it.

    Arguments:
        policy: from how many equal failures in a row on one is deterministic.
    """

    def __init__(self, *, queries: Queries, judge: Judge, policy: Policy) -> None:
        self._queries = queries
        self._judge = judge
        self._policy = policy
        self._kept = Kept[str, BatchVersion, dict[str, Any]](_CACHED)

    async def of_batch(self, batch: str) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}/rerun`.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        version = await up_to_date(self._queries, self._judge, batch)
        kept = self._kept.of(batch, version)
        if kept is not None:
            return kept
        found = await self._queries.read(attempts.to_rerun, batch)
        made = await self._queries.run(lambda: _encoded(batch, reruns(found, self._policy)))
        self._kept.keep(batch, version, made)
        return made


def _encoded(batch: str, found: Reruns) -> dict[str, Any]:
    kinds = {kind.value: _kind(found.kinds[kind]) for kind in Rerun}
    return {"batch": batch, "running": found.running, **kinds}


def _kind(groups: tuple[RerunGroup, ...]) -> dict[str, Any]:
    encoded = [{**asdict(group), "count": len(group.items)} for group in groups]
    return {"count": sum(each["count"] for each in encoded), "groups": encoded}
