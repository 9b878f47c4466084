"""A part of the honest failures against running services; `make fairness` plays all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arena import score
from tests.fairness.playing import scores
from tests.fairness.situations import cells

pytestmark = pytest.mark.slow


def test_no_honest_failure_but_those_that_the_page_lists_is_taken_for_a_zero(
    tmp_path: Path,
) -> None:
    part = score.drawn(cells(), lambda cell: cell.situation.name, one_of=6)
    known = score.known_wrong(score.PAGE.read_text("utf-8"), "fairness")
    anew = score.wrong_anew(part, scores, known, tmp_path)
    assert not anew, score.told(anew)
