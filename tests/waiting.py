"""Waiting for what will be, and never for a moment by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0  # nothing takes as long, on any machine, unless it never comes


def until(holds: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Return once it holds.

    Raises:
        AssertionError: it never did.
    """
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def eventually(
    ask: Callable[[], float | None], wanted: float, timeout_s: float = PATIENCE_S
) -> None:
    """Who waited for a commit goes on before it is counted."""
    deadline = time.monotonic() + timeout_s
    while (got := ask()) != wanted:
        assert time.monotonic() < deadline, f"{got} stays, {wanted} was awaited"
        time.sleep(0.02)
