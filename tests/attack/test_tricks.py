"""A part of the tricks on the reference call; `make attack` tries all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arena import score
from tests.attack import tricks
from tests.attack.all import TRICKS

pytestmark = pytest.mark.slow


def test_no_more_tricks_than_the_page_lists_reach_something(tmp_path: Path) -> None:
    part = score.drawn(TRICKS, lambda trick: trick.family, one_of=4)
    tried = tricks.scores(part, tmp_path)
    known = score.known_wrong(score.PAGE.read_text("utf-8"), "attack")
    assert not score.below(tried, known), score.told(tried)
