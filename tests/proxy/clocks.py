"""A clock whose hands a test turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class HandTurned:
    """Monotonic seconds that pass when a test says so."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now
