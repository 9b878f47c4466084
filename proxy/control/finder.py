"""Find a batch, a rollout or a cause by a part of its name."""

from __future__ import annotations

from typing import NamedTuple

from proxy.control.queries import Queries
from proxy.store import listing

EACH = 6  # of each kind


class NameMatch(NamedTuple):
    """Something that has a page: its kind (``batch``, ``rollout``, ``cause``) and its name."""

    kind: str
    name: str


class Finder:
    """Looks for names."""

    def __init__(self, *, queries: Queries) -> None:
        self._queries = queries

    async def find(self, text: str) -> list[NameMatch]:
        """Return what a text may mean, up to six of each kind; nothing for an empty one.

        A rollout of exactly that id comes first, then batches, causes, and rollouts whose id or
        task contains the text, the newest first.
        """
        if not text:
            return []
        exact = await self._queries.read(listing.has_rollout, text)
        batches = await self._queries.read(listing.find_batches, text, limit=EACH)
        causes = await self._queries.read(listing.find_fingerprints, text, limit=EACH)
        rollouts = await self._queries.read(listing.find_rollouts, text, limit=EACH)
        first = [text] if exact else []
        return [
            *(NameMatch("rollout", name) for name in first),
            *(NameMatch("batch", name) for name in batches),
            *(NameMatch("cause", name) for name in causes),
            *(NameMatch("rollout", name) for name in rollouts if name not in first),
        ]
