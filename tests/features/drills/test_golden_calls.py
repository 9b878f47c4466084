"""A drilled call is answered byte for byte as it was: see `tests.golden.calls`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.drills.golden_calls import CASES
from tests.golden.calls import KeptCalls


@pytest.fixture(scope="module")
def kept() -> KeptCalls:
    return KeptCalls(Path(__file__).with_name("calls.jsonl"), CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_drilled_call_is_answered_as_ever(name: str, kept: KeptCalls) -> None:
    kept.check(name)


def test_every_row_is_played(kept: KeptCalls) -> None:
    kept.check_all()
