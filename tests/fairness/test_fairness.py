"""A part of the honest failures against running services; `make fairness` plays all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arena import score
from tests.fairness.playing import scores
from tests.fairness.situations import cells

pytestmark = pytest.mark.slow


def test_no_more_honest_failures_than_the_page_lists_are_taken_for_zeros(tmp_path: Path) -> None:
    part = score.drawn(cells(), lambda cell: cell.situation.name, one_of=6)
    played = scores(part, tmp_path)
    known = score.known_wrong(score.PAGE.read_text("utf-8"), "fairness")
    assert not score.below(played, known), score.told(played)
