"""`truezero status` and `truezero run --wait`, on a real service."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.truezero.cli.test_batches import environment, truezero
from tests.truezero.driving import call, service
from tests.waiting import until
from truezero import Client, ServiceError, models
from truezero.cli.run import wait_while_down
from truezero.cli.status import print_status, repeated_status

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
            r"  openai · gpt-5 · key-\w+: down, provider_error, who waits may try from [\d:]{8} on "
            r"\(\d of \d calls failed\)\n",
            watching.stdout.readline(),
        )
        watching.send_signal(signal.SIGINT)
        assert watching.communicate(timeout=300)[0] == ""
        assert watching.returncode == 76


def lane(word: str, **facts: str) -> models.LaneStatus:
    said = {"upstream": "openai", "model": "gpt-5", "since": None, "cause": None} | facts
    return models.LaneStatus.model_validate({**said, "word": word})


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


def turns(monkeypatch: pytest.MonkeyPatch, *states: str) -> None:
    """Answer turns on a lane that is in these states, one after the other."""
    sentence = "openai/gpt-5 has answered nobody since 10:42"
    seen = iter(
        models.LaneTurn.model_validate(
            {"state": state, "ask_s": 5.0, "sentence": None if state == "answering" else sentence}
        )
        for state in states
    )
    monkeypatch.setattr(Client, "take_turn", lambda _client, **_lane: next(seen))


@pytest.mark.parametrize(
    ("states", "most_s", "slept", "said"),
    [
        (["answering"], 60.0, [], []),
        ([], 0.0, [], []),
        (
            ["waiting", "waiting", "answering"], 60.0, [5.0, 5.0],
            ["openai/gpt-5 has answered nobody since 10:42; waiting up to 60 s",
             "gpt-5 works again after 10 s"],
        ),
        (
            ["waiting", "probing"], 60.0, [5.0],
            ["openai/gpt-5 has answered nobody since 10:42; waiting up to 60 s",
             "openai/gpt-5 has answered nobody since 10:42; starting the agent"],
        ),
        (
            ["waiting"] * 4, 12.0, [5.0, 5.0, 2.0],
            ["openai/gpt-5 has answered nobody since 10:42; waiting up to 12 s",
             "waited 12 s for gpt-5: starting the agent all the same"],
        ),
    ],
)  # fmt: skip
def test_a_run_waits_for_its_turn_and_no_longer_than_allowed(
    monkeypatch: pytest.MonkeyPatch, states: list[str], most_s: float, slept: list[float],
    said: list[str],
) -> None:  # fmt: skip
    turns(monkeypatch, *states)
    lines: list[str] = []
    seconds: list[float] = []
    with Client("http://127.0.0.1:9") as client:
        wait_while_down(
            client, most_s, upstream="openai", model="gpt-5", say=lines.append,
            sleep=seconds.append,
        )  # fmt: skip
    assert (lines, seconds) == (said, slept)


def test_one_of_all_that_ask_for_a_turn_is_the_probe(tmp_path: Path) -> None:
    with service(tmp_path) as (url, provider, _), Client(url) as client:
        assert client.take_turn(upstream="openai", model="gpt-5").state == "answering"
        fail(client, provider)
        lane = {"upstream": "openai", "model": "openai/gpt-5"}
        until(lambda: client.take_turn(**lane).state == "probing")
        waiting = client.take_turn(**lane)
        assert waiting.state == "waiting"
        assert waiting.cause == "provider_error"
        assert waiting.sentence is not None
        assert waiting.sentence.startswith("openai/gpt-5 has answered nobody since")
        assert client.take_turn(upstream="openai", model="gpt-4").state == "answering"
        provider.plays(answers.healthy)
        with client.batch("b", upstream="openai").rollout("back") as rollout:
            call(rollout.env["OPENAI_BASE_URL"])
        until(lambda: client.take_turn(**lane).state == "answering")  # its answer releases all


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


def test_the_argument_that_is_gone_is_warned_of(world: str) -> None:
    with Client(world) as client, pytest.warns(DeprecationWarning, match="always on"):
        client.batch("gone").run(["a"], lambda _t, _r: 1.0, max_wait_s=0, wait_for_health=True)


def test_a_command_runs_after_the_wait(world: str) -> None:
    done = truezero(
        "run", "--wait", "0.1", "--model", "gpt-5", "--upstream", "openai", "--", "true", url=world
    )
    assert "openai/gpt-5 has answered nobody since" in done.stderr
    assert "no model was asked" in done.stderr or done.returncode == 77, done.stderr
