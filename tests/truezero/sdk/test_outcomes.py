"""A crash of the service costs no finished sample: what is kept, delivered, refused and said."""
# ruff: noqa: SLF001
# Private: a service that is away is forgotten.

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

import truezero
from tests.fakes import answers
from tests.fakes.balancer import Balancer, Page
from tests.fakes.provider import Answer, Provider, closed_port
from tests.journeys.service import ROOT, Service
from tests.proxy.api.test_routes import serving
from tests.truezero.sdk.test_client import REGISTERED, RESULT, VERDICT
from tests.waiting import until
from truezero.sdk import outcomes
from truezero.sdk.outcomes import KeptOutcome, keep, kept_in, outcomes_left, without_credentials

TOKEN = "t0ken-of-the-operator"
CHAT = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}

both = pytest.mark.parametrize("kind", ["sync", "async"])


class Clock:
    """A clock that sleeping turns; ``then`` is called after each sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.then: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        self.then()

    async def sleep_later(self, seconds: float) -> None:
        await asyncio.to_thread(self.sleep, seconds)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of kept outcomes, with the patience that users have."""
    place = tmp_path / "run" / ".truezero" / "outcomes"
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.delenv("TRUEZERO_OUTCOMES")
    monkeypatch.delenv("TRUEZERO_OUTCOME_PATIENCE_S")
    outcomes._away_since.clear()
    yield place
    outcomes._away_since.clear()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(answers.healthy) as provider:
        yield provider


@contextmanager
def living(folder: Path, **settings: str) -> Iterator[str]:
    """The address of a service that nobody kills: it runs in this process."""
    with serving(folder, **settings) as service:
        yield str(service.http.base_url).rstrip("/")


def ask(kind: str, clock: Clock, url: str, method: str, *args: Any, **options: Any) -> Any:
    """The same question, waiting or awaited."""

    async def later() -> Any:
        async with truezero.AsyncClient(url, TOKEN, sleep=clock.sleep_later, clock=clock) as client:
            return await getattr(client, method)(*args, **options)

    if kind == "async":
        return asyncio.run(later())
    with truezero.Client(url, TOKEN, sleep=clock.sleep, clock=clock) as client:
        return getattr(client, method)(*args, **options)


def undelivered(kind: str, clock: Clock, url: str, rollout: str) -> truezero.Undelivered:
    with pytest.raises(truezero.Undelivered) as caught:
        ask(kind, clock, url, "ended", rollout, rewards=1.0)
    return caught.value


def run_agent(registered: Any) -> None:
    answer = httpx.post(
        f"{registered.base_urls['openai']}/chat/completions",
        json=CHAT,
        headers={"authorization": "Bearer sk-good"},
        timeout=60,
    )
    assert answer.is_success


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_an_outcome_is_delivered_once_a_killed_service_is_back(
    kind: str, place: Path, provider: Provider, tmp_path: Path
) -> None:
    clock, seen = Clock(), list[tuple[str, int]]()
    with Service(tmp_path, provider.url, ADMIN_TOKEN=TOKEN) as service:
        registered = ask(kind, clock, service.url, "register", id="night/1", batch="b", task="t")
        run_agent(registered)
        service.kill()

        def then() -> None:
            (file,) = place.iterdir()
            seen.append((file.read_text(), stat.S_IMODE(file.stat().st_mode)))
            seen.append(("", stat.S_IMODE(place.stat().st_mode)))
            if len(clock.slept) == 3:
                service.start()

        clock.then = then
        facts = {"rewards": {"pass": 1.0}, "eval": {"passed": ["a"]}}
        result, verdict = ask(kind, clock, service.url, "ended", "night/1", **facts)
    assert (result.rewards, verdict.health, verdict.total_requests) == ({"pass": 1.0}, "healthy", 1)
    assert clock.slept == [0.25, 0.5, 1.0]
    assert list(place.iterdir()) == []
    assert outcomes_left() is None
    kept, modes = seen[0][0], {mode for _, mode in seen}
    assert modes == {0o600, 0o700}
    assert json.loads(kept)["outcome"] == {"status": "success", **facts}
    assert json.loads(kept)["service"] == service.url
    for secret in (TOKEN, registered.key, "tz-", "uthorization"):
        assert secret not in kept


