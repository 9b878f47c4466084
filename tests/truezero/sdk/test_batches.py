"""The SDK on a real service: what a block's end becomes, and how a batch is run."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import classifier
import truezero
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request, closed_port
from tests.truezero.driving import Accounts, call, service
from tests.truezero.sdk.test_client import VERDICT
from tests.waiting import until
from truezero import AsyncClient, Client, Rollout, ServiceError, Skipped, models
from truezero.sdk._sync.batches import Batch, settled_since
from truezero.sdk.arguments import LaneFacts
from truezero.sdk.batches import (
    FinishedSample,
    LanePatience,
    ProgressBar,
    Sample,
    SettledGroups,
    Tries,
    not_measured,
    of_lane,
    planned_samples,
    run_in_tasks,
    run_in_threads,
    unless_unknown,
)
from truezero.sdk.events import Event

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
def accounts(world: tuple[str, Provider, Accounts]) -> Accounts:
    return world[2]


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


def test_a_verdict_can_be_looked_at_before_the_end(client: Client, name: str) -> None:
    with client.batch(name).rollout("t") as rollout:
        for _ in range(2):
            call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
        assert rollout.peek().doomed
        assert not rollout.finished
        with pytest.raises(RuntimeError, match="not finished"):
            _ = rollout.verdict
    assert rollout.finished


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_is_broken_off_passes_on_and_is_cancelled(
    client: Client, url: str, stop: type[BaseException], name: str
) -> None:
    batch = client.batch(name, model="gpt-5", upstream="openai")
    rollout = batch.rollout("t")
    with pytest.raises(stop), rollout:
        call(rollout.env["OPENAI_BASE_URL"])
        raise stop
    result = reported(url, rollout.id).json()
    assert (result["status"], result["error"]) == ("cancelled", stop.__name__)
    assert client.verdict(rollout.id).excluded_by == ["cancelled"]
    with batch.rollout("t") as again:
        call(again.env["OPENAI_BASE_URL"])
        again.finish(rewards=1.0)
    assert (again.repeat, again.attempt) == (None, 1)
    assert batch.check().valid


def test_what_is_broken_off_passes_on_though_the_service_refuses_its_outcome(
    client: Client, name: str
) -> None:
    rollout = client.batch(name).rollout("t")
    with pytest.raises(KeyboardInterrupt), rollout:
        client.report(rollout.id, rewards=1.0)
        raise KeyboardInterrupt


def test_a_generator_that_is_closed_in_a_block_reports_nothing(
    client: Client, url: str, name: str
) -> None:
    rollout = client.batch(name).rollout("t")

    def enters() -> Iterator[None]:
        with rollout:
            yield

    entered = enters()
    next(entered)
    entered.close()  # type: ignore[attr-defined]
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


LANE: LaneFacts = {"model": "gpt-5", "upstream": "openai"}


@contextmanager
def batch_by(kind: str, url: str, name: str, transport: Any = None) -> Iterator[Any]:
    """A batch of either client; what is awaited blocks here, and is given plain functions too."""
    if kind == "sync":
        with Client(url, transport=transport, sleep=lambda _seconds: None) as client:
            yield client.batch(name, **LANE)
        return
    client_ = AsyncClient(url, transport=transport)
    batch = client_.batch(name, **LANE)

    def blocking(method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(tasks: Any, fn: Callable[..., Any], **how: Any) -> Any:
            return runner.run(method(tasks, lambda *of: asyncio.to_thread(fn, *of), **how))

        return ask

    with asyncio.Runner() as runner:
        try:
            yield SimpleNamespace(run=blocking(batch.run), measure=blocking(batch.measure))
        finally:
            runner.run(client_.__aexit__(None, None, None))


def run_by(
    kind: str, url: str, name: str, tasks: Any, fn: Any, transport: Any = None, **how: Any
) -> truezero.BatchRun:
    with batch_by(kind, url, name, transport) as batch:
        done: truezero.BatchRun = batch.run(tasks, fn, **how)
    return done


def run(url: str, name: str, kind: str, keys: dict[str, str], **how: Any) -> truezero.BatchRun:
    """The tasks by either client, each with the key that says how it goes."""

    def solve(task: str, rollout: Rollout) -> float:
        return float(call(rollout.env["OPENAI_BASE_URL"], keys[task]) == 200)

    return run_by(kind, url, name, keys, solve, **how)


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
    url: str, accounts: Accounts, kind: str, name: str
) -> None:
    accounts.outages = 1
    done = run(url, name, kind, {"t": "sk-flaky"})
    (ran,) = done.results
    assert (ran.attempts, ran.verdict and ran.verdict.health) == (2, "healthy")
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert [item["attempt"] for item in listed] == [0, 1]
    assert done.summary.score_retried == 1.0


@both
def test_a_second_run_tries_what_is_not_measured_only(
    url: str, kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = run(url, name, kind, {"won": "sk-good", "dead": "sk-dead"})
    assert not first.summary.valid
    again = run(url, name, kind, {"won": "sk-good", "dead": "sk-good"})
    assert [(ran.task, ran.attempts, ran.measured) for ran in again.results] == [
        ("won", 0, True), ("dead", 1, True),
    ]  # fmt: skip
    before, now = first.results[0], again.results[0]
    assert (now.rollout_id, now.result) == (before.rollout_id, before.result)
    assert again.summary.valid
    assert "1 of 2 are measured already: not run again" in caplog.text


def test_what_a_loop_left_unmeasured_a_run_tries_again(url: str, client: Client, name: str) -> None:
    batch = client.batch(name)
    with batch.rollout("t") as rollout:
        call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
    assert (rollout.repeat, rollout.attempt) == (None, None)
    (ran,) = run(url, name, "sync", {"t": "sk-good"}).results
    assert (ran.attempts, ran.measured) == (1, True)
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert [item["attempt"] for item in listed] == [0, 1]
    with batch.rollout("t") as rollout:
        assert (rollout.repeat, rollout.attempt) == (1, 0)


@both
def test_repeats_count_each_and_are_run_again_each(
    url: str, accounts: Accounts, kind: str, name: str
) -> None:
    accounts.outages = 1
    done = run(url, name, kind, {"t": "sk-flaky"}, repeats=2, concurrency=1)
    assert [(ran.task, ran.repeat, ran.attempts) for ran in done.results] == [
        ("t", 0, 2), ("t", 1, 1),
    ]  # fmt: skip
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert sorted((item["repeat"], item["attempt"]) for item in listed) == [(0, 0), (0, 1), (1, 0)]
    assert (done.summary.total, done.summary.scored, done.summary.retried) == (2, 2, 1)
    again = run(url, name, kind, {"t": "sk-good"}, repeats=3)
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert sorted((item["repeat"], item["attempt"]) for item in listed) == [
        (0, 0), (0, 1), (1, 0), (2, 0),
    ]  # fmt: skip
    assert [(ran.repeat, ran.attempts) for ran in again.results] == [(0, 0), (1, 0), (2, 1)]
    assert again.summary.total == 3


def outage(
    world: tuple[str, Provider, Accounts],
    name: str,
    kind: str,
    outages: int,
    tasks: int,
    **how: Any,
) -> truezero.BatchRun:
    """Run tasks, two at once, whose provider is down for so many calls at first."""
    url, provider, accounts = world
    provider.requests.clear()
    accounts.outages = outages
    keys = {f"t{n}": "sk-flaky" for n in range(tasks)}
    try:
        return run(url, name, kind, keys, concurrency=2, **how)
    finally:
        accounts.outages = 0


@pytest.mark.slow
@both
def test_waiting_ends_after_max_wait_s_and_says_so(
    world: tuple[str, Provider, Accounts], kind: str, name: str
) -> None:
    done = outage(world, name, kind, 1000, tasks=32, max_wait_s=4.0)
    for ran in done.results:
        assert ran.result is None or ran.result.rewards is None
        assert ran.given_up is not None
        assert "max_wait_s" in ran.given_up
    untried = [ran for ran in done.results if not ran.attempts]
    assert untried, "who has not started is not tried"
    down = r"openai/gpt-5 has answered nobody since \S+ \(provider_error\): not waited for"
    for ran in untried:
        assert (ran.rollout_id, ran.verdict) == ("", None)
        assert re.match(down, ran.given_up or "")


def measure(url: str, name: str, kind: str, keys: list[str], **how: Any) -> list[object]:
    """Measure a task by each key in turn; the value of each, or what ended it."""
    found: list[object] = []

    def solved(key: str, rollout: Rollout) -> float:
        return float(call(rollout.env["OPENAI_BASE_URL"], key) == 200) / 2

    with batch_by(kind, url, name) as batch:
        for key in keys:
            try:
                found.append(batch.measure(key, solved, name=lambda _key: "t", **how))
            except (Exception, KeyboardInterrupt) as error:
                found.append(error)
    return found


@both
def test_a_measured_value_is_returned_and_each_is_a_sample_of_its_task(
    url: str, accounts: Accounts, kind: str, name: str
) -> None:
    accounts.outages = 1
    assert measure(url, name, kind, ["sk-good", "sk-flaky", "sk-good"]) == [0.5] * 3
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    placed = [(item["task"], item["repeat"], item["attempt"]) for item in listed]
    assert placed == [("t", 0, 0), ("t", 1, 0), ("t", 1, 1), ("t", 2, 0)]
    assert measure(url, name, kind, ["sk-good"]) == [0.5]
    summary = httpx.get(f"{url}/batches/{name}").json()
    assert (summary["total"], summary["scored"], summary["score_effective"]) == (4, 4, 0.5)


@both
def test_what_cannot_be_measured_is_one_error_with_its_cause_and_what_to_do(
    url: str, kind: str, name: str
) -> None:
    dead, *_, skipped = measure(url, name, kind, ["sk-dead"] * 4)
    assert type(dead) is truezero.NotMeasured
    assert re.match(r"t is not measured: .*auth.*key", str(dead))
    assert type(skipped) is truezero.NotMeasured
    assert re.fullmatch(
        r"t is not measured: skipped: breaker open on auth:401 after 3 rollouts in a row; "
        rf"fix the cause, then truezero breaker reset {name}",
        str(skipped),
    )
    (down,) = measure(url, name + "-down", kind, ["sk-down"], max_wait_s=0)
    assert "did not answer within 0 s (max_wait_s): run it again" in str(down)


@both
@pytest.mark.parametrize("silent", [2, 3])
def test_an_empty_answer_is_asked_for_again_and_ends_it_if_the_model_stays_silent(
    world: tuple[str, Provider, Accounts], kind: str, name: str, silent: int
) -> None:
    url, provider, accounts = world
    asked = itertools.count()

    def plays(request: Request) -> Answer:
        message = {"role": "assistant", "content": ""}
        empty = {"id": "1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
        return accounts(request) if next(asked) >= silent else answers.whole(empty)

    provider.plays(plays)
    try:
        (found,) = measure(url, name, kind, ["sk-good"])
    finally:
        provider.plays(accounts)
    listed = httpx.get(f"{url}/rollouts", params={"batch": name}).json()["items"]
    assert [(item["repeat"], item["attempt"]) for item in listed] == [(0, 0), (0, 1), (0, 2)]
    if silent == 2:
        assert found == 0.5
        with Client(url) as client:
            assert client.check(name).valid
    else:
        assert isinstance(found, truezero.NotMeasured)
        assert re.match(r"t is not measured: .*1 answered of 1 call", str(found))


@both
def test_a_loop_that_swallows_exceptions_is_ended_where_that_is_told(
    url: str, kind: str, name: str
) -> None:
    (stopped,) = measure(url, name, kind, ["sk-dead"], stop="interrupt")
    assert isinstance(stopped, truezero.MeasuringStopped)
    assert not isinstance(stopped, Exception)
    assert str(stopped).startswith("t is not measured: ")


def test_a_loop_in_another_thread_is_ended_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    interrupted: list[None] = []
    monkeypatch.setattr("_thread.interrupt_main", lambda: interrupted.append(None))
    ended = FinishedSample(task="t", rollout_id="r", attempts=1, skipped="s")
    found: list[BaseException] = []
    thread = threading.Thread(target=lambda: found.append(not_measured(ended, "interrupt")))
    thread.start()
    thread.join()
    assert interrupted == [None]
    assert caplog.messages == ["t is not measured: s"], "the main thread's exception has no words"
    assert isinstance(found[0], truezero.MeasuringStopped)
    assert type(not_measured(ended, "raise")) is truezero.NotMeasured
    assert interrupted == [None], "the main thread is not asked to end"


def test_an_exception_of_what_is_measured_is_its_own(client: Client, name: str) -> None:
    def breaks(_task: str, rollout: Rollout) -> float:
        call(rollout.env["OPENAI_BASE_URL"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.batch(name, model="gpt-5", upstream="openai").measure("t", breaks)


@both
def test_an_open_breaker_skips_the_rest(url: str, kind: str, name: str) -> None:
    done = run(url, name, kind, {f"t{n}": "sk-dead" for n in range(6)}, concurrency=1)
    assert [ran.skipped is None for ran in done.results] == [True] * 3 + [False] * 3
    assert "breaker open on auth:401" in str(done.results[-1].skipped)
    assert (done.summary.total, done.summary.skipped) == (6, 3)


@both
@pytest.mark.parametrize("key", ["sk-good", "sk-dead"])
def test_after_a_reset_the_rest_waits_for_the_probe(
    url: str, kind: str, name: str, key: str
) -> None:
    run(url, name, kind, {f"t{n}": "sk-dead" for n in range(3)}, concurrency=1)
    with Client(url) as client:
        client.reset_breaker(name)
    done = run(url, name, kind, {f"t{n}": key for n in range(3)}, concurrency=3)
    skipped = [ran.task for ran in done.results if ran.skipped]
    assert len(skipped) == (0 if key == "sk-good" else 2), "the one that is not is the probe"


def test_a_probe_that_closes_its_lane_before_anybody_looks_lets_the_rest_in(
    client: Client, name: str
) -> None:
    looked = threading.Event()

    class LooksLate(Batch):
        def breaker(self) -> models.Breaker:
            looked.set()
            while any(lane.phase != "closed" for lane in super().breaker().lanes):
                pass
            return super().breaker()

    def agent(_task: str, rollout: Rollout) -> float:
        assert looked.wait(60)
        return float(call(rollout.env["OPENAI_BASE_URL"]) == 200)

    def dead(_task: str, rollout: Rollout) -> float:
        return float(call(rollout.env["OPENAI_BASE_URL"], "sk-dead") == 200)

    facts: LaneFacts = {"model": "gpt-5", "upstream": "openai"}
    client.batch(name, **facts).run(["t0", "t1", "t2"], dead, concurrency=1)
    client.reset_breaker(name)
    done = LooksLate(client, name, facts).run(["t0", "t1"], agent, concurrency=2)
    assert [ran.measured for ran in done.results] == [True, True]


def test_a_sample_is_not_tried_for_ever_beside_a_breaker_that_is_not_seen() -> None:
    tries = Tries(next_attempt=0)
    assert [tries.may_repeat_unseen() for _ in range(2)] == [True, False]


def test_a_breaker_of_another_lane_is_not_waited_for() -> None:
    lanes = [breaker_lane(f"openai/{model}/key-0") for model in ("gpt-5", "gpt-5-mini")]
    facts: LaneFacts = {"upstream": "openai", "model": ["gpt-5", "gpt-4"]}
    assert of_lane(lanes, facts) == lanes[:1]
    assert of_lane(lanes, {"model": "gpt-5"}) == lanes


def breaker_lane(lane: str) -> models.BreakerLane:
    return models.BreakerLane(
        lane=lane, phase="half_open", fingerprint=None, streak=3, threshold=3, opened_at=None,
        retry_at=None, tripped_by=[], canary="r",
    )  # fmt: skip


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

    bad, good = run_by(kind, url, name, ["bad", "good"], broken).results
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

    def note(task: str, _rollout: Rollout) -> None:
        started.append(task)

    with pytest.raises(ServiceError):
        run_by(kind, url, name, tasks, note, Away(8), concurrency=1)
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
    with pytest.raises(ServiceError):
        run_by(kind, url, name, tasks, lambda _task, _rollout: None, away, concurrency=2)
    # The two tasks under way may ask once more to report; of 50, none is announced after them.
    assert away._left >= -6, "asked again and again although nobody was there"  # noqa: SLF001  how often it asks


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
    for progress, drawn in ((True, True), (None, False), (False, False)):
        client.batch(f"{name}-{progress}").run(["t"], lambda _task, _r: None, progress=progress)
        assert ("1/1" in (said := capsys.readouterr()).err) is drawn
        assert drawn or said == ("", "")


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


async def test_a_cancelled_task_is_reported(url: str, name: str) -> None:
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
        assert reported(url, rollout.id).json()["status"] == "cancelled"


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


def test_names_of_the_last_release_work_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="FinishedSample"):
        assert truezero.Ran is truezero.FinishedSample
    with pytest.warns(DeprecationWarning, match="FailureEvidence"):
        assert vars(classifier)["__getattr__"]("Answer") is classifier.FailureEvidence
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        _ = truezero.Clint


# --------------------------------------------------------------------------------------------------
# The plan of a run: unique names, advised waits, and attempts until nothing more is advised


def verdict(*, eligible: bool, after_s: float | None) -> models.Verdict:
    retry: dict[str, Any] = {"eligible": eligible, "after_s": after_s, "reason": "r"}
    return models.Verdict.model_validate({**VERDICT, "retry": retry})


def tried(*, attempt: int = 0, waited_s: float = 0.0) -> Tries:
    return Tries(next_attempt=attempt, waited_s=waited_s)


@pytest.mark.parametrize(
    ("attempt", "advised_s", "waited_s", "wait_s"),
    [
        (0, 0.7, 0.0, 0.7),
        (5, 28.0, 90.0, 10.0),  # drawn: the last wait is what is left
        (0, 0.7, 100.0, None),
        (0, 20.0, 0.0, 20.0),  # stated, as the service draws 1 s at most
        (1, 99.0, 90.0, 99.0),  # stated waits are kept, each as long as may be
        (1, 101.0, 0.0, None),
        (5_000, 28.0, 90.0, 10.0),  # a runner's own number of an attempt
        (0, None, 0.0, 0.0),
    ],
)
def test_no_wait_is_begun_after_max_wait_s(
    attempt: int, advised_s: float | None, waited_s: float, wait_s: float | None
) -> None:
    now = 50.0
    patience = LanePatience(100.0, retries=True, clock=lambda: now)
    tries = tried(attempt=attempt, waited_s=waited_s)
    goes_on = patience.goes_on(tries, verdict(eligible=True, after_s=advised_s))
    assert goes_on is (wait_s is not None)
    if wait_s is not None:
        assert patience.wait_s(tries) == pytest.approx(wait_s)
        now += wait_s + 1.0  # others go meanwhile
        assert patience.wait_s(tries) == 0.0, "it has waited as long as was advised"


def test_a_run_waits_for_a_lane_so_long_from_the_first_that_does() -> None:
    now = 0.0
    patience = LanePatience(100.0, retries=True, clock=lambda: now)
    waiting, answering = (models.LaneTurn(state=each) for each in ("waiting", "answering"))
    assert patience.left_s(tried(), waiting) == 100.0
    now = 70.0
    assert patience.left_s(tried(), waiting) == 30.0, "another one has waited"
    assert patience.left_s(tried(waited_s=80.0), waiting) == 20.0, "it has waited for itself"
    now = 100.0
    assert patience.left_s(tried(), waiting) == 0.0
    assert patience.left_s(tried(), answering) == 100.0
    assert patience.left_s(tried(), waiting) == 100.0, "of another outage"
    now = 150.0
    done = verdict(eligible=False, after_s=None).model_copy(update={"health": "healthy"})
    own = tried(waited_s=50.0)
    patience.told(own, done)
    assert (patience.answered, own.waited_s) == (1, 0.0)
    assert patience.left_s(tried(), waiting) == 100.0


def test_who_is_not_retried_has_given_nothing_up() -> None:
    failed, done = (verdict(eligible=each, after_s=200.0) for each in (True, False))
    assert LanePatience(100.0, retries=False).gives_up(tried(), failed) is None
    assert LanePatience(100.0, retries=True).gives_up(tried(), done) is None
    lane = failed.model_copy(update={"lane": "a/b/c"})
    said = LanePatience(100.0, retries=True).gives_up(tried(), lane)
    assert said == "a/b/c is to be left alone for 200 s, longer than 100 s (max_wait_s)"
    said = LanePatience(100.0, retries=True).gives_up(tried(waited_s=100.0), lane)
    assert said == "a/b/c did not answer within 100 s (max_wait_s): run it again once it answers"


def test_a_bar_says_who_waits_for_what_since_when() -> None:
    shown: list[tuple[str, int]] = []
    bar = ProgressBar(lambda line, ended: shown.append((line, ended)))
    down = models.LaneTurn(state="waiting", sentence="m has answered nobody since 10:42")
    bar.waits("a", down)
    bar.waits("a", down)
    bar.waits("b", down)
    bar.finished(FinishedSample(task="c", rollout_id="r", attempts=1, skipped="s"))
    bar.waits("a", None)
    bar.waits("b", None)
    assert shown == [
        ("1 waiting: m has answered nobody since 10:42", 0),
        ("2 waiting: m has answered nobody since 10:42", 0),
        ("1 skipped, 2 waiting: m has answered nobody since 10:42", 1),
        ("1 skipped, 1 waiting: m has answered nobody since 10:42", 0),
        ("1 skipped", 0),
    ]


def test_a_sample_that_waits_long_goes_on_after_those_that_have_not_started() -> None:
    plan = planned_samples(["a", "b", "c"], str)
    turns: list[str] = []

    def one(sample: Sample[str], _stop: object, _shown: object) -> FinishedSample | None:
        turns.append(sample.name)
        if sample.name == "a" and turns.count("a") < 3:
            return None
        return FinishedSample(task=sample.name, rollout_id=sample.name, attempts=1)

    async def one_later(sample: Sample[str], stop: object, shown: object) -> FinishedSample | None:
        await asyncio.sleep(0.01)
        return one(sample, stop, shown)

    ran = run_in_threads(plan, one, concurrency=1, progress=False)
    assert [each.task for each in ran] == ["a", "b", "c"]
    assert turns[0] == "a"
    assert turns[1:3] == ["b", "c"]
    turns.clear()
    ran = asyncio.run(run_in_tasks(plan, one_later, concurrency=1, progress=False))
    assert [each.task for each in ran] == ["a", "b", "c"]
    assert turns[:3] == ["a", "b", "c"]


def test_tasks_keep_their_order_need_names_of_their_own_and_are_numbered_if_repeated() -> None:
    plan = [(each.name, each.repeat, each.task) for each in planned_samples([2, 1], str)]
    assert plan == [("2", None, 2), ("1", None, 1)]
    plan = [(each.name, each.repeat, each.task) for each in planned_samples([2, 1], str, 2)]
    assert plan == [("2", 0, 2), ("2", 1, 2), ("1", 0, 1), ("1", 1, 1)]
    with pytest.raises(ValueError, match="duplicate name 'x'; pass name="):
        planned_samples([1, 2], lambda _task: "x")
    with pytest.raises(ValueError, match="repeats: 0"):
        planned_samples([1], str, 0)


# --- Groups as they settle: each once, and none missed between listing and listening --------------

ALIVE = Event(id=1, kind="alive", data={})
ENDED = Event(id=3, kind="batch_ended", data={})
SETTLED = Event(id=2, kind="group_settled", data={"task": "t"})


def agent(task: str, rollout: Any) -> float:
    key = "sk-down" if (task, rollout.repeat) == ("b", 1) else "sk-good"
    call(rollout.env["OPENAI_BASE_URL"], key)
    return float(rollout.repeat)


def told(group: models.Group) -> tuple[object, ...]:
    return group.task, group.wanted, group.rewards, group.resample


def test_groups_of_a_run_are_there_with_what_failed_left_out(url: str, name: str) -> None:
    with Client(url) as client:
        batch = client.batch(name, model="gpt-5", upstream="openai")
        batch.run(["a", "b"], agent, repeats=3, retry=False)
        first, second = batch.groups()
        assert told(first) == ("a", 3, [0.0, 1.0, 2.0], 0)
        assert told(second) == ("b", 3, [0.0, None, 2.0], 1)
        assert (first.baseline, first.std, second.baseline) == (1.0, 1.0, 1.0)
        with pytest.warns(DeprecationWarning, match="method is gone"):
            assert client.groups(name, method="mean") == [first, second]
        assert [told(one) for one in client.groups(name)] == [told(first), told(second)]
        assert client.groups(name, settled=False) == []


def followed(kind: str, url: str, name: str) -> list[models.Group]:
    """Every group of a batch that a training loop is given, when there are no more."""

    async def later() -> list[models.Group]:
        async with AsyncClient(url) as client:
            return [group async for group in client.batch(name).groups()]

    if kind == "async":
        return asyncio.run(later())
    with Client(url) as client:
        return [*client.batch(name).groups()]


@pytest.mark.slow
@both
def test_samples_start_group_by_group_so_that_the_first_settles_long_before_the_last(
    url: str, name: str, kind: str
) -> None:
    started: list[tuple[str, int]] = []
    settled: list[list[str]] = []

    def sample(task: str, rollout: Any) -> float:
        with Client(url) as client:
            settled.append([group.task for group in client.groups(name, settled=True)])
        started.append((task, rollout.repeat))
        return agent(task, rollout)

    run_by(kind, url, name, ["x", "y", "z"], sample, repeats=4, concurrency=1)
    assert started == [(task, repeat) for task in "xyz" for repeat in range(4)]
    assert settled == [[]] * 4 + [["x"]] * 4 + [["x", "y"]] * 4


@pytest.mark.slow
@both
def test_groups_of_a_batch_that_has_ended_end(url: str, name: str, kind: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(followed, kind, url, name)
        run_by(kind, url, name, ["a", "b"], agent, repeats=3, retry=False)
        told_beside = beside.result(60)
    told_later = followed(kind, url, name)
    for found in (told_beside, told_later):
        final = [told(group) for group in found if group.final]
        assert sorted(final, key=lambda each: str(each[0])) == [
            ("a", 3, [0.0, 1.0, 2.0], 0), ("b", 3, [0.0, None, 2.0], 1),
        ]  # fmt: skip
    assert [group.revision for group in told_later] == [1, 1]


@pytest.mark.slow
@both
def test_a_batch_that_several_machines_share_ends_with_the_last_of_them(
    url: str, name: str, kind: str
) -> None:
    first_is_over = threading.Event()

    def after_the_first(task: str, rollout: Any) -> float:
        assert first_is_over.wait(60)
        return agent(task, rollout)

    with ThreadPoolExecutor(2) as pool, Client(url) as client:
        beside = pool.submit(followed, kind, url, name)
        late = pool.submit(run_by, kind, url, name, ["y", "z"], after_the_first, repeats=2)
        until(lambda: client.rollouts(batch=name))
        run_by(kind, url, name, ["x"], agent, repeats=2)
        assert not client.batch(name).end("nobody").ended
        first_is_over.set()
        late.result(60)
        found = [group.task for group in beside.result(60)]
    assert (found[0], sorted(found)) == ("x", ["x", "y", "z"])


@pytest.mark.slow
@both
def test_a_run_that_was_killed_is_over_when_it_is_resumed(url: str, name: str, kind: str) -> None:
    def killed(task: str, rollout: Any) -> float:
        if task == "y":
            raise KeyboardInterrupt
        return agent(task, rollout)

    how: dict[str, Any] = {"repeats": 2, "concurrency": 1}
    with pytest.raises(KeyboardInterrupt):
        run_by("sync", url, name, ["x", "y"], killed, **how)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(followed, kind, url, name)
        run_by(kind, url, name, ["x", "y"], agent, **how)
        last = {group.task: group for group in beside.result(60)}
    assert {task: (group.final, group.rewards) for task, group in last.items()} == {
        "x": (True, [0.0, 1.0]), "y": (True, [0.0, 1.0]),
    }  # fmt: skip


async def test_a_group_comes_as_soon_as_its_last_rollout_is_judged(url: str, name: str) -> None:
    async with AsyncClient(url) as client:
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


async def test_whoever_starts_rollouts_by_hand_says_when_no_more_come(url: str, name: str) -> None:
    async with AsyncClient(url) as client:
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
        "task": "t", "wanted": 1, "settled": True, "revision": 1, "final": False, "repeats": [0],
        **said, "rollout_ids": list(rollout_ids), "rewards": [None], "valid": [False],
        "baseline": None, "std": None, "resample": 0, "drop": True,
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
