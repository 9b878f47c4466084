"""`truezero status`, `truezero run --wait` and `wait_for_health`, on a real service."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.truezero.cli.test_batches import environment, truezero
from tests.truezero.driving import call, service
from truezero import AsyncClient, AsyncRollout, BatchRun, Client, Rollout, ServiceError, models
from truezero.cli.run import wait_while_down
from truezero.cli.status import lane_line, print_status, repeated_status
from truezero.sdk.batches import HEALTH_EACH_S, AsyncStop, LaneWaits, Stop, Tries, is_down

FOUR = [f"t{n}" for n in range(4)]
OVERLOADED = answers.FAILURES[answers.Api.CHAT][answers.Fault.PROVIDER_ERROR]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service whose only provider is down, as six rollouts found."""
    with service(tmp_path_factory.mktemp("service")) as (url, provider, _), Client(url) as client:
        fail(client, provider)
        yield url


def fail(client: Client, provider: Provider) -> None:
    provider.plays(OVERLOADED)
    for n in range(6):
        with client.batch("b", upstream="openai").rollout(f"t{n}") as rollout:
            call(rollout.env["OPENAI_BASE_URL"])


@pytest.mark.slow
def test_a_lane_that_is_down_is_printed_and_is_the_exit_code(world: str) -> None:
    done = truezero("status", url=world)
    assert done.returncode == 76, done.stderr
    assert "openai · gpt-5" in done.stdout
    assert "down" in done.stdout
    assert "6 of 6" in done.stdout
    shown = json.loads(truezero("status", "--json", url=world).stdout)
    assert [lane["word"] for lane in shown["items"]] == ["down"]
    other = truezero("status", "--upstream", "anthropic", url=world)
    assert (other.returncode, other.stdout) == (0, "no calls within the last hour\n")
    assert other.stderr == f"{world}/ui/status\n"


@pytest.mark.slow
def test_a_watch_prints_each_change_and_exits_by_the_last_look(tmp_path: Path) -> None:
    with service(tmp_path) as (url, provider, _), Client(url) as client:
        command = (sys.executable, "-m", "truezero", "status", "--watch", "--upstream", "openai")
        watching = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment(TRUEZERO_URL=url)
        )
        assert watching.stdout is not None
        assert watching.stdout.readline() == "no calls within the last hour\n"
        fail(client, provider)
        assert re.search(
            r"  openai · gpt-5 · key-\w+: down, provider_error \(\d of \d calls failed\)\n",
            watching.stdout.readline(),
        )
        watching.send_signal(signal.SIGINT)
        assert watching.communicate(timeout=300)[0] == ""
        assert watching.returncode == 76


def lane(word: str, **facts: str) -> models.LaneStatus:
    said = {"upstream": "openai", "model": "gpt-5", "since": None, "cause": None} | facts
    return models.LaneStatus.model_validate({**said, "word": word})


def test_an_unknown_lane_says_why() -> None:
    seen = {"calls": 3, "failed": {"provider_error": 3}, "reason": "too few calls to tell"}
    few = lane("unknown").model_copy(update=seen)
    assert lane_line(few).endswith(
        "openai · gpt-5: unknown, provider_error, too few calls to tell (3 of 3 calls failed)"
    )


def test_the_evidence_stays_where_the_terminal_is_narrow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    facts = {"key": "key-42fd428a", "cause": "provider_error"}
    seen = {"calls": 14, "failed": {"provider_error": 14}, "since": 1.8e9}
    print_status([lane("down", **facts).model_copy(update=seen), lane("unknown")])
    heads, first, _ = capsys.readouterr().out.splitlines()
    assert heads.split("  ")[0] == "upstream · model · key"
    assert "14 of 14" in first
    assert max(map(len, (heads, first))) <= 80


def report(*lanes: models.LaneStatus) -> models.StatusReport:
    return models.StatusReport(word="down", at=0.0, lanes=len(lanes), items=list(lanes))


def test_a_model_is_down_where_no_key_of_it_works() -> None:
    dead, fine = lane("down", key="key-a"), lane("healthy", key="key-b")
    assert is_down(report(dead), upstream="openai", model="openai/gpt-5")
    assert not is_down(report(dead, fine), upstream="openai", model="gpt-5")
    assert not is_down(report(dead), model="gpt-4")
    assert not is_down(report(lane("degraded")), model="gpt-5")
    assert not is_down(report(lane("down", server="one"), lane("degraded")))


def test_a_run_waits_while_its_model_is_down_and_no_longer_than_allowed(world: str) -> None:
    slept: list[float] = []
    said: list[str] = []
    with Client(world) as client:
        waits: tuple[tuple[float, str, list[int]], ...] = (
            (12.0, "gpt-5", [5, 5, 2]),
            (12.0, "gpt-4", []),
            (0, "gpt-5", []),
        )
        for most_s, model, seconds in waits:
            slept.clear()
            wait_while_down(
                client, most_s, upstream="openai", model=model, say=said.append, sleep=slept.append
            )
            assert slept == seconds
    assert said == [
        "gpt-5 is down: waiting up to 12 s",
        "waited 12 s for gpt-5: starting the agent all the same",
    ]


def test_a_wait_says_that_its_model_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([report(lane("down")), report(lane("down")), report(lane("healthy"))])
    monkeypatch.setattr(Client, "status", lambda _client: next(seen))
    said: list[str] = []
    with Client("http://127.0.0.1:9") as client:
        wait_while_down(
            client, 60.0, upstream=None, model="gpt-5", say=said.append, sleep=lambda _s: None
        )
    assert said == ["gpt-5 is down: waiting up to 60 s", "gpt-5 is no longer down after 10 s"]


