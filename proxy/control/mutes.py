"""What of an alert comes from muted causes, of which nobody is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection

from classifier.fingerprints import cause_name, fingerprint
from classifier.reruns import RerunEntry
from classifier.verdicts import Subcategory
from proxy.control.causes import CauseKey, key_of
from proxy.control.kept import Kept
from proxy.control.queries import Queries
from proxy.store import attempts, cause_stats
from proxy.store.batches import BatchVersion, batch_version
from proxy.store.deployment import Deployment

Names = frozenset[str]  # of muted causes

_CALLS = 4000  # the latest failed ones that are looked at
_BATCHES = 50  # whose slots are kept counted until something happens in them


class Mutes:
    """Reads which causes are muted, and what comes from them alone."""

    def __init__(self, *, queries: Queries, deployment: Deployment) -> None:
        self._queries = queries
        self._deployment = deployment
        self._counted = Kept[str, tuple[BatchVersion | None, Names], int](_BATCHES)

    async def names(self) -> Names:
        """Return the names of muted causes."""
        return frozenset(await self._queries.run(self._deployment.muted))

    async def rollouts(self, muted: Names, rollout_ids: Collection[str]) -> bool:
        """Whether all of these that failed did of muted causes; False where none is known."""
        if not muted:
            return False
        rows = await self._queries.read(cause_stats.causes_of, rollout_ids)
        return _all_muted(muted, {key_of(row) for row in rows})

    async def calls(self, muted: Names, upstream: str, *, since: float) -> bool:
        """Whether all calls to an upstream that failed did of muted causes.

        Arguments:
            since: began at or after it, in epoch seconds.
        """
        if not muted:
            return False
        rows = await self._queries.read(
            cause_stats.causes_of_calls, upstream, since=since, most=_CALLS
        )
        keys = set()
        for model, subcategory, status, code in rows:
            kind = Subcategory(subcategory)
            cause = cause_name(kind, upstream, status, code)
            keys.add(CauseKey(fingerprint(kind, status), kind.value, cause, upstream, model))
        return _all_muted(muted, keys)

    async def slots(self, muted: Names, batch: str) -> int:
        """Count the slots of a batch that are not measured because of a muted cause."""
        if not muted:
            return 0
        state = await self._queries.read(batch_version, batch), muted
        known = self._counted.of(batch, state)
        if known is None:
            known = await self._queries.read(_count, batch, muted)
            self._counted.keep(batch, state, known)
        return known


def _count(connection: Connection, batch: str, muted: Names) -> int:
    return _muted_in(muted, (tried for _, tried in attempts.unscored(connection, batch)))


def _muted_in(muted: Names, slots: Iterable[Sequence[RerunEntry]]) -> int:
    """Count the slots that are muted, of such without a score."""
    return sum(_is_muted(muted, tried[-1]) for tried in slots)


def _is_muted(muted: Names, found: RerunEntry) -> bool:
    entry = found.entry
    if entry.fingerprint is None or entry.provisional:
        return False
    facts = {"fingerprint": entry.fingerprint, "subcategory": entry.subcategory,
             "cause": found.cause, "lane": entry.lane}  # fmt: skip
    return key_of(facts).name in muted


def _all_muted(muted: Names, keys: Collection[CauseKey]) -> bool:
    return bool(keys) and all(key.name in muted for key in keys)
