"""The SDK on a real service: what a block's end becomes, and how a batch is run."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future, as_completed, wait
from typing import Any

import httpx
import pytest

import truezero
from tests.fakes.provider import Provider, closed_port
from tests.truezero.driving import Accounts, call, service
from truezero import AsyncClient, AsyncRollout, Client, Rollout, ServiceError, Skipped

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Provider, Accounts]]:
    with service(tmp_path_factory.mktemp("service"), BREAKER_THRESHOLD="3") as running:
        yield running


@pytest.fixture
def url(world: tuple[str, Provider, Accounts]) -> str:
    return world[0]


@pytest.fixture
def name() -> str:
    """Of a batch of the test's own: all tests share one service."""
    return f"b{next(_numbers)}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, sleep=lambda _seconds: None) as connected:
        yield connected


def reported(url: str, rollout_id: str) -> httpx.Response:
    return httpx.get(f"{url}/rollouts/{rollout_id}/result")


def test_a_block_says_where_to_point_an_agent_and_what_came_of_it(
    client: Client, name: str
) -> None:
    with client.batch(name, model="gpt-5", upstream="openai") as batch:
        with batch.rollout("task-1", attempt=0) as rollout:
            assert rollout.env["OPENAI_BASE_URL"] == rollout.base_urls["openai"]
            assert rollout.key.startswith("tz-")
            assert call(rollout.env["OPENAI_BASE_URL"]) == 200
            stored = rollout.finish(rewards=0.0, tool_calls=0, termination_reason="agent_stop")
        assert stored == rollout.result
        assert stored.rewards == {"reward": 0.0}
        assert (rollout.verdict.health, rollout.verdict.total_requests) == ("healthy", 1)
        assert batch.summary().score_effective == 0.0
        assert batch.check().valid


def test_a_reward_without_a_model_is_taken_away(client: Client, name: str) -> None:
    with client.batch(name).rollout("t") as rollout:
        call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
        rollout.finish(rewards={"reward": 1.0})
    assert rollout.result.rewards is None
    assert rollout.verdict.subcategory == "auth"


def test_a_verdict_can_be_looked_at_before_the_end(client: Client, name: str) -> None:
    with client.batch(name).rollout("t") as rollout:
        for _ in range(2):
            call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
        assert rollout.peek().doomed
        assert not rollout.finished
        with pytest.raises(RuntimeError, match="not finished"):
            _ = rollout.verdict
    assert rollout.finished


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (TimeoutError("sk-secret"), "task_timeout", "TimeoutError"),
        (subprocess.TimeoutExpired("cmd", 1), "task_timeout", "TimeoutExpired"),
        (truezero.TaskTimeout("after 600 s"), "task_timeout", "after 600 s"),
        (truezero.AgentError("exit code 3"), "agent_error", "exit code 3"),
        (truezero.EnvironmentError("no sandbox"), "environment_error", "no sandbox"),
        (truezero.UserError(), "user_error", "UserError"),
        (truezero.EvaluationFailed("no tests"), "evaluation_failed", "no tests"),
        (truezero.SetupFailed("no image"), "setup_failed", "no image"),
        (ValueError("sk-secret"), "unknown_execution_error", "ValueError"),
    ],
)
def test_an_exception_becomes_the_status_it_means_and_goes_on(
    client: Client, error: Exception, status: str, told: str, name: str
) -> None:
    rollout = client.batch(name).rollout("t")
    with pytest.raises(type(error)), rollout:
        raise error
    assert (rollout.result.status, rollout.result.error) == (status, told)
    assert rollout.verdict.health == "not_judged"  # nor had any call been made


def test_a_runners_own_exception_can_mean_a_status(client: Client, name: str) -> None:
    class OutOfDisk(truezero.EnvironmentError):
        pass

    rollout = client.batch(name).rollout("t")
    with pytest.raises(OutOfDisk), rollout:
        raise OutOfDisk
    assert rollout.result.status == "environment_error"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_is_broken_off_passes_on_and_reports_nothing(
    client: Client, url: str, stop: type[BaseException], name: str
) -> None:
    rollout = client.batch(name).rollout("t")
    with pytest.raises(stop), rollout:
        raise stop
    assert not rollout.finished
    assert reported(url, rollout.id).json()["code"] == "no_outcome"


def test_an_outcome_once_reported_stands(client: Client, name: str) -> None:
    rollout = client.batch(name).rollout("t")
    with pytest.raises(ZeroDivisionError), rollout:
        rollout.finish(rewards=1.0, tool_calls=1)
        _ = 1 / 0
    assert rollout.result.status == "success"


