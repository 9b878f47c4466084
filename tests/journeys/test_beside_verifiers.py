"""verifiers from PyPI beside truezero in each condition, an address for each trace, as guided.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.harnesses import AWAY, ENVIRONMENTS, Beside, Condition, Ran, Row, Setup
from tests.journeys.test_agent_harness_failures import VERIFIERS

pytestmark = [
    pytest.mark.harness("verifiers"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]


def runs(setup: Setup, home: Path) -> Ran:
    words = () if setup.mode == "stock" else ("addressed",)
    return setup.run("verifiers", VERIFIERS, home, *words)


def score(row: Row) -> str:
    return "no reward" if row["reward"] is None else f"reward {row['reward']}"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("verifiers", runs, score, tmp_path_factory.mktemp("beside"))


@pytest.mark.parametrize("condition", AWAY)
def test_without_a_service_no_trace_begins_and_one_sentence_says_why(
    beside: Beside, condition: Condition
) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.rows) == (1, 0, [])
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("truezero.sdk.errors.ServiceError: ")
    assert ran.visits in (None, 1), "it is asked once"


def test_rewards_stay_where_the_base_url_is_the_providers_and_that_is_said_once(
    beside: Beside,
) -> None:
    assert beside.untouched(Condition.HALF), beside.cells(Condition.HALF)
    [said] = beside[Condition.HALF].said
    assert said.startswith("no call came through truezero, rewards stay as they are")


def test_a_trace_under_which_the_service_was_killed_has_no_reward(beside: Beside) -> None:
    cells = list(beside.cells(Condition.KILLED).values())
    assert cells == ["reward 1.0", "no reward", "no result"]
    assert beside[Condition.KILLED].code == 1


def test_the_page_shows_verifiers_beside_truezero(beside: Beside) -> None:
    version = beside[Condition.ALONE].rows[-1]["version"]
    beside.write(Condition.HALF, *AWAY, Condition.KILLED, version=version)
