"""The program of guides/rl.md, run as it stands beside a service whose provider fails."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Request, Wait
from tests.house import ROOT
from tests.truezero.driving import call, service
from truezero import AsyncBatch, AsyncClient, Client, models
from truezero.sdk.events import Event

PAGE = ROOT / "docs" / "guides" / "rl.md"


def shown() -> str:
    """Return the program that the page shows."""
    found = re.search(r"<!-- program -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None, "docs/guides/rl.md shows no program"
    return found[1]


class Outages:
    """A provider that refuses or fails some calls of some tasks, and answers the others.

    Arguments:
        failing: by task, what its first calls meet, in order; None is an answer.
    """

    def __init__(self, failing: dict[str, list[Fault | None]]) -> None:
        self._left = {task: faults[::-1] for task, faults in failing.items()}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        asked = request.body.decode()
        with self._lock:
            for task, left in self._left.items():
                if task in asked and left and (fault := left.pop()) is not None:
                    return answers.FAILURES[Api.CHAT][fault]
        return answers.healthy(request)


def events_until_the_end(url: str, batch: str) -> list[Event]:
    found: list[Event] = []
    with Client(url) as client:
        for event in client.events(batch, after=0):
            found.append(event)
            if event.kind == "batch_ended":
                break
    return found


def start(folder: Path, url: str, key: str = "sk-good") -> subprocess.Popen[str]:
    """Start the program of the page, in a folder of its own."""
    (folder / "step.py").write_text(shown())
    return subprocess.Popen(
        [sys.executable, "step.py"], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TRUEZERO_URL": url, "OPENAI_API_KEY": key},
    )  # fmt: skip


def ended(program: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = program.communicate(timeout=600)
    return program.returncode, out, err


def trained(out: str) -> Mapping[str, int]:
    """How many rollouts of each task were trained on, by what the program printed."""
    lines = [re.fullmatch(r"(\d+ \S \d+) \w{24} [\d.]+ \d+", line) for line in out.splitlines()]
    return Counter(line[1] for line in lines if line is not None)


@pytest.mark.slow
def test_the_program_runs_as_it_stands_prints_what_it_masks_and_starts_twice(
    tmp_path: Path,
) -> None:
    with service(tmp_path, BREAKER_THRESHOLD="0") as (url, provider, _accounts):
        masked: list[Fault | None] = [Fault.AUTH, Fault.AUTH]
        again: list[Fault | None] = [*[None] * 7, Fault.PROVIDER_ERROR]  # the last, so it settles
        provider.plays(Outages({"6 * 7": masked, "100 - 1": again}))
        code, out, err = ended(start(tmp_path, url))
        assert (code, err) == (0, "")
        events = events_until_the_end(url, "step-12")
        asked = len(provider.requests)
        assert ended(start(tmp_path, url)) == (0, "", ""), "all is trained"
        assert len(provider.requests) == asked + 1, "it asks before the step, and nothing else"
    assert trained(out) == {"17 + 25": 8, "6 * 7": 6, "100 - 1": 8}
    (why,) = (line for line in out.splitlines() if "masked" in line)
    assert why.startswith("6 * 7 masked 2 of 8: does not count: the key was refused")
    settled = Counter(event.data["task"] for event in events if event.kind == "group_settled")
    assert settled["100 - 1"] > 1, "it was complete before what failed had been run again"


@pytest.mark.slow
def test_it_stops_when_a_breaker_opens_and_goes_on_once_that_is_reset(tmp_path: Path) -> None:
    with service(tmp_path) as (url, provider, _accounts):
        died: list[Fault | None] = [Fault.AUTH] * 16
        provider.plays(Outages({"6 * 7": died, "100 - 1": died}))
        code, out, err = ended(start(tmp_path, url))
        assert trained(out) == {"17 + 25": 8}
        assert {line for line in out.splitlines() if "dropped" in line} == {
            "6 * 7 dropped: 0 of 8 measured", "100 - 1 dropped: 0 of 8 measured",
        }  # fmt: skip
        assert "masked" in out and "the key was refused" in out
        assert code == 1
        assert re.fullmatch(
            r"step-12 stops: .*breaker open on auth:401.*truezero breaker reset step-12\n", err
        ), err
        provider.plays(answers.healthy)
        with Client(url) as client:
            client.reset_breaker("step-12")
        asked = len(provider.requests)
        code, out, err = ended(start(tmp_path, url))
        assert (code, err) == (0, "")
        assert trained(out) == {"6 * 7": 8, "100 - 1": 8}
        assert len(provider.requests) == asked + 1 + 16


@pytest.mark.slow
def test_a_dead_key_ends_the_step_before_it_begins(tmp_path: Path) -> None:
    with service(tmp_path) as (url, provider, _accounts):
        code, out, err = ended(start(tmp_path, url, key="sk-dead"))
        assert (code, out) == (1, "")
        assert err.startswith("step-12 does not begin: ") and "mend the key" in err
        assert len(provider.requests) == 1


@pytest.mark.slow
@pytest.mark.promise
def test_one_that_was_killed_goes_on(tmp_path: Path) -> None:
    gate = threading.Event()
    with service(tmp_path, BREAKER_THRESHOLD="0") as (url, provider, _accounts):

        def half(request: Request) -> Answer | tuple[Wait, ...]:
            stuck = len(provider.requests) > 14
            return (Wait(gate),) if stuck else answers.healthy(request)

        provider.plays(half)
        program = start(tmp_path, url)
        provider.wait_for(16)
        program.kill()
        before = trained(program.communicate()[0])
        provider.plays(answers.healthy)
        gate.set()
        code, out, err = ended(start(tmp_path, url))
        assert code == 0, err
        assert "measured already: not run again" in err
        assert {**before, **trained(out)} == {"17 + 25": 8, "6 * 7": 8, "100 - 1": 8}
        assert not before.keys() & trained(out).keys(), "none is trained on twice"


@pytest.mark.slow
async def test_its_learner_trains_each_group_once_however_often_it_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {"__name__": "page"}
    exec(shown(), page)
    page["LEAST"] = 2
    updates: list[models.Group] = []

    async def sample(batch: AsyncBatch, task: str, repeat: int, attempt: int, key: str) -> None:
        async with batch.rollout(task, repeat=repeat, repeats=2, attempt=attempt) as rollout:
            await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"], key)
            await rollout.finish(rewards=float(repeat))

    with service(tmp_path, BREAKER_THRESHOLD="0") as (url, _provider, _accounts):
        async with AsyncClient(url) as client:
            batch = client.batch("b")
            learning = asyncio.ensure_future(page["learn"](client, batch, updates.append))
            for task in ("x", "y"):
                for repeat, key in enumerate(("sk-good", "sk-down")):
                    await sample(batch, task, repeat, 0, key)
                await sample(batch, task, 1, 1, "sk-good")  # and it settles again
            await batch.end()
            await asyncio.wait_for(learning, 60)
        events = events_until_the_end(url, "b")
    settled = [event.data for event in events if event.kind == "group_settled"]
    assert [(data["task"], data["revision"], data["final"]) for data in settled] == [
        (task, revision, revision == 2) for task in ("x", "y") for revision in (1, 2)
    ], "four times for two groups"
    assert [(group.task, group.rewards) for group in updates] == [
        ("x", [0.0, 1.0]), ("y", [0.0, 1.0]),
    ]  # fmt: skip
