"""A batch is judged anew before something is made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from proxy.control import judge
from proxy.control.judge import current_version
from proxy.control.queries import Service as ControlService
from proxy.routing.errors import TokenBucket
from proxy.store.batches import outdated
from proxy.store.database import Database
from tests.fakes import answers
from tests.features.exports.archives import exported, imported
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import CHAT, play


async def test_what_runs_is_judged_again_no_more_often_than_time_allows(
    service: Service, control: ControlService
) -> None:
    """However many pages of a batch are open; what ended is always judged."""
    service.http.post("/rollouts", json={"id": "long", "batch": "b"})
    asked = iter(range(10_000))

    async def judged_again() -> bool:
        service.provider.plays(answers.chat())
        service.http.post(f"/r/long/openai{CHAT}", json={"model": "gpt-5", "n": next(asked)})
        return not (await current_version(control, "b")).waits

    assert await judged_again()
    control.rejudging.take(10_000)
    assert not await judged_again()
    play(service, "won", reward=1.0)
    assert service.get("/batches/b")["scored"] == 1, "an outcome does not wait"
    assert service.get("/batches/b")["outdated"] == 1
    control.rejudging.take(-20_000)
    assert await judged_again()


async def test_only_what_is_judged_again_counts_towards_that(
    service: Service, control: ControlService
) -> None:
    """A page that judges what has ended or is new leaves as many for the next."""
    again = TokenBucket(1.0, most=8, clock=lambda: 0.0)
    control = replace(control, rejudging=again)
    for name in ("won", "also"):
        play(service, name, reward=1.0)
    service.http.post("/rollouts", json={"id": "long", "batch": "b"})
    assert await judge.refresh(control, "b", running=8)
    assert again.left == 8
    service.provider.plays(answers.chat())
    service.http.post(f"/r/long/openai{CHAT}", json={"model": "gpt-5"})
    assert await judge.refresh(control, "b", running=8)
    assert again.left == 7


async def test_many_that_run_are_judged_again_together(
    service: Service, control: ControlService
) -> None:
    """Between two groups of them a batch keeps its version, and nothing is read anew."""
    for number in range(3):
        service.http.post("/rollouts", json={"id": f"r{number}", "batch": "b"})
    await judge.refresh(control, "b", running=8)
    for number in range(3):
        service.provider.plays(answers.chat())
        service.http.post(f"/r/r{number}/openai{CHAT}", json={"model": "gpt-5"})
    now = 0.0
    again = TokenBucket(1.0, most=2, clock=lambda: now)
    again.take(1)
    control = replace(control, rejudging=again)
    assert not await judge.refresh(control, "b", running=8), "one may be, three wait"
    now = 1.0
    assert await judge.refresh(control, "b", running=8)
    assert again.left == 0
    assert not await judge.refresh(control, "b", running=8)
    now = 2.0
    assert await judge.refresh(control, "b", running=8), "the last one need not wait for more"
    assert again.left == 0


def test_a_batch_is_read_once_for_each_state_that_it_is_in(
    service: Service, control: ControlService
) -> None:
    play(service, "won", reward=1.0)
    for path in ("/batches/b", "/batches/b/check", "/ui/batches/b", "/"):
        assert service.http.get(path).status_code == 200
    ((_, before),) = control.batch_states.values()
    assert service.get("/batches/b")["scored"] == 1
    assert control.batch_states["b"][1] is before
    play(service, "also", reward=1.0)
    assert service.get("/batches/b")["scored"] == 2
    assert control.batch_states["b"][1] is not before


def test_of_what_was_never_judged_a_part_is_and_what_ended_all(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "_RUNNING", 2)
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
    play(service, "won", reward=1.0)
    for waiting in (3, 1, 0):
        told = service.get("/batches/b")
        assert (told["rollouts"], told["outdated"]) == (6, waiting)
        assert (told["pending"], told["scored"]) == (5 - waiting, 1)


def test_an_import_knows_what_was_judged_before(service: Service, tmp_path: Path) -> None:
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
        service.call(f"r{n}")
    for _ in range(5):  # some are judged each time
        service.get("/batches/b")
    service.call("r4")

    def told(url: str) -> int:
        database = Database(url)
        try:
            return database.read(outdated, "b")
        finally:
            database.close()

    assert told(service.database) == 1, "the one that was called since"
    other = str(tmp_path / "other.db")
    imported(other, exported(service.database))
    assert told(other) == 1
