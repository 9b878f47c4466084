"""The program of guides/rl.md, run as it stands beside a service whose provider fails."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Request
from tests.truezero.driving import call, service
from truezero import AsyncBatch, AsyncClient, Client, models
from truezero.sdk.events import Event

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "rl.md"


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


@pytest.mark.slow
def test_the_program_of_the_page_runs_as_it_stands_and_ends(tmp_path: Path) -> None:
    program = tmp_path / "step.py"
    program.write_text(shown())
    with service(tmp_path, BREAKER_THRESHOLD="0") as (url, provider, _accounts):
        masked: list[Fault | None] = [Fault.AUTH, Fault.AUTH]
        again: list[Fault | None] = [*[None] * 7, Fault.PROVIDER_ERROR]  # the last, so it settles
        provider.plays(Outages({"6 * 7": masked, "100 - 1": again}))
        done = subprocess.run(
            [sys.executable, program], capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "TRUEZERO_URL": url, "OPENAI_API_KEY": "sk-good"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        events = events_until_the_end(url, "step-12")
    lines = [re.fullmatch(r"(\d+ \S \d+) (\S+) (.*)", line) for line in done.stdout.splitlines()]
    told = [line.groups() for line in lines if line is not None]
    assert Counter(task for task, _, _ in told) == {"17 + 25": 8, "6 * 7": 8, "100 - 1": 8}
    assert len({rollout for _, rollout, _ in told}) == len(lines) == 24, "each was trained once"
    assert Counter(task for task, _, rest in told if rest == "masked") == {"6 * 7": 2}
    settled = Counter(event.data["task"] for event in events if event.kind == "group_settled")
    assert settled["100 - 1"] > 1, "it was complete before what failed had been run again"


@pytest.mark.slow
async def test_its_learner_trains_each_group_once_however_often_it_settles(
    tmp_path: Path,
) -> None:
    page: dict[str, Any] = {"__name__": "page"}
    exec(shown(), page)
    trained: list[models.Group] = []

    async def sample(batch: AsyncBatch, task: str, repeat: int, attempt: int, key: str) -> None:
        async with batch.rollout(task, repeat=repeat, repeats=2, attempt=attempt) as rollout:
            await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"], key)
            await rollout.finish(rewards=float(repeat))

    with service(tmp_path, BREAKER_THRESHOLD="0") as (url, _provider, _accounts):
        async with AsyncClient(url) as client:
            batch = client.batch("b")
            learning = asyncio.ensure_future(page["learn"](batch, trained.append))
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
    assert [(group.task, group.rewards) for group in trained] == [
        ("x", [0.0, 1.0]), ("y", [0.0, 1.0]),
    ]  # fmt: skip
