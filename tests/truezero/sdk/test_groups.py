"""Groups as they settle: each once, and none missed between listing and listening."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.truezero.driving import Accounts, call, service
from truezero import AsyncClient, Client, ServiceError, models
from truezero.sdk._sync.batches import settled_since
from truezero.sdk.batches import SettledGroups, unless_unknown
from truezero.sdk.events import Event

_numbers = itertools.count(1)
both = pytest.mark.parametrize("kind", ["sync", "async"])
ALIVE = Event(id=1, kind="alive", data={})
ENDED = Event(id=3, kind="batch_ended", data={})
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
        first, second = batch.groups(method="mean")
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
            batch = client.batch(name, **facts)
            await asyncio.to_thread(lambda: batch.run(tasks, fn, **how))
        return

    async def awaited(task: str, rollout: Any) -> float:
        return float(await asyncio.to_thread(fn, task, rollout))

    async with AsyncClient(url) as asynchronous:
        await asynchronous.batch(name, **facts).run(tasks, awaited, **how)


@both
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


class Learner:
    """What a training loop is given by `groups`, beside the run that it learns of."""

    def __init__(self, url: str, kind: str, name: str) -> None:
        self.told: list[models.Group] = []
        self._url, self._kind, self._name = url, kind, name

    async def follow(self) -> list[models.Group]:
        """Return every group that there was, when there are no more."""
        if self._kind == "sync":
            with Client(self._url) as client:
                await asyncio.to_thread(self.told.extend, client.batch(self._name).groups())
        else:
            async with AsyncClient(self._url) as client:
                async for group in client.batch(self._name).groups():
                    self.told.append(group)
        return self.told


@both
async def test_groups_of_a_batch_that_has_ended_end(
    world: tuple[str, Accounts], name: str, kind: str
) -> None:
    url = world[0]
    beside = asyncio.ensure_future(Learner(url, kind, name).follow())
    await run_of(url, kind, name, ["a", "b"], agent, repeats=3, retry=False)
    told_beside = await asyncio.wait_for(beside, 60)
    told_later = await asyncio.wait_for(Learner(url, kind, name).follow(), 60)
    for found in (told_beside, told_later):
        final = [group for group in found if group.final]
        assert [told(group) for group in final] == [
            ("a", 3, [0.0, 1.0, 2.0], 0), ("b", 3, [0.0, None, 2.0], 1),
        ]  # fmt: skip
    assert [group.revision for group in told_later] == [1, 1]


@both
async def test_a_batch_that_several_machines_share_ends_with_the_last_of_them(
    world: tuple[str, Accounts], name: str, kind: str
) -> None:
    url = world[0]
    first_is_over = threading.Event()

    def after_the_first(task: str, rollout: Any) -> float:
        assert first_is_over.wait(60)
        return agent(task, rollout)

    learner = Learner(url, kind, name)
    beside = asyncio.ensure_future(learner.follow())
    late = asyncio.ensure_future(run_of(url, kind, name, ["y", "z"], after_the_first, repeats=2))
    with Client(url) as client:
        while not (await asyncio.to_thread(client.rollouts, batch=name)):
            await asyncio.sleep(0.01)
        await run_of(url, kind, name, ["x"], agent, repeats=2)
        assert not client.batch(name).end("nobody").ended
    first_is_over.set()
    await late
    found = [group.task for group in await asyncio.wait_for(beside, 60)]
    assert (found[0], sorted(found)) == ("x", ["x", "y", "z"])


@both
async def test_a_run_that_was_killed_is_over_when_it_is_resumed(
    world: tuple[str, Accounts], name: str, kind: str
) -> None:
    def killed(task: str, rollout: Any) -> float:
        if task == "y":
            raise KeyboardInterrupt
        return agent(task, rollout)

    url = world[0]
    how: dict[str, Any] = {"repeats": 2, "concurrency": 1}
    with Client(url) as client, pytest.raises(KeyboardInterrupt):
        client.batch(name).run(["x", "y"], killed, **how)
    beside = asyncio.ensure_future(Learner(url, kind, name).follow())
    await run_of(url, kind, name, ["x", "y"], agent, **how)
    last = {group.task: group for group in await asyncio.wait_for(beside, 60)}
    assert {task: (group.final, group.rewards) for task, group in last.items()} == {
        "x": (True, [0.0, 1.0]), "y": (True, [0.0, 1.0]),
    }  # fmt: skip


async def test_whoever_starts_rollouts_by_hand_says_when_no_more_come(
    world: tuple[str, Accounts], name: str
) -> None:
    async with AsyncClient(world[0]) as client:
        batch = client.batch(name)
        assert (await batch.begin("me")).open_runs == 1
        for repeat in (0, 1):
            async with batch.rollout("t", repeat=repeat, repeats=2) as rollout:
                await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"])
                await rollout.finish(rewards=float(repeat))
        assert (await batch.end("me")).ended
        assert [told(group) async for group in batch.groups()] == [("t", 2, [0.0, 1.0], 0)]


def group_of(*rollout_ids: str, ended: bool = False, **said: Any) -> dict[str, object]:
    one = {
        "task": "t", "method": "grpo", "wanted": 1, "settled": True, "revision": 1, "final": False,
        "repeats": [0], **said, "rollout_ids": list(rollout_ids), "rewards": [None],
        "valid": [False], "baseline": None,
        "std": None, "advantages": [None], "resample": 0, "drop": True,
    }  # fmt: skip
    return {"items": [one], "ended": ended, "next": None}


def settled(
    groups: SettledGroups, event: Event, *answers: dict[str, object]
) -> tuple[dict[str, str], list[models.Group]]:
    """Tell of an event, and answer what is asked then; the last query, and the groups."""
    waiting, queries = list(answers), list[dict[str, str]]()

    def answer(request: httpx.Request) -> httpx.Response:
        queries.append(dict(request.url.params))
        return httpx.Response(200, json=waiting.pop(0))

    with Client("http://truezero.test", transport=httpx.MockTransport(answer)) as client:
        found = settled_since(client, groups, event)
    assert waiting == []
    return queries[-1], found


def test_what_settled_before_is_listed_once_the_stream_is_open() -> None:
    groups = SettledGroups("b", min_valid=3)
    assert groups.wants(ALIVE)
    request, found = settled(groups, ALIVE, group_of("r1"))
    assert (request["min_valid"], "task" in request) == ("3", False)
    assert [group.rollout_ids for group in found] == [["r1"]]
    assert not groups.wants(ALIVE)
    assert not groups.wants(Event(id=3, kind="verdict_given", data={}))


def test_a_group_that_was_listed_is_not_told_again_until_other_rollouts_count() -> None:
    groups = SettledGroups("b")
    settled(groups, ALIVE, group_of("r1"))
    assert groups.wants(SETTLED)
    request, found = settled(groups, SETTLED, group_of("r1"))
    assert (request["task"], found) == ("t", [])
    _, found = settled(groups, SETTLED, group_of("r2"))
    assert [group.rollout_ids for group in found] == [["r2"]]
    _, found = settled(groups, SETTLED, group_of("r2", revision=2))
    assert [group.revision for group in found] == [2]  # other rewards, of the same rollouts
    _, found = settled(groups, SETTLED, group_of("r2", revision=2, final=True))
    assert [group.final for group in found] == [True]


def test_all_groups_are_asked_for_once_more_when_the_batch_ends() -> None:
    groups = SettledGroups("b")
    settled(groups, ALIVE, group_of("r1"))
    assert (groups.wants(ENDED), groups.ended) == (True, False)
    request, found = settled(groups, ENDED, group_of("r1", ended=True, final=True))
    assert ("task" in request, [group.final for group in found]) == (False, [True])
    assert groups.ended


def test_a_batch_that_ends_between_two_events_is_noticed_with_the_next_one() -> None:
    groups = SettledGroups("b")
    settled(groups, ALIVE, group_of("r1"))
    request, _ = settled(groups, SETTLED, group_of("r1", ended=True), group_of(ended=True))
    assert ("task" in request, groups.ended) == (False, True)
    again = SettledGroups("b")
    settled(again, ALIVE, {**group_of("r1", ended=True), "next": "t"}, group_of("r2"))
    assert not again.ended, "it went on before the last page was read"


def test_only_an_unknown_batch_is_waited_for() -> None:
    with unless_unknown():
        raise ServiceError("no such batch", status=404, code="unknown_batch")
    with pytest.raises(ServiceError, match="gone"), unless_unknown():
        raise ServiceError("gone")
