"""The gateways beside us: what each is started with, without starting any."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import gateways, peers
from benchmarks.figures import models
from benchmarks.gateways import GATEWAYS
from benchmarks.rows import BOARD, OURS
from benchmarks.run import STANDS

SAID = {"home": "/home/bench", "port": "4001", "spare": "4002", "provider": "4003"}
TOOLS = Path(__file__).parents[2] / "benchmarks" / "tools"


@pytest.mark.parametrize("name", GATEWAYS)
def test_all_that_one_is_told_is_filled_in(name: str, tmp_path: Path) -> None:
    one = GATEWAYS[name]
    gateways.write(one, tmp_path, SAID, models(2))
    files = [(tmp_path / file).read_text() for file in one.files]
    words = [*files, *gateways.filled((*one.arguments, *one.env.values()), SAID)]
    said = " ".join(words)
    assert not re.search(r"\$\w", said)
    assert SAID["provider"] in said, "it knows its provider"
    assert SAID["port"] in said or one.tells_port, "and its port"
    assert "0.0.0.0" not in said
    assert not one.each_model or all(model in files[0] for model in models(2))


def test_each_is_on_the_board_and_can_be_started_and_be_got() -> None:
    assert set(BOARD) | set(OURS) == set(STANDS)
    for name in BOARD:
        assert name in peers.HINTS, f"nobody says where {name} comes from"
    for name, one in GATEWAYS.items():
        assert (TOOLS / f"{name}.txt").exists() == bool(one.package)