def test_a_loop_reports_its_steps_and_its_reason(client: Client, url: str, name: str) -> None:
    with client.batch(name).rollout("t") as rollout:
        loop = rollout.loop(5, agent_done=lambda status: status == 200)
        loop.run(lambda _step: call(rollout.env["OPENAI_BASE_URL"]))
    assert rollout.result.termination_reason == "agent_stop"
    assert reported(url, rollout.id).json()["prompts_executed"] == 1


def test_a_lane_that_is_stopped_is_skipped_on_entry(client: Client, name: str) -> None:
    batch = client.batch(name, model="gpt-5", upstream="openai")
    for number in range(3):
        with batch.rollout(f"t{number}") as rollout:
            call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
    with pytest.raises(Skipped, match="breaker open on auth:401") as caught, batch.rollout("t3"):
        raise AssertionError("nothing is run")
    assert caught.value.rollout_id
    (lane,) = batch.breaker().lanes
    assert lane.phase == "open"
    assert batch.reset_breaker().lanes[0].phase == "half_open"


# --- running a batch -----------------------------------------------------------------------


def solve(key: str, rollout: Rollout) -> float:
    return float(call(rollout.env["OPENAI_BASE_URL"], key) == 200)


async def solve_async(key: str, rollout: AsyncRollout) -> float:
    return await asyncio.to_thread(lambda: float(call(rollout.env["OPENAI_BASE_URL"], key) == 200))


def run(
    url: str,
    name: str,
    kind: str,
    keys: dict[str, str],
    concurrency: int = 8,
    max_wait_s: float = 300,
    repeats: int = 1,
) -> truezero.BatchRun:
    """The tasks by either client, each with the key that says how it goes."""
    waits: list[float] = []

    def sync() -> truezero.BatchRun:
        with Client(url, sleep=waits.append) as client:
            batch = client.batch(name, model="gpt-5", upstream="openai")
            return batch.run(
                keys,
                lambda task, r: solve(keys[task], r),
                repeats=repeats,
                concurrency=concurrency,
                max_wait_s=max_wait_s,
            )

    async def later() -> truezero.BatchRun:
        async with AsyncClient(url) as client, client.batch(name, model="gpt-5") as batch:
            return await batch.run(
                keys,
                lambda task, r: solve_async(keys[task], r),
                upstream="openai",
                repeats=repeats,
                concurrency=concurrency,
                max_wait_s=max_wait_s,
            )

    return sync() if kind == "sync" else asyncio.run(later())


both = pytest.mark.parametrize("kind", ["sync", "async"])


@both
def test_a_run_returns_results_in_order_and_what_the_batch_stands_on(
    url: str, kind: str, name: str
) -> None:
    done = run(url, name, kind, {"a": "sk-good", "b": "sk-dead", "c": "sk-good"})
    assert [ran.task for ran in done.results] == ["a", "b", "c"]
    assert [ran.verdict and ran.verdict.health for ran in done.results] == [
        "healthy", "api_error", "healthy",
    ]  # fmt: skip
    assert [ran.result and ran.result.rewards for ran in done.results] == [
        {"reward": 1.0}, None, {"reward": 1.0},
    ]  # fmt: skip
    assert (done.summary.score_effective, done.summary.scoreable) == (1.0, 2)


@both
def test_what_is_transient_is_run_again_until_it_comes_through(
    world: tuple[str, Provider, Accounts], kind: str, name: str
) -> None:
    url, _provider, accounts = world
    accounts.outages = 1
    done = run(url, name, kind, {"t": "sk-flaky"})
    (ran,) = done.results
    assert (ran.attempts, ran.verdict and ran.verdict.health) == (2, "healthy")
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert [item["attempt"] for item in listed] == [0, 1]
    assert done.summary.score_retried == 1.0


@both
def test_attempts_go_on_counting_in_a_second_run(url: str, kind: str, name: str) -> None:
    run(url, name, kind, {"t": "sk-down"}, max_wait_s=0)
    (again,) = run(url, name, kind, {"t": "sk-good"}).results
    assert again.attempts == 1
    listed = httpx.get(f"{url}/rollouts", params={"batch": name, "task": "t"}).json()["items"]
    assert [item["attempt"] for item in listed] == [0, 1]


