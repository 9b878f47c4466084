"""MASEval from PyPI beside truezero that is half set up, down, silent, killed or another program.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.harnesses import AWAY, ENVIRONMENTS, Beside, Condition, Ran, Row, Setup
from tests.journeys.test_harness_failures import MASEVAL

pytestmark = [
    pytest.mark.harness("maseval"),
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


@pytest.mark.parametrize("condition", AWAY)
def test_without_a_service_no_task_is_run_and_one_sentence_says_why(
    beside: Beside, condition: Condition
) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.rows) == (1, 0, [])
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("truezero.sdk.errors.ServiceError: no task was run: ")
    assert [line for line in ran.said if "no task was run" in line] == [last]
    assert ran.visits in (None, 1), "it is asked once"


def test_scores_stay_where_the_base_url_is_the_providers_and_that_is_said_once(
    beside: Beside,
) -> None:
    assert beside.untouched(Condition.HALF), beside.cells(Condition.HALF)
    [said] = beside[Condition.HALF].said
    assert said.startswith("task OK: no call came through truezero, MASEval's own score is kept")


def test_what_was_done_before_the_service_was_killed_keeps_its_score(beside: Beside) -> None:
    assert beside.never_worse(Condition.KILLED, "no score")
    assert list(beside.cells(Condition.KILLED).values()) == ["score 1.0", "no score", "no score"]
    away, said, no_card = beside[Condition.KILLED].said
    assert "cannot reach a truezero service at" in away, "while it waits"
    assert said.startswith("2 of 3 repetitions not measured: truezero service away (2); more with")
    assert no_card.startswith("no measurement card was written: cannot reach a truezero service")


def test_the_page_shows_maseval_beside_truezero(beside: Beside) -> None:
    beside.write(
        Condition.HALF, *AWAY, Condition.KILLED, version=beside[Condition.HALF].rows[0]["version"]
    )
