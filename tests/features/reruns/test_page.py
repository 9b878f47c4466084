"""The tab that lists what to run again, and the commands that run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from proxy.store.database import Database
from proxy.store.tables import rollouts
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_batch_pages import DOWN
from tests.proxy.web.test_pages import DEAD, LIMITED, page, play, words


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


def test_each_kind_is_a_part_to_which_the_overview_leads(service: Service) -> None:
    play(service, "down", DOWN, task="down")
    play(service, "dead", DEAD, task="dead")
    html = page(service, "/ui/batches/b")
    assert "Run again 2" in words(html), "its tab has a count"
    for kind in ("transient", "fix_first"):
        assert f'<a class="pill" href="?tab=again#{kind}">run again</a>' in html
        assert (
            f'data-copy="truezero rerun b --only {kind} --url {origin(service)} --command"' in html
        )
        assert f'id="{kind}"' in page(service, "/ui/batches/b", tab="again")


def test_it_lists_what_failed_and_whom_a_breaker_skipped(service: Service) -> None:
    for name in ("dead", "dead-2"):
        play(service, name, DEAD)
    play(service, "slow", LIMITED, upstream=None, model=None)
    again = words(page(service, "/ui/batches/b", tab="again"))
    assert "3 repeats to run again." in again
    assert "All 3 Fix first 2 Skipped 1" in again
    for kind, names in (("fix_first", {"dead", "dead-2"}), ("skipped", {"slow"})):
        assert listed(service, show=kind) == names
    assert listed(service, text="SLO") == {"slow"}
    assert listed(service, sort="cause") == {"dead", "dead-2", "slow"}
    html = page(service, "/ui/batches/b", tab="again", show="skipped")
    link = re.search(r'<a href="([^"]+)" download>JSON lines', html)
    assert link is not None
    rows = service.http.get("/ui/batches/b" + unescape(link[1])).text.splitlines()
    assert [json.loads(row)["rollout_id"] for row in rows] == ["slow"]


def listed(service: Service, **query: Any) -> set[str]:
    """The rows of the table of what to run again."""
    html = page(service, "/ui/batches/b", tab="again", **query)
    return {*re.findall(r'data-key="again ([^"]+)"', html)}


def test_what_to_run_again_can_be_copied(service: Service) -> None:
    play(service, "a b", DOWN, task="t", repeat=0, attempt=0)
    play(service, "dead", DEAD, task="u")
    html = page(service, "/ui/batches/b", tab="again")
    said = words(html)
    assert "1 Run again now" in said
    assert "1 Fix first" in said
    assert "replace the API key" in said
    assert 'href="/ui/rollouts/a%20b"' in html
    assert 'data-copy="a b"' in html
    assert f"truezero rerun b --only transient --url {origin(service)} --command" in said
    play(service, "again", task="t", repeat=0, attempt=1, reward=1.0)
    assert "Run again now" not in words(page(service, "/ui/batches/b", tab="again"))
    play(service, "good", batch="other", task="t")
    assert "Nothing to run again" in page(service, "/ui/batches/other", tab="again")


def origin(service: Service) -> str:
    return str(service.http.base_url).rstrip("/")


def pasted(command: str, **environment: str) -> list[str]:
    """The lines that a command prints in a shell whose PATH has this `truezero`."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], env={"PATH": path, "HOME": os.environ["HOME"], **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.postgres_smoke
@pytest.mark.slow
def test_the_command_to_run_again_registers_the_same_task_model_and_policy(
    service: Service,
) -> None:
    policy = {"max_steps": "exclude", "validity": "suspect"}
    placed = {"model": "gpt-5-mini", "task": "a b", "repeat": 1, "repeats": 2}
    play(service, "down", DOWN, attempt=0, policy=policy, **placed)
    html = page(service, "/ui/batches/b", tab="again")
    failed, missing = re.findall(r'data-copy="(truezero rerun [^"]*)"', html)
    *_, line = pasted(unescape(missing))
    assert "--repeat 0 --attempt 0 --repeats 2 --model gpt-5-mini --upstream openai" in line
    *_, line = pasted(unescape(failed))
    pasted(f"{line} || true", AGENT="true")
    again = [each for each in service.get("/rollouts", batch="b")["items"] if each["id"] != "down"]
    (rollout,) = again
    expected = {**placed, **policy, "attempt": 1, "upstream": "openai"}
    columns = (rollouts.c[name] for name in expected)
    with closing(Database(service.database)) as database:
        registered = database.read(
            lambda connection: connection.execute(
                select(*columns).where(rollouts.c.id == rollout["id"])
            ).one()
        )
    assert registered._asdict() == expected
