"""Groups as they settle: each once, and none missed between listing and listening."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.truezero.driving import Accounts, call, service
from truezero import AsyncClient, Client, ServiceError, models
from truezero.sdk.events import Event
from truezero.sdk.groups import SettledGroups, unless_unknown
from truezero.sdk.steps import Request, Story

_numbers = itertools.count(1)
ALIVE = Event(id=1, kind="alive", data={})
SETTLED = Event(id=2, kind="group_settled", data={"task": "t"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Accounts]]:
    folder = tmp_path_factory.mktemp("service")
    with service(folder, BREAKER_THRESHOLD="0") as (url, _provider, accounts):
        yield url, accounts


@pytest.fixture
def name() -> str:
    return f"b{next(_numbers)}"


def agent(task: str, rollout: Any) -> float:
    key = "sk-down" if (task, rollout.repeat) == ("b", 1) else "sk-good"
    call(rollout.env["OPENAI_BASE_URL"], key)
    return float(rollout.repeat)


def told(group: models.Group) -> tuple[object, ...]:
    return group.task, group.wanted, group.rewards, group.resample


def test_groups_of_a_run_are_there_with_what_failed_left_out(
    world: tuple[str, Accounts], name: str
) -> None:
    with Client(world[0]) as client:
        batch = client.batch(name, model="gpt-5", upstream="openai")
        batch.run(["a", "b"], agent, repeats=3, retry=False)
        first, second = itertools.islice(batch.groups(method="mean"), 2)
        assert told(first) == ("a", 3, [0.0, 1.0, 2.0], 0)
        assert told(second) == ("b", 3, [0.0, None, 2.0], 1)
        assert (first.advantages, second.advantages) == ([-1.0, 0.0, 1.0], [-1.0, None, 1.0])
        assert [told(one) for one in client.groups(name)] == [told(first), told(second)]
        assert client.groups(name, settled=False) == []


async def run_of(url: str, kind: str, name: str, tasks: list[str], fn: Any, **how: Any) -> None:
    """Run a batch with either client; the function is a plain one."""
    facts: dict[str, Any] = {"model": "gpt-5", "upstream": "openai"}
    if kind == "sync":
        with Client(url) as client:
            await asyncio.to_thread(client.batch(name, **facts).run, tasks, fn, **how)
        return

    async def awaited(task: str, rollout: Any) -> float:
        return float(await asyncio.to_thread(fn, task, rollout))

    async with AsyncClient(url) as asynchronous:
        await asynchronous.batch(name, **facts).run(tasks, awaited, **how)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_samples_start_group_by_group_so_that_the_first_settles_long_before_the_last(
    world: tuple[str, Accounts], name: str, kind: str
) -> None:
    started: list[tuple[str, int]] = []
    settled: list[list[str]] = []

    def sample(task: str, rollout: Any) -> float:
        with Client(world[0]) as client:
            settled.append([group.task for group in client.groups(name, settled=True)])
        started.append((task, rollout.repeat))
        return agent(task, rollout)

    await run_of(world[0], kind, name, ["x", "y", "z"], sample, repeats=4, concurrency=1)
    assert started == [(task, repeat) for task in "xyz" for repeat in range(4)]
    assert settled == [[]] * 4 + [["x"]] * 4 + [["x", "y"]] * 4


async def test_a_group_comes_as_soon_as_its_last_rollout_is_judged(
    world: tuple[str, Accounts], name: str
) -> None:
    async with AsyncClient(world[0]) as client:
        batch = client.batch(name)
        waiting = batch.groups()  # before the batch has any rollout
        first = asyncio.ensure_future(anext(waiting))
        for repeat in (0, 1):
            async with batch.rollout("t", repeat=repeat, repeats=2, attempt=0) as rollout:
                key = "sk-down" if repeat else "sk-good"
                await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"], key)
                await rollout.finish(rewards=1.0)
        group = await asyncio.wait_for(first, 60)
        assert (group.rewards, group.resample, group.drop) == ([1.0, None], 1, False)
        async with batch.rollout("t", repeat=1, repeats=2, attempt=1) as rollout:
            await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"], "sk-good")
            await rollout.finish(rewards=0.0)
        again = await asyncio.wait_for(anext(waiting), 60)
        assert (again.rewards, again.resample) == ([1.0, 0.0], 0)
        await waiting.aclose()  # type: ignore[attr-defined]


def group_of(*rollout_ids: str, settled: bool = True) -> dict[str, object]:
    one = {
        "task": "t", "method": "grpo", "wanted": 1, "settled": settled, "repeats": [0],
        "rollout_ids": list(rollout_ids), "rewards": [None], "valid": [False], "baseline": None,
        "std": None, "advantages": [None], "resample": 0, "drop": True,
    }  # fmt: skip
    return {"items": [one], "next": None}


def played(
    story: Story[list[models.Group]], answer: dict[str, object]
) -> tuple[Request[Any], list[models.Group]]:
    request = next(story)
    assert isinstance(request, Request)
    try:
        story.send(request.read(answer))
    except StopIteration as end:
        return request, end.value
    raise AssertionError("one page was enough")


def test_what_settled_before_is_listed_once_the_stream_is_open() -> None:
    groups = SettledGroups("b", min_valid=3)
    assert groups.wants(ALIVE)
    request, found = played(groups.after(ALIVE), group_of("r1"))
    assert (request.params["min_valid"], "task" in request.params) == (3, False)
    assert [group.rollout_ids for group in found] == [["r1"]]
    assert not groups.wants(ALIVE)
    assert not groups.wants(Event(id=3, kind="verdict_given", data={}))


def test_a_group_that_was_listed_is_not_told_again_until_other_rollouts_count() -> None:
    groups = SettledGroups("b")
    played(groups.after(ALIVE), group_of("r1"))
    assert groups.wants(SETTLED)
    request, found = played(groups.after(SETTLED), group_of("r1"))
    assert (request.params["task"], found) == ("t", [])
    _, found = played(groups.after(SETTLED), group_of("r2"))
    assert [group.rollout_ids for group in found] == [["r2"]]


def test_only_an_unknown_batch_is_waited_for() -> None:
    with unless_unknown():
        raise ServiceError("no such batch", status=404, code="unknown_batch")
    with pytest.raises(ServiceError, match="gone"), unless_unknown():
        raise ServiceError("gone")