@both
def test_an_outcome_of_a_service_that_stays_away_is_an_error_that_names_file_and_command(
    kind: str, place: Path
) -> None:
    clock, url = Clock(), f"http://127.0.0.1:{closed_port()}"
    error = undelivered(kind, clock, url, "night/1")
    assert sum(clock.slept) == 60
    (file,) = place.iterdir()
    assert (error.rollout_id, error.file, error.code) == ("night/1", file, "unreachable")
    assert str(error) == (
        f"the outcome of rollout 'night/1' is not delivered, cannot reach a truezero service at "
        f"{url} (ConnectError); it is kept in {file}: when the service is back, run "
        f"`truezero outcomes deliver --url {url}`"
    )
    assert outcomes_left() == (
        f"1 outcome is not delivered and kept in {place}: when the service is back, run "
        f"`truezero outcomes deliver --url {url}`"
    )


def test_the_samples_of_one_outage_share_one_deadline(place: Path) -> None:
    clock, url = Clock(), f"http://127.0.0.1:{closed_port()}"
    undelivered("sync", clock, url, "first")
    for number in range(20):
        undelivered("sync" if number % 2 else "async", clock, url, f"later-{number}")
    assert sum(clock.slept) == 60
    assert len(list(place.iterdir())) == 21


def test_a_sample_that_ends_during_an_outage_waits_for_what_is_left_of_its_patience(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_OUTCOME_PATIENCE_S", "10")
    clock, url, waited = Clock(), f"http://127.0.0.1:{closed_port()}", []

    def another() -> None:
        clock.then = lambda: None
        before = clock.now
        undelivered("sync", clock, url, "another")
        waited.append(clock.now - before)

    clock.then = another
    undelivered("sync", clock, url, "first")
    assert waited == [9.75]
    assert sum(clock.slept) == 10
    assert len(list(place.iterdir())) == 2


@pytest.mark.slow
def test_many_threads_and_tasks_wait_at_once_and_none_is_lost(
    place: Path, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real clock: it ends when the service is back, long before the patience has run out."""
    monkeypatch.setenv("TRUEZERO_OUTCOME_PATIENCE_S", "600")
    names = [f"n{number}" for number in range(24)]

    async def report_all(url: str) -> None:
        async with truezero.AsyncClient(url) as client:
            await asyncio.gather(*(client.ended(each, rewards=1.0) for each in names[:12]))

    def report(url: str, name: str) -> None:
        with truezero.Client(url) as client:
            client.ended(name, rewards=1.0)

    with Service(tmp_path, provider.url) as service:
        for name in names:
            assert httpx.post(f"{service.base(name, 'openai')}/v1/chat/completions", json=CHAT)
        service.kill()
        threads = [threading.Thread(target=report, args=(service.url, n)) for n in names[12:]]
        threads.append(threading.Thread(target=lambda: asyncio.run(report_all(service.url))))
        for thread in threads:
            thread.start()
        until(lambda: len(list(place.glob("*.json"))) == len(names))
        service.start()
        for thread in threads:
            thread.join(120)
        assert {service.verdict(name)["health"] for name in names} == {"healthy"}
        assert {service.get(f"/rollouts/{n}/result")["rewards"]["reward"] for n in names} == {1.0}
    assert list(place.iterdir()) == []


@pytest.mark.slow
@both
def test_a_batch_that_loses_its_service_midway_has_all_its_results(
    kind: str, place: Path, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_OUTCOME_PATIENCE_S", "600")
    tasks = [f"t{number}" for number in range(4)]
    called = threading.Barrier(len(tasks) + 1)

    def agent(_task: str, rollout: Any) -> float:
        run_agent(rollout)
        called.wait(60)
        called.wait(60)  # the service is gone
        return 1.0

    async def agent_later(task: str, rollout: Any) -> float:
        return await asyncio.get_running_loop().run_in_executor(pool, agent, task, rollout)

    async def later() -> truezero.BatchRun:
        async with truezero.AsyncClient(service.url) as client:
            return await client.batch("b").run(tasks, agent_later, concurrency=len(tasks))

    def crash() -> None:
        called.wait(60)
        service.kill()
        called.wait(60)
        until(lambda: len(list(place.glob("*.json"))) == len(tasks))
        service.start()

    with Service(tmp_path, provider.url) as service, ThreadPoolExecutor(len(tasks)) as pool:
        crashing = threading.Thread(target=crash)
        crashing.start()
        if kind == "async":
            done = asyncio.run(later())
        else:
            with truezero.Client(service.url) as client:
                done = client.batch("b").run(tasks, agent, concurrency=len(tasks))
        crashing.join()
    assert [ran.verdict and ran.verdict.health for ran in done.results] == ["healthy"] * 4
    assert (done.summary.score_effective, done.summary.scored) == (1.0, 4)
    assert list(place.iterdir()) == []


@both
def test_what_a_balancer_answers_for_a_service_is_no_answer_to_an_outcome(
    kind: str, place: Path, tmp_path: Path
) -> None:
    clock = Clock()
    with living(tmp_path) as url, Balancer(url) as balancer:

        def back() -> None:
            balancer.page = None

        clock.then = back
        for number, page in enumerate((
            Page(502),
            Page(503, b'{"message": "no healthy upstream"}', "application/json"),
            Page(504, b"", "text/plain"),
            Page(200, b"<html>Back soon</html>"),
            Page(404, b"default backend - 404", "text/plain"),
            Page(302),
            Page(520),
        )):  # fmt: skip
            run_agent(ask(kind, clock, url, "register", id=f"r{number}"))
            balancer.page = page
            clock.slept.clear()
            result = ask(kind, clock, balancer.url, "report", f"r{number}", rewards=0.5)
            assert (result.rewards, clock.slept) == ({"reward": 0.5}, [0.25]), page
    assert list(place.iterdir()) == []


@pytest.mark.slow
@both
def test_a_service_that_dies_between_the_outcome_and_its_verdict_is_waited_for_too(
    kind: str, place: Path, provider: Provider, tmp_path: Path
) -> None:
    clock, kept = Clock(), list[Path]()
    with Service(tmp_path, provider.url) as service, Balancer(service.url) as balancer:

        def die(path: str) -> None:
            if "verdict" in path and not kept:
                service.kill()

        def back() -> None:
            kept.extend(place.iterdir())
            service.start()

        balancer.before, clock.then = die, back
        _, verdict = ask(kind, clock, balancer.url, "ended", "r", rewards=0.0)
        assert service.verdict("r")["health"] == verdict.health
    assert len(kept) == 1
    assert list(place.iterdir()) == []
    assert [path for path in balancer.paths if path.endswith("outcome")] == ["/rollouts/r/outcome"]


@both
def test_an_outcome_that_the_service_itself_refuses_is_refused_at_once_and_not_kept(
    kind: str, place: Path, tmp_path: Path
) -> None:
    clock = Clock()
    refused: list[tuple[dict[str, Any], int]] = [({"rewards": 0.0}, 409), ({"tool_calls": -1}, 422)]
    with living(tmp_path) as url:
        ask(kind, clock, url, "report", "r", rewards=1.0)
        for facts, status in refused:
            with pytest.raises(truezero.ServiceError) as caught:
                ask(kind, clock, url, "report", "r", **facts)
            assert not isinstance(caught.value, truezero.Undelivered)
            assert caught.value.status == status
    assert not place.exists()
    assert clock.slept == []


@both
def test_a_service_that_came_back_with_another_token_costs_no_outcome_and_no_time(
    kind: str, place: Path, tmp_path: Path
) -> None:
    clock = Clock()
    with living(tmp_path, ADMIN_TOKEN="another-token-than-before") as url:
        error = undelivered(kind, clock, url, "r")
    assert (error.status, error.code) == (401, "unauthorized")
    assert "the token is wrong or missing" in str(error)
    assert f"it is kept in {error.file}: once that is mended, run `truezero outcomes" in str(error)
    assert clock.slept == []


def test_a_success_of_any_client_begins_patience_anew(place: Path, tmp_path: Path) -> None:
    clock = Clock()
    with living(tmp_path) as url, Balancer(url) as balancer:
        balancer.page = Page(502)
        undelivered("sync", clock, balancer.url, "first")
        balancer.page = None
        ask("async", clock, balancer.url, "greet")
        balancer.page = Page(502)
        undelivered("sync", clock, balancer.url, "second")
    assert sum(clock.slept) == 120


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "again", "health"),
    [
        pytest.param(answers.chat_tools, False, "undecided", id="cut off"),
        pytest.param(
            answers.chat_tools, True, "healthy", id="called again", marks=pytest.mark.slow
        ),
        pytest.param(answers.chat, False, "healthy", id="finished", marks=pytest.mark.slow),
    ],
)
def test_an_agent_that_the_crash_cut_off_is_no_zero(
    answer: Callable[[], Answer],
    again: bool,
    health: str,
    place: Path,
    provider: Provider,
    tmp_path: Path,
) -> None:
    """Its calls met no service, it swallowed that, and its runner found nothing done."""
    clock = Clock()
    provider.plays(answer())
    with Service(tmp_path, provider.url) as service:
        registered = ask("sync", clock, service.url, "register", id="r")
        run_agent(registered)
        service.kill()
        with pytest.raises(httpx.ConnectError):
            run_agent(registered)
        clock.then = service.start
        if again:
            service.start()
            run_agent(registered)
        facts = {"rewards": 0.0, "prompts_executed": 1, "termination_reason": "agent_stop"}
        result, verdict = ask("sync", clock, service.url, "ended", "r", **facts)
    assert (verdict.health, result.health) == (health, health)
    assert verdict.scoreable == ("yes" if health == "healthy" else "unknown")
    assert ("calls_unrecorded" in verdict.warnings) == (health == "undecided")


# --- the folder ----------------------------------------------------------------------------


def outcome(rollout: str = "r", at: float = 1.0, **facts: Any) -> KeptOutcome:
    return KeptOutcome(service="http://x", rollout_id=rollout, kept_at=at, outcome=facts)


def test_each_outcome_has_one_file_whatever_its_rollout_is_called(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    names = ["a/1", "../../etc/passwd", "é" * 200, "a b", "A/1", ".", "a\\1"]
    for at, name in enumerate(names):
        keep(place, outcome(name, at, rewards={"x": 1.0}))
        keep(place, outcome(name, at, rewards={"x": 1.0}))
    keep(place, outcome("a/1", 99, rewards={"x": 0.0}))
    found = [kept.rollout_id for _, kept in kept_in(place) if kept]
    assert found == [*names, "a/1"]
    assert {file.parent for file in tmp_path.rglob("*") if file.is_file()} == {place}


def test_a_folder_that_exists_keeps_its_mode_and_a_new_one_is_for_its_user_only(
    tmp_path: Path,
) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    for name, mode in (("theirs", 0o755), ("ours", 0o700)):
        file = keep(tmp_path / name, outcome())
        assert stat.S_IMODE(file.parent.stat().st_mode) == mode
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_files_that_are_no_outcome_are_found_and_drafts_are_not(tmp_path: Path) -> None:
    keep(tmp_path, outcome())
    for number, text in enumerate((b"", b"[]", b'{"service": "x"}', b"\xff\xff", b"[" * 10**5)):
        (tmp_path / f"{number}.json").write_bytes(text)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / ".r.1234.abcd").write_bytes(b"{")
    assert [kept is None for _, kept in kept_in(tmp_path)] == [True] * 6 + [False]


def test_a_name_and_password_in_the_services_address_are_not_kept() -> None:
    assert without_credentials("http://me:secret@host:1/x/") == "http://host:1/x"
    assert without_credentials("http://host:1") == "http://host:1"


def limited_disk() -> None:
    """Let this process write no byte into any file, as a full disk does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


REPORT = """
import sys, truezero
client = truezero.Client(sys.argv[1], sleep=lambda _seconds: None)
try:
    client.report("night/1", rewards=1.0)
except truezero.Undelivered as error:
    print(error.file, error, sep="|", flush=True)
"""


def environment(folder: Path) -> dict[str, str]:
    ours = {"TRUEZERO_OUTCOMES": str(folder), "TRUEZERO_OUTCOME_PATIENCE_S": "0"}
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **ours}


def reporting(folder: Path, *, full: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REPORT, f"http://127.0.0.1:{closed_port()}"],
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=limited_disk if full else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("full", [True, False], ids=["full", "no folder"])
def test_a_disk_that_takes_no_outcome_is_said_and_leaves_no_half_of_one(
    full: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    if not full:
        folder.write_text("a file where the folder should be")
    done = reporting(folder, full=full)
    file, _, told = done.stdout.partition("|")
    assert file == "None"
    why = f"{folder}: " + ("File too large" if full else "Not a directory")
    assert f"it could not be kept either ({why}): run the sample again" in told
    assert not full or list(folder.iterdir()) == []


def test_a_disk_that_has_room_again_keeps_it_in_the_end(place: Path) -> None:
    clock, url = Clock(), f"http://127.0.0.1:{closed_port()}"
    place.parent.mkdir()
    place.write_text("a file where the folder should be")

    def mend() -> None:
        if place.is_file():
            place.unlink()

    clock.then = mend
    error = undelivered("sync", clock, url, "r")
    assert error.file is not None
    assert error.file.exists()


# --- interruptions -------------------------------------------------------------------------


WAIT = """
import sys, truezero
truezero.Client(sys.argv[1]).report("night/1", rewards=1.0)
"""


@pytest.mark.slow
def test_an_outcome_that_ctrl_c_interrupts_on_its_way_is_kept(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [sys.executable, "-c", WAIT, f"http://127.0.0.1:{silent.getsockname()[1]}"]
        reporter = subprocess.Popen(command, env=environment(tmp_path), stderr=subprocess.PIPE)
        connection, _ = silent.accept()
        assert connection.recv(1)
        reporter.send_signal(signal.SIGINT)
        _, said = reporter.communicate()
        connection.close()
    assert b"truezero: the outcome of rollout 'night/1' is not delivered; it is kept in " in said
    assert [kept.rollout_id for _, kept in kept_in(tmp_path) if kept] == ["night/1"]


def test_an_outcome_whose_task_is_cancelled_on_its_way_is_kept(place: Path) -> None:
    async def main() -> None:
        reached = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            reached.set()
            await asyncio.sleep(3600)

        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with truezero.AsyncClient(f"http://127.0.0.1:{port}") as client:
            task = asyncio.create_task(client.report("r", rewards=1.0))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        server.close()

    asyncio.run(main())
    assert [kept.rollout_id for _, kept in kept_in(place) if kept] == ["r"]


def test_a_client_that_keeps_none_tries_once(place: Path) -> None:
    clock, url = Clock(), f"http://127.0.0.1:{closed_port()}"
    with (
        truezero.Client(url, keep_outcomes=False, sleep=clock.sleep, clock=clock) as client,
        pytest.raises(truezero.ServiceError) as caught,
    ):
        client.ended("r")
    assert not isinstance(caught.value, truezero.Undelivered)
    assert (clock.slept, place.exists()) == ([], False)


@pytest.mark.parametrize("written", ["a minute", "-1", "nan"])
def test_a_patience_that_is_no_number_of_seconds_is_said(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_OUTCOME_PATIENCE_S", written)
    with pytest.raises(truezero.ServiceError, match=r"PATIENCE_S: .* is not a number of seconds"):
        truezero.Client()


@respx.mock
def test_a_block_that_reports_by_itself_waits_as_finish_does(place: Path) -> None:
    clock, url = Clock(), "http://truezero.test"
    respx.post(f"{url}/rollouts").respond(json=REGISTERED)
    told: list[httpx.Response | Exception] = [httpx.ConnectError("gone"), httpx.Response(502)]
    told.append(httpx.Response(200, json=RESULT))
    respx.post(f"{url}/rollouts/r/outcome").mock(side_effect=told)
    respx.get(url__startswith=f"{url}/rollouts/r/verdict").respond(json=VERDICT)
    with truezero.Client(url, sleep=clock.sleep, clock=clock) as client:
        with client.batch("b").rollout("t") as rollout:
            pass
        assert rollout.verdict.health == "healthy"
    assert clock.slept == [0.25, 0.5]
