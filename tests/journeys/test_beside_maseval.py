"""MASEval from PyPI beside truezero that is half set up, down, silent, killed or another program.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.harnesses import ENVIRONMENTS, Beside, Condition, Ran, Row, Setup
from tests.journeys.test_harness_failures import MASEVAL

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]


def runs(setup: Setup, home: Path) -> Ran:
    return setup.run("maseval", MASEVAL, home, "1")


def score(row: Row) -> str:
    return f"score {row['eval'][0]['score']}" if row["eval"] else "no score"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("maseval", runs, score, tmp_path_factory.mktemp("beside"))


@pytest.mark.parametrize("condition", [Condition.DOWN, Condition.FOREIGN, Condition.KILLED])
def test_a_service_that_is_away_makes_no_score(beside: Beside, condition: Condition) -> None:
    assert beside.never_worse(condition, "no score"), beside.cells(condition)


def test_what_was_done_before_the_service_was_killed_keeps_its_score(beside: Beside) -> None:
    cells = list(beside.cells(Condition.KILLED).values())
    assert cells == ["score 1.0", "no score", "no score"]


def test_the_page_shows_maseval_beside_truezero(beside: Beside) -> None:
    beside.write(Condition.DOWN, Condition.FOREIGN, Condition.KILLED, version="0.5.1")
