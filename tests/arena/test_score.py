"""Scores by family, the part that CI plays, and the page that keeps what is known to be wrong."""

from __future__ import annotations

import pytest

from tests.arena import score
from tests.arena.score import Score
from tests.attack.all import TRICKS
from tests.fairness.situations import cells

RIGHT = Score(family="alone", name="alone / 500", wrong=None)
WRONG = Score(family="alone", name="alone / 529", wrong="scoreable yes")
OTHER = Score(family="a blip", name="a blip / 500", wrong=None)
PAGE = "Cases.\n\n<!-- fairness -->\n<!-- /fairness -->\n\nTricks.\n"


def test_a_family_may_score_what_the_page_leaves_it_and_no_less() -> None:
    known = frozenset({WRONG.name})
    assert score.below([RIGHT, WRONG], known) == []
    fallen = Score(family="alone", name=RIGHT.name, wrong="scoreable yes")
    assert score.below([fallen, WRONG], known) == ["alone: 0 right, at least 1 must be"]


def test_the_page_keeps_its_text_and_what_is_wrong() -> None:
    page = score.written(PAGE, "fairness", [RIGHT, WRONG, OTHER])
    assert page.startswith("Cases.\n")
    assert page.endswith("\n\nTricks.\n")
    assert "| alone | 1 | 2 |" in page
    assert score.known_wrong(page, "fairness") == {WRONG.name}
    assert score.written(page, "fairness", [RIGHT, WRONG, OTHER]) == page
    assert score.known_wrong(score.written(page, "fairness", [RIGHT]), "fairness") == frozenset()
    with pytest.raises(ValueError, match="no section attack"):
        score.known_wrong(page, "attack")


@pytest.mark.parametrize("section", ["fairness", "attack"])
def test_the_page_lists_only_what_is_played(section: str) -> None:
    known = score.known_wrong(score.PAGE.read_text("utf-8"), section)
    played = {"fairness": [one.name for one in cells()], "attack": [one.name for one in TRICKS]}
    assert known <= {*played[section]}
