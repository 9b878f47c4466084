"""Drills without a database."""

from __future__ import annotations

from proxy.features.drills.store import Drills


class OneCall(Drills):
    """Takes each call of a rollout for its first."""

    def __init__(self) -> None:
        """Read no database."""

    def next_call(self, _rollout_id: str) -> int:
        return 1
