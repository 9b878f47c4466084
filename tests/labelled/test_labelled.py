"""The labelled answers and lives are judged as their labels say, up to the floors measured."""

from __future__ import annotations

from functools import cache

import pytest

from tests.labelled import play, score
from tests.labelled.score import Case, Tally
from tests.situations.requests import WIRES

# Measured, rounded down; they only ever rise. The goals are 98 and 97 (tests/corpus_score.py).
PROOF_FLOOR = 99.5
LIVES_FLOOR = 100.0


EACH = [10, pytest.param(1, marks=pytest.mark.slow)]  # one case of so many


@cache
def tally(name: str, each: int) -> Tally:
    return score.score(score.SETS[name](each))


@pytest.mark.parametrize("each", EACH)
def test_answers_are_read_and_judged_as_labelled(each: int) -> None:
    found = tally("proof", each)
    assert found.right >= PROOF_FLOOR, "\n".join(found.misses)


@pytest.mark.parametrize("each", EACH)
def test_lives_are_judged_as_labelled(each: int) -> None:
    found = tally("lives", each)
    assert found.right >= LIVES_FLOOR, "\n".join(found.misses)


@pytest.mark.parametrize("each", EACH)
def test_no_healthy_life_loses_its_score(each: int) -> None:
    assert tally("lives", each).healthy_misread == ()


@pytest.mark.parametrize("each", EACH)
def test_no_healthy_answer_loses_its_score_but_of_a_native_wire(each: int) -> None:
    every = tally("proof", each).judgements
    own = tuple(one for one in every if not one.case.family.startswith("native"))
    assert len(own) > 800 // each
    assert Tally(judgements=own).healthy_misread == ()


def test_a_wrong_label_is_a_miss() -> None:
    case = score.SETS["lives"](10)[0]
    assert case.decided == ("yes",)
    wrong = Case(id=case.id, family="well", calls=case.calls, decided=("quota",))
    found = score.score([case, wrong])
    assert (found.right, len(found.misses)) == (50.0, 1)
    assert found.misses[0].startswith(f"MISS  {case.id}: quota; got yes")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["proof", "lives"])
def test_every_case_has_an_id_of_its_own_and_a_label(name: str) -> None:
    cases = score.SETS[name]()
    assert len({case.id for case in cases}) == len(cases) > 180
    assert all(case.decided for case in cases)


def test_every_answer_of_the_table_is_played() -> None:
    written = " ".join(row["calls"] for row in play.rows("lives.jsonl"))
    words = {word.split("+")[0].split("@")[0].split("*")[0] for word in written.split()}
    for name in play.answers():
        wire, _, bare = name.rpartition(".")
        assert (bare if wire in WIRES else name) in words, f"{name} is in no life"
