"""A relayed call is byte for byte what it was: see `tests.golden.calls`."""

from __future__ import annotations

import pytest

from tests import golden
from tests.golden.calls import CASES, KeptCalls


@pytest.fixture(scope="module")
def kept() -> KeptCalls:
    return KeptCalls(golden.FOLDER / "calls.jsonl", CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_relayed_as_ever(name: str, kept: KeptCalls) -> None:
    kept.check(name)


def test_every_row_is_played(kept: KeptCalls) -> None:
    kept.check_all()
