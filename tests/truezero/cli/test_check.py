"""`truezero check`: the objections, and the breakers that are open."""

from __future__ import annotations

import pytest

from tests.truezero.cli.test_batch import LANE
from truezero import models
from truezero.cli.check import print_check

CLOSED = models.Breaker(batch="b", threshold=5, lanes=[])


def test_a_check_is_printed_with_its_objections(capsys: pytest.CaptureFixture[str]) -> None:
    print_check(models.Check(batch="b[1]", valid=False, lines=["t: [no] model"]), CLOSED)
    assert capsys.readouterr().out == "t: [no] model\nb[1]: not a valid measurement\n"
    print_check(models.Check(batch="b", valid=False, lines=["one"], lines_total=1201), CLOSED)
    assert capsys.readouterr().out == "one\nand 1,200 more rollouts\nb: not a valid measurement\n"
    tested = models.Check(
        batch="b", valid=True, lines=[], exclusion_bias=False, exclusion_p=0.4,
        exclusion_fisher_p=1e-4,
    )  # fmt: skip
    print_check(tested, CLOSED)
    assert capsys.readouterr().out == ("The missing repeats look random (p = 0.4).\nb: valid\n")


@pytest.mark.parametrize(
    ("score", "reported", "line"),
    [
        (2 / 3, 1 / 6, "score 0.667, as the harness reported it 0.167\n"),
        (None, 0.0, "score unknown, as the harness reported it 0.000\n"),
        (0.5, 0.5, "score 0.500, as the harness reported it 0.500\n"),
        (None, None, ""),  # nothing was reported, or by an older service
    ],
)
def test_a_check_says_the_score_beside_the_harnesss_own(
    capsys: pytest.CaptureFixture[str], score: float | None, reported: float | None, line: str
) -> None:
    checked = models.Check(
        batch="b", valid=False, lines=[], score_effective=score, score_reported=reported
    )
    print_check(checked, CLOSED)
    assert capsys.readouterr().out == f"{line}b: not a valid measurement\n"


def test_tries_are_counted_if_a_repeat_was_tried_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_check(models.Check(batch="b", valid=True, repeats=3, tries=4, lines=[]), CLOSED)
    assert capsys.readouterr().out == "3 repeats, 4 tries\nb: valid\n"
    print_check(models.Check(batch="b", valid=True, repeats=3, tries=3, lines=[]), CLOSED)
    assert capsys.readouterr().out == "b: valid\n"


def test_a_check_names_the_breakers_that_are_open(capsys: pytest.CaptureFixture[str]) -> None:
    lanes = [LANE, {**LANE, "lane": "openai/gpt-5/other", "phase": "closed"}]
    breaker = models.Breaker.model_validate({"batch": "b", "threshold": 5, "lanes": lanes})
    print_check(models.Check(batch="b", valid=False, lines=["one"]), breaker)
    assert capsys.readouterr().out.splitlines() == [
        "one",
        (
            "breaker open on openai/gpt-5/k: 5 rollouts in a row failed with auth:401; "
            "fix it, then truezero breaker reset b"
        ),
        "b: not a valid measurement",
    ]
