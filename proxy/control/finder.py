"""Find a batch, a rollout or a cause by a part of its name."""

from __future__ import annotations

from typing import NamedTuple

from proxy.control.listing import Listing
from proxy.control.queries import Queries
from proxy.store import finding
from truezero.models.lists import ListParameters

EACH = 6  # of each kind


class Named(NamedTuple):
    """Something that has a page: its kind (``batch``, ``rollout``, ``cause``) and its name."""

    kind: str
    name: str


class Finder:
    """Looks for names."""

    def __init__(self, *, queries: Queries, listing: Listing) -> None:
        self._queries = queries
        self._listing = listing

    async def find(self, text: str) -> list[Named]:
        """Return what a text may mean, up to six of each kind; nothing for an empty one.

        A rollout of exactly that id comes first, then batches, causes, and rollouts whose id,
        task, model or verdict contains the text, the newest first.
        """
        if not text:
            return []
        exact = await self._queries.read(finding.has_rollout, text)
        batches = await self._queries.read(finding.find_batches, text, limit=EACH)
        causes = await self._queries.read(finding.find_fingerprints, text, limit=EACH)
        asked = ListParameters(text=text, order="desc", limit=EACH)
        rows, _ = await self._listing.rows(asked, fresh=True)
        names = dict.fromkeys([*([text] if exact else []), *(row["id"] for row in rows)])
        rollouts = [Named("rollout", name) for name in names]
        rest = [Named("batch", name) for name in batches] + [Named("cause", n) for n in causes]
        return [*rollouts[:1], *rest, *rollouts[1:]] if exact else [*rest, *rollouts]
