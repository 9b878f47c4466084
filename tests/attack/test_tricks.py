"""A part of the tricks on the reference call; `make attack` tries all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arena import score
from tests.attack import tricks
from tests.attack.all import TRICKS

pytestmark = pytest.mark.slow


def test_no_trick_but_those_that_the_page_lists_reaches_something(tmp_path: Path) -> None:
    part = score.drawn(TRICKS, lambda trick: trick.family, one_of=4)
    known = score.known_wrong(score.PAGE.read_text("utf-8"), "attack")
    anew = score.wrong_anew(part, tricks.scores, known, tmp_path)
    assert not anew, score.told(anew)