@both
def test_repeats_count_each_and_are_run_again_each(
    world: tuple[str, Provider, Accounts], kind: str, name: str
) -> None:
    url, _provider, accounts = world
    accounts.outages = 1
    done = run(url, name, kind, {"t": "sk-flaky"}, repeats=2, concurrency=1)
    assert [(ran.task, ran.repeat, ran.attempts) for ran in done.results] == [
        ("t", 0, 2), ("t", 1, 1),
    ]  # fmt: skip
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert sorted((item["repeat"], item["attempt"]) for item in listed) == [(0, 0), (0, 1), (1, 0)]
    assert (done.summary.total, done.summary.scored, done.summary.retried) == (2, 2, 1)
    again = run(url, name, kind, {"t": "sk-good"}, repeats=2)
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert sorted((item["repeat"], item["attempt"]) for item in listed) == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1),
    ]  # fmt: skip
    assert again.summary.total == 2


def test_a_wait_that_is_too_long_is_left_to_the_runner(url: str, name: str) -> None:
    (ran,) = run(url, name, "sync", {"t": "sk-down"}, max_wait_s=0).results
    assert (ran.attempts, ran.verdict and ran.verdict.retry.eligible) == (1, True)


@both
def test_an_open_breaker_skips_the_rest(url: str, kind: str, name: str) -> None:
    done = run(url, name, kind, {f"t{n}": "sk-dead" for n in range(6)}, concurrency=1)
    assert [ran.skipped is None for ran in done.results] == [True] * 3 + [False] * 3
    assert "breaker open on auth:401" in str(done.results[-1].skipped)
    assert (done.summary.total, done.summary.skipped) == (6, 3)


def test_what_flies_when_the_breaker_opens_is_let_finish(client: Client, name: str) -> None:
    opened = threading.Event()

    def fly(task: str, rollout: Rollout) -> float:
        if task == "slow":
            assert opened.wait(60)
            return float(call(rollout.env["OPENAI_BASE_URL"]) == 200)
        call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
        return 0.0

    batch = client.batch(name, model="gpt-5", upstream="openai")
    tasks = ["slow", "d0", "d1", "d2", "late"]

    def watch() -> None:
        while not any(lane.phase == "open" for lane in batch.breaker().lanes):
            opened.wait(0.02)
        opened.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    done = batch.run(tasks, fly, concurrency=2)
    watcher.join()
    assert done.results[0].result is not None
    assert done.results[0].result.rewards == {"reward": 1.0}
    assert done.results[4].skipped is not None


@both
def test_what_a_function_raises_is_the_status_of_its_task_only(
    url: str, kind: str, name: str
) -> None:
    def broken(task: str, _rollout: Rollout) -> float:
        if task == "bad":
            raise truezero.AgentError("exit code 3")
        return 1.0

    async def broken_async(task: str, rollout: AsyncRollout) -> float:
        return broken(task, rollout)  # type: ignore[arg-type]

    async def later() -> truezero.BatchRun:
        async with AsyncClient(url) as client:
            return await client.batch(name).run(["bad", "good"], broken_async)

    if kind == "sync":
        with Client(url) as client:
            done = client.batch(name).run(["bad", "good"], broken)
    else:
        done = asyncio.run(later())
    bad, good = done.results
    assert isinstance(bad.error, truezero.AgentError)
    assert bad.result is not None
    assert bad.result.status == "agent_error"
    assert good.error is None


@both
def test_a_service_that_goes_away_ends_the_run_with_an_error(kind: str, name: str) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(ServiceError, match="cannot reach a truezero service"):
        run(url, name, kind, {"t": "sk-good"})