def test_a_word_that_nobody_renews_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, stale = (lane("down").model_copy(update={"last_at": at}) for at in (1e9, 1e9 - 240))
    later = report(stale).model_copy(update={"at": 1e9})
    seen = iter([later.model_copy(update={"items": [fresh]}), later, later])
    monkeypatch.setattr(Client, "status", lambda _client: next(seen))
    said: list[str] = []
    slept: list[float] = []
    with Client("http://127.0.0.1:9") as client:
        for _ in range(2):
            wait_while_down(
                client, 60.0, upstream=None, model="gpt-5", say=said.append, sleep=slept.append
            )
    gone = "gpt-5 was down when it was last called: starting the agent, to see if it still is"
    assert said == ["gpt-5 is down: waiting up to 60 s", gone, gone]
    assert slept == [5.0]
    assert not is_down(later, within_s=180.0)
    assert is_down(later)


def test_a_watch_outlasts_a_service_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = ServiceError("cannot reach it", code="unreachable")
    wrong = ServiceError("the token is wrong", status=401, code="unauthorized")
    seen: Iterator[object] = iter([away, away, report(lane("healthy")), wrong])

    def status(_client: Client) -> models.StatusReport:
        found = next(seen)
        if isinstance(found, ServiceError):
            raise found
        assert isinstance(found, models.StatusReport)
        return found

    monkeypatch.setattr(Client, "status", status)
    with Client("http://127.0.0.1:9") as client:
        looks = repeated_status(client, sleep=lambda _s: None)
        assert next(looks).items[0].word == "healthy"
        assert capsys.readouterr().err.splitlines() == [
            "truezero: cannot reach it; waiting for it",
            "truezero: the service at http://127.0.0.1:9 is back",
        ]
        with pytest.raises(ServiceError):
            next(looks)


def test_a_batch_waits_for_health_and_goes_on_in_the_end(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[models.StatusReport] = []
    real = Client.status

    def status(client: Client) -> models.StatusReport:
        asked.append(real(client))
        return asked[-1]

    monkeypatch.setattr(Client, "status", status)
    with Client(world) as client:
        batch = client.batch("waits", upstream="openai", model="gpt-5")
        ran = batch.run(["a"], lambda _task, _rollout: 1.0, wait_for_health=True, max_wait_s=0.01)
        assert len(ran.results) == len(asked) == 1
        batch.run(["b"], lambda _task, _rollout: 1.0)
        assert len(asked) == 1, "only where it is asked for"
    assert HEALTH_EACH_S == 5.0


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once an attempt was answered, which is as long as a wait for health lasts here."""
    answered, told = threading.Event(), LaneWaits.told

    def tell(lane: LaneWaits, verdict: models.Verdict, tries: Tries) -> None:
        told(lane, verdict, tries)
        if lane.answered:
            answered.set()

    def wait(seconds: float) -> None:
        assert seconds != HEALTH_EACH_S or answered.wait(300)

    monkeypatch.setattr(LaneWaits, "told", tell)
    monkeypatch.setattr(Stop, "wait", lambda _stop, s: wait(s))
    monkeypatch.setattr(AsyncStop, "wait", lambda _stop, s: asyncio.to_thread(wait, s))
    return answered


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("outages", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_batch_that_waits_for_health_finds_out_by_itself(
    tmp_path: Path, kind: str, outages: int, answered: threading.Event
) -> None:
    """All wait, so nobody calls: one goes on, and the others when it was answered."""
    with service(tmp_path) as (url, provider, _), Client(url) as client:
        fail(client, provider)
        still = iter([OVERLOADED] * outages)
        provider.plays(lambda request: next(still, None) or answers.healthy(request))
        late: list[bool] = []

        def solve(_task: str, rollout: Rollout | AsyncRollout) -> float:
            late.append(answered.is_set())
            return float(call(rollout.env["OPENAI_BASE_URL"]) == 200)

        async def run() -> BatchRun:
            async def later(task: str, rollout: AsyncRollout) -> float:
                return await asyncio.to_thread(solve, task, rollout)

            async with AsyncClient(url) as waiting:
                batch = waiting.batch("waits", upstream="openai", model="gpt-5")
                return await batch.run(FOUR, later, wait_for_health=True)

        if kind == "sync":
            batch = client.batch("waits", upstream="openai", model="gpt-5")
            done = batch.run(FOUR, solve, wait_for_health=True)
        else:
            done = asyncio.run(run())
    assert [ran.verdict and ran.verdict.health for ran in done.results] == ["healthy"] * 4
    assert late == [False] * (outages + 1) + [True] * 3
    assert {ran.given_up for ran in done.results} == {None}


@pytest.mark.slow
def test_a_batch_without_retries_has_none_to_spare_for_probes(
    monkeypatch: pytest.MonkeyPatch, world: str
) -> None:
    asked: list[float] = []
    real = Client.status

    def status(client: Client) -> models.StatusReport:
        asked.append(time.monotonic())
        found = real(client)
        late = found.at + (300.0 if len(asked) > 1 else 0.0)
        return found.model_copy(update={"at": late})

    monkeypatch.setattr(Client, "status", status)
    with Client(world) as client:
        batch = client.batch("spares", upstream="openai", model="gpt-5")
        batch.run(["a"], lambda _task, _rollout: 1.0, wait_for_health=True, retry=False)
    assert len(asked) == 2, "it waits while others call, and no longer"


def test_a_command_runs_after_the_wait(world: str) -> None:
    done = truezero(
        "run", "--wait", "0.1", "--model", "gpt-5", "--upstream", "openai", "--", "true", url=world
    )
    assert "gpt-5 is down: waiting up to 0.1 s" in done.stderr
    assert "no model was asked" in done.stderr or done.returncode == 77, done.stderr
