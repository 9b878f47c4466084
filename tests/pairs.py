"""Values that are tried with each other: each once in `make test`, all combinations elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

Pairing = Callable[..., list[tuple[Any, ...]]]


def each_once(*given: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Each of the given in some tuple, in as few of them as that takes."""
    around = zip(*map(itertools.cycle, given), strict=False)
    return list(itertools.islice(around, max(map(len, given))))


def all_pairs(*given: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All combinations of the given."""
    return list(itertools.product(*given))


PAIRINGS = [each_once, pytest.param(all_pairs, marks=pytest.mark.slow)]
