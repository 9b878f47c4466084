"""Scores by family, the part that CI plays, and the page that keeps what is known to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.arena import score
from tests.arena.score import Score
from tests.attack.all import TRICKS
from tests.fairness.situations import cells

RIGHT = Score(family="alone", name="alone / 500", wrong=None)
WRONG = Score(family="alone", name="alone / 529", wrong="scoreable yes")
OTHER = Score(family="a blip", name="a blip / 500", wrong=None)
PAGE = "Cases.\n\n<!-- fairness -->\n<!-- /fairness -->\n\nTricks.\n"


def test_a_family_of_which_nothing_is_known_to_be_wrong_must_be_right() -> None:
    assert score.below([RIGHT, OTHER], frozenset()) == []
    assert score.below([RIGHT, WRONG], frozenset()) == ["alone: 1 right, at least 2 must be"]


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


def test_a_part_has_some_of_each_family_and_is_the_same_each_time() -> None:
    for everything, count in (
        ([(cell.name, cell.situation.name) for cell in cells()], 522),
        ([(trick.name, trick.family) for trick in TRICKS], 191),
    ):
        part = score.drawn(everything, lambda one: one[1], one_of=4)
        assert len(everything) == len({name for name, _ in everything}) == count
        assert {one[1] for one in part} == {one[1] for one in everything}
        assert len(part) < len(everything) / 3
        assert score.drawn(everything, lambda one: one[1], one_of=4) == part


@pytest.mark.parametrize("section", ["fairness", "attack"])
def test_the_page_lists_only_what_is_played(section: str) -> None:
    known = score.known_wrong(score.PAGE.read_text("utf-8"), section)
    played = {"fairness": [one.name for one in cells()], "attack": [one.name for one in TRICKS]}
    assert known <= {*played[section]}


def test_what_is_wrong_twice_is_wrong_anew_unless_it_is_known_to_be(tmp_path: Path) -> None:
    rounds: list[list[str]] = []

    def play(part: Sequence[str], home: Path) -> list[Score]:
        assert home.is_dir()
        rounds.append(list(part))
        wrong = {"known", "always", "once"} if len(rounds) == 1 else {"always"}
        return [
            Score(family="f", name=name, wrong="a zero" if name in wrong else None) for name in part
        ]

    everything = ["right", "known", "always", "once"]
    anew = score.wrong_anew(everything, play, frozenset({"known"}), tmp_path)
    assert rounds == [everything, ["always", "once"]]
    assert [one.name for one in anew] == ["always"]
