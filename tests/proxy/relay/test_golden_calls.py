"""A relayed call is byte for byte what it was: see `tests.golden.calls`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import golden
from tests.golden.calls import CASES, play

_FILE = golden.FOLDER / "calls.jsonl"
_played: dict[str, dict[str, Any]] = {}


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, Any]]:
    return {row.pop("call"): row for row in map(json.loads, _FILE.read_text("utf-8").splitlines())}


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_relayed_as_ever(name: str, kept: dict[str, dict[str, Any]]) -> None:
    row = play(CASES[name])
    if golden.UPDATING:
        _played[name] = row
    else:
        assert row == kept.get(name)


def test_every_row_is_played(kept: dict[str, dict[str, Any]]) -> None:
    if golden.UPDATING:
        rows = [json.dumps({"call": name, **_played[name]}) for name in CASES if name in _played]
        _FILE.write_text("\n".join(rows) + "\n", "utf-8")
    else:
        assert list(kept) == list(CASES)
