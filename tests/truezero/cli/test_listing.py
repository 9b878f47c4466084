"""`truezero list` and `truezero batches`: REST's own query, as a table, CSV and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.proxy.api.test_list_formats import BARE
from tests.truezero.driving import call, service
from truezero import Client, models
from truezero.cli import app
from truezero.cli.listing import print_rollouts
from truezero.sdk.arguments import RolloutFilters


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "180")


def test_a_pipe_gets_each_rollout_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    one = models.RolloutItem.model_validate({**BARE, "id": "r" * 200, "batch": "b" * 100})
    print_rollouts([one], more=False)
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:2] == ["r" * 200, "b" * 100]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120])
def test_a_narrow_terminal_leaves_out_columns_and_breaks_no_name(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    facts = {
        "id": "swe-nightly-2026-11-24-task-123-0", "batch": "swe-nightly-2026-11-24",
        "task": "task-123", "health": "suspected_api_error", "fingerprint": "suspected:zero_signal",
        "total_tokens": 12_345, "cost_usd": 0.5,
    }  # fmt: skip
    print_rollouts([models.RolloutItem.model_validate({**BARE, **facts})], more=False)
    head, line = capsys.readouterr().out.splitlines()
    names = head.split()
    assert names[0] == "rollout"
    assert "reward" in names
    assert line.startswith("swe-nightly-2026-11-24-task-123-0 ")
    for column, cell in (("batch", facts["batch"]), ("health", facts["health"])):
        assert (f" {cell} " in line) is (column in names)
    assert len(line) <= max(width, len("swe-nightly-2026-11-24-task-123-0  reward"))


# --- The same query as REST's, on a real service ---


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with service(tmp_path_factory.mktemp("service")) as (address, _, _), Client(address) as client:

        def agent(task: str, rollout: Any) -> float:
            call(rollout.env["OPENAI_BASE_URL"], "sk-dead" if task == "dead" else "sk-good")
            return float(task != "lost")

        client.batch("first").run(["won", "lost", "dead"], agent, concurrency=1, retry=False)
        client.batch("second").run(["won"], agent)
        yield address


def run(url: str, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--url", url], env={"COLUMNS": "200"})


def items(url: str, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/rollouts?{query}").json()["items"]
    return found


@pytest.mark.slow
def test_a_list_is_restss_newest_first(url: str) -> None:
    done = run(url, "list", "--json", "--batch", "first", "--reward", "zero", "--reward", "null")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == items(url, "batch=first&reward=zero,null&order=desc")
    assert [each["task"] for each in json.loads(done.stdout)] == ["dead", "lost"]


def test_a_table_says_where_it_ends(url: str) -> None:
    done = run(url, "list", "--text", "won", "--limit", "1")
    assert "second" in done.stdout
    assert "first" not in done.stdout
    assert "there are more" in done.stdout
    assert "there are more" not in run(url, "list").stdout


def test_csv_is_the_services_own(url: str) -> None:
    done = run(url, "list", "--csv", "--sort", "reward", "--order", "asc", "--limit", "3")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["id"] for row in rows] == [i["id"] for i in items(url, "sort=reward&limit=3")]


def test_what_the_service_refuses_is_told(url: str) -> None:
    done = run(url, "list", "--health", "fine")
    assert done.exit_code == 1
    assert "health: must be 'healthy', 'api_error', " in done.stderr


def test_every_filter_is_an_option() -> None:
    said = CliRunner().invoke(app, ["list", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    for name in RolloutFilters.__annotations__:
        assert f"--{name.replace('_', '-')}" in said.stdout


def test_batches_are_listed_newest_first(url: str) -> None:
    done = run(url, "batches", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == httpx.get(f"{url}/batches").json()["items"]
    lines = run(url, "batches").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["batch", "second", "first"]
    assert "2 of 3" in lines[2]
    assert "there are more" in run(url, "batches", "--limit", "1").stdout