class Away(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A service that is there for so many requests, and then is not."""

    def __init__(self, requests: int) -> None:
        self._http = httpx.HTTPTransport()
        self._left = requests
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise httpx.ConnectError("refused", request=request)
        answer = self._http.handle_request(request)
        return httpx.Response(answer.status_code, content=answer.read(), request=request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.to_thread(self.handle_request, request)


@both
def test_a_service_that_goes_away_in_between_is_never_a_healthy_rest(
    url: str, kind: str, name: str
) -> None:
    started: list[str] = []
    tasks = [f"t{n}" for n in range(8)]

    async def note(task: str, _rollout: AsyncRollout) -> None:
        started.append(task)

    async def later() -> None:
        async with AsyncClient(url, transport=Away(6)) as client:
            await client.batch(name).run(tasks, note, concurrency=1)

    def sync() -> None:
        with Client(url, transport=Away(6)) as client:
            client.batch(name).run(tasks, lambda task, _r: started.append(task), concurrency=1)

    with pytest.raises(ServiceError):
        asyncio.run(later()) if kind == "async" else sync()
    assert started == ["t0", "t1"], "the second was announced, and could not be reported"


@both
def test_nothing_is_announced_once_the_service_has_gone(
    url: str, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(running: list[Future[Any]]) -> Iterator[Future[Any]]:
        wait(running)  # a busy machine: the caller's thread comes last
        return as_completed(running)

    monkeypatch.setattr("truezero.sdk.batches.as_completed", late)
    away = Away(3)
    tasks = [f"t{n}" for n in range(50)]

    async def note(_task: str, _rollout: AsyncRollout) -> None:
        return None

    async def later() -> None:
        async with AsyncClient(url, transport=away) as client:
            await client.batch(name).run(tasks, note, concurrency=2)

    def sync() -> None:
        with Client(url, transport=away) as client:
            client.batch(name).run(tasks, lambda _task, _r: None, concurrency=2)

    with pytest.raises(ServiceError):
        asyncio.run(later()) if kind == "async" else sync()
    # The two tasks under way may ask once more to report; of 50, none is announced after them.
    assert away._left >= -6, "asked again and again although nobody was there"


def test_two_tasks_of_one_name_are_refused(client: Client, name: str) -> None:
    with pytest.raises(ValueError, match="duplicate name 't'"):
        client.batch(name).run(["t", "t"], lambda _task, _rollout: None)


def test_tasks_can_be_anything_that_has_a_name(client: Client, name: str) -> None:
    tasks = [{"id": "one", "reward": 0.5}]
    done = client.batch(name).run(
        tasks,
        lambda task, _rollout: {"reward": float(str(task["reward"]))},
        name=lambda task: str(task["id"]),
    )
    assert [ran.task for ran in done.results] == ["one"]


def test_a_bar_is_drawn_where_it_is_asked_for(
    client: Client, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    client.batch(name).run(["t"], lambda _task, _rollout: None, progress=True)
    assert "1/1" in capsys.readouterr().err
    client.batch("c").run(["t"], lambda _task, _rollout: None)
    assert capsys.readouterr() == ("", "")


async def test_the_async_block_reports_as_the_other_does(url: str, name: str) -> None:
    async with AsyncClient(url) as client, client.batch(name) as batch:
        rollout = batch.rollout("t")
        with pytest.raises(TimeoutError):
            async with rollout:
                raise TimeoutError
        assert rollout.result.status == "task_timeout"
        async with batch.rollout("u") as other:
            await asyncio.to_thread(call, other.env["OPENAI_BASE_URL"], "sk-dead")
            assert (await other.peek()).health == "api_error"
            stored = await other.finish(rewards=0.0)
        assert stored.rewards is None
        summary = await batch.summary()
        assert summary.rollouts == 2
        assert not (await batch.check()).valid
        assert (await batch.breaker()).threshold == 3
        lines = [json.loads(line) async for line in client.export(batch=name)]
        assert {line["record"] for line in lines} == {"rollout", "outcome", "exchange"}


async def test_a_cancelled_task_reports_nothing(url: str, name: str) -> None:
    entered = asyncio.Event()

    async with AsyncClient(url) as client:
        rollout = client.batch(name).rollout("t")

        async def forever() -> None:
            async with rollout:
                entered.set()
                await asyncio.sleep(60)

        task = asyncio.ensure_future(forever())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert reported(url, rollout.id).json()["code"] == "no_outcome"


def test_events_are_told_as_they_happen(client: Client, name: str) -> None:
    batch = client.batch(name)
    events = batch.events(after=0)
    with batch.rollout("t", id="r1") as rollout:
        for _ in range(2):
            call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
    kinds: set[str] = set()
    for event in events:
        assert event.data["rollout_id"] == "r1"
        kinds.add(event.kind)
        if {"exchange_failed", "verdict_given"} <= kinds:
            break


async def test_events_can_be_awaited(url: str, name: str) -> None:
    async with AsyncClient(url) as client:
        async with client.batch(name).rollout("t") as rollout:
            await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"], "sk-dead")
        async for event in client.events(name, after=0):
            assert event.kind == "exchange_failed"
            break


def test_names_are_loaded_when_they_are_asked_for() -> None:
    assert set(truezero.__all__) <= set(dir(truezero))
    assert all(getattr(truezero, name) for name in truezero.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        _ = truezero.Clint
