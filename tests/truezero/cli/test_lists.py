"""The commands that list, on a real service: the same query as REST's, as a table, CSV and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from tests.truezero.driving import call, service
from truezero import Client
from truezero.cli import app
from truezero.sdk.arguments import RolloutFilters


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
    assert "health: Input should be" in done.stderr


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
