"""Inspect from PyPI beside truezero that is half set up, down, silent, killed or another program.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.failing import Case
from tests.journeys.harnesses import (
    AWAY,
    ENVIRONMENTS,
    HALVES,
    Beside,
    Condition,
    Ran,
    Row,
    Setup,
    execute,
)
from tests.journeys.service import Service
from tests.journeys.test_agent_harness_failures import INSPECT
from truezero.audit.report import audit
from truezero.audit.zips import read_members

pytestmark = [
    pytest.mark.harness("inspect_ai"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]


def runs(setup: Setup, home: Path) -> Ran:
    asked = setup.condition is not Condition.ALONE and setup.condition not in HALVES
    words = ("measured" if asked else "plain", "swallows", "1", "1")
    return setup.run("inspect_ai", INSPECT, home, *words)


def score(row: Row) -> str:
    if row["why"]:
        return "sample error"
    return "unscored" if row["score"] is None else f"score {row['score']}"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("inspect_ai", runs, score, tmp_path_factory.mktemp("beside"))


def log_of(ran: Ran) -> Row:
    [log] = [row for row in ran.rows if row["case"] == "log"]
    return log


@pytest.mark.parametrize("condition", HALVES)
def test_merely_present_it_changes_nothing_and_says_one_line(
    beside: Beside, condition: Condition
) -> None:
    ran = beside[condition]
    assert beside.untouched(condition), beside.cells(condition)
    [line] = [line for line in ran.said if line.startswith("truezero:") and "Each" not in line]
    assert "is model_base_url the service's" in line


@pytest.mark.parametrize("condition", [Condition.HALF_FOREIGN, Condition.HALF_SILENT])
def test_merely_present_it_asks_the_port_for_nothing(beside: Beside, condition: Condition) -> None:
    assert beside[condition].visits == 0


WHY = {
    Condition.DOWN: "truezero: cannot reach a truezero service at",
    Condition.FOREIGN: "is not a truezero service",
    Condition.SILENT: "did not answer within 5 s",
}


@pytest.mark.parametrize("condition", AWAY)
def test_asked_for_without_a_service_no_sample_runs(beside: Beside, condition: Condition) -> None:
    ran, log = beside[condition], log_of(beside[condition])
    assert (ran.calls, log["status"], log["accuracy"]) == (0, "error", None)
    assert WHY[condition] in log["error"]
    assert ran.by_case == {}
    [line] = [line for line in ran.said if line.startswith("truezero: asking")]
    assert "no sample was run" in line
    assert WHY[condition].removeprefix("truezero: ") in line


def test_a_service_killed_midway_makes_no_score(beside: Beside) -> None:
    assert list(beside.cells(Condition.KILLED).values()) == [
        "score 1.0", "sample error", "sample error",
    ]  # fmt: skip
    *_, line, left = beside[Condition.KILLED].said
    assert "2 of 3 samples not measured: truezero service away (2)" in line
    assert "1 outcome is not delivered and kept in" in left


def test_the_page_shows_inspect_beside_truezero(beside: Beside) -> None:
    conditions = (Condition.HALF, Condition.DOWN, Condition.FOREIGN, Condition.KILLED)
    beside.write(*conditions, version=log_of(beside[Condition.ALONE])["version"])


# --- many samples ---------------------------------------------------------------------------


def dead(request: Request) -> Answer:
    del request
    return answers.FAILURES[Api.CHAT][Fault.AUTH]


def many(home: Path, base: str, service: str | None, *words: str, samples: int) -> Ran:
    environment = {"TRUEZERO_URL": service} if service else {}
    given = (Case.OK.name, "ours", base, *words, str(samples), "4")
    return execute("inspect_ai", INSPECT, home, *given, environment=environment)


def test_a_variable_for_another_tool_makes_no_zero(tmp_path: Path) -> None:
    with Provider(answers.healthy) as provider, Service(tmp_path, provider.url) as service:
        base = f"{provider.url}/v1"
        ran = many(tmp_path / "run", base, service.url, "plain", "raises", samples=30)
        names = {name.lower() for request in provider.requests for name, _ in request.headers}
        batches = service.get("/batches")["items"]
    assert log_of(ran)["accuracy"] == 1.0
    assert not {name for name in names if "truezero" in name}, "the key is the service's only"
    assert batches == []


def test_a_dead_key_is_as_many_errors_as_without_truezero(tmp_path: Path) -> None:
    with Provider(dead) as provider, Service(tmp_path, provider.url) as service:
        alone = many(tmp_path / "alone", f"{provider.url}/v1", None, "plain", "raises", samples=16)
        base = f"{service.url}/openai/v1"
        ran = many(tmp_path / "run", base, service.url, "plain", "raises", samples=16)
        [batch] = service.get("/batches")["items"]
        check = service.get(f"/batches/{batch['batch']}/check")
    for seen in (alone, ran):
        samples = [row for row in seen.rows if row["case"] == "OK"]
        assert len(samples) == 16
        assert all(row["why"] and not row["limit"] and row["score"] is None for row in samples)
    told = [row["why"] for row in ran.rows if "why" in row]
    assert [why for why in told if "truezero: skipped: breaker open on auth:401" in why]
    assert all("no prompt was executed" not in line for line in check["lines"])
    [line] = [line for line in ran.said if "samples not measured" in line]
    assert "asking: 16 of 16 samples not measured: auth:401" in line
    assert f"truezero check {batch['batch']}" in line


def test_zeros_that_no_scorer_was_wrapped_against_are_told_and_can_be_taken_out(
    tmp_path: Path,
) -> None:
    with Provider(dead) as provider, Service(tmp_path, provider.url) as service:
        base = f"{service.url}/openai/v1"
        ran = many(tmp_path / "run", base, service.url, "plain", "swallows", samples=3)
    assert log_of(ran)["accuracy"] == 0.0
    [line] = [line for line in ran.said if "samples not measured" in line]
    assert "3 of them in the score: wrap each scorer with `measured`, or correct" in line
    command = shlex.split(line.partition("this log with `")[2].partition("`")[0])
    assert command[:3] == ["truezero", "audit", "--write"]
    [log] = (tmp_path / "run" / "logs").glob("*.eval")
    assert Path(command[3]).resolve() == log
    [score] = header_of(audit(log, write=True).written)["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"]) == (0, 3)
    assert math.isnan(score["metrics"]["accuracy"]["value"])


def header_of(log: str | None) -> Row:
    header: Row = json.loads(read_members(Path(log or ""))["header.json"]())
    return header


def test_measured_without_the_variable_asks_for_the_service(tmp_path: Path) -> None:
    with Provider(answers.healthy) as provider:
        base = f"{provider.url}/v1"
        given = (Case.OK.name, "ours", base, "measured", "raises", "2", "1")
        away = {"TRUEZERO_URL": ""}
        ran = execute("inspect_ai", INSPECT, tmp_path / "run", *given, environment=away)
        assert provider.requests == []
    assert log_of(ran)["status"] == "error"
    assert "cannot reach a truezero service at http://127.0.0.1:8383" in log_of(ran)["error"]


def test_a_batch_of_which_no_call_comes_goes_on_and_says_so(tmp_path: Path) -> None:
    with Provider(answers.healthy) as provider, Service(tmp_path, provider.url) as service:
        base = f"{provider.url}/v1"
        ran = many(tmp_path / "run", base, service.url, "measured", "raises", samples=8)
        asked = len(provider.requests)
    rows = [row for row in ran.rows if row["case"] == "OK"]
    assert asked == 24, "no sample was stopped"
    assert {(row["score"], row["why"], row["limit"]) for row in rows} == {(None, None, None)}
    [line] = [line for line in ran.said if "samples not measured" in line]
    assert "no call came through truezero (is model_base_url the service's" in line


def test_a_wrong_token_is_said_before_any_call(tmp_path: Path) -> None:
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, ADMIN_TOKEN="t0ken-of-the-admin") as service,
    ):
        base = f"{service.url}/openai/v1"
        ran = many(tmp_path / "run", base, service.url, "plain", "raises", samples=4)
        assert provider.requests == []
    assert "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN" in log_of(ran)["error"]


def test_no_key_of_a_rollout_is_in_inspects_log(tmp_path: Path) -> None:
    with Provider(answers.healthy) as provider, Service(tmp_path, provider.url) as service:
        base = f"{service.url}/openai/v1"
        ran = many(tmp_path / "run", base, service.url, "plain", "raises", samples=2)
        assert {call["attribution_source"] for item in service.get("/rollouts")["items"]
                for call in service.exchanges(item["id"])} == {"minted_key"}  # fmt: skip
    rows = [row for row in ran.rows if row["case"] == "OK"]
    assert [row["headers"] for row in rows] == [[], []]
