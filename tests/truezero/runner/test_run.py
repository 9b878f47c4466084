"""What a run reports to the service, and says of calls that did not come."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from click.exceptions import Exit

from tests.truezero.sdk.test_client import REGISTERED, RESULT, URL, VERDICT
from truezero import Client, models
from truezero.cli.run import known_agent, limits_of
from truezero.runner.run import (
    Job,
    ProcessResult,
    Report,
    Signals,
    _Watch,
    job_of,
    not_started,
    record,
    run,
)


def test_the_dashes_before_a_command_are_no_part_of_it() -> None:
    assert job_of(["--", "agent", "--", "x"]).command == ("agent", "--", "x")
    assert job_of(["agent", "--json"]).command == ("agent", "--json")


@respx.mock
@pytest.mark.parametrize(
    ("words", "calls", "no_call"),
    [
        (["env", "OPENAI_BASE_URL=http://x", "codex"], 0, True),
        (["env", "OPENAI_BASE_URL=http://x", "codex"], 1, False),
        (["./other"], 0, False),
        (["/nowhere/codex"], 0, False),
    ],
)
def test_a_known_agent_whose_calls_did_not_come_is_told_what_to_check(
    words: list[str],
    calls: int,
    no_call: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("codex", "other"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    urls = {"openai": f"{URL}/r/r/openai/v1"}
    respx.post(f"{URL}/rollouts").respond(201, json={**REGISTERED, "base_urls": urls})
    respx.post(f"{URL}/rollouts/r/outcome").respond(json=RESULT)
    respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(
        json={**VERDICT, "total_requests": calls}
    )
    told: list[str] = []
    with Client(URL) as client:
        seen = run(Job(command=tuple(words)), client, told.append)
    added = [line for line in told if line.startswith("Codex: added to its environment: ")]
    assert len(added) == ("./other" not in words)
    why = "the command sets OPENAI_BASE_URL itself"
    past = [why] if "env" in words else []
    assert told == [*added, *(f"Codex may go past the proxy: {each}" for each in past)]
    written = record(seen)
    assert (written["bypasses"], written["no_call"]) == (past, seen.no_call)
    assert (seen.no_call is not None) == no_call
    if seen.no_call:
        assert "Codex ended before its first one, or went past the proxy" in seen.no_call
        assert "model_provider in its -c flags" in seen.no_call
        assert seen.no_call.endswith(why)


@respx.mock
def test_what_the_rollout_was_registered_with_is_reported_with_its_outcome() -> None:
    registered = respx.post(f"{URL}/rollouts").respond(201, json=REGISTERED)
    reported = respx.post(f"{URL}/rollouts/r/outcome").respond(json=RESULT)
    respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(json=VERDICT)
    job = Job(
        command=("/nowhere/agent",), batch="b", task="t", repeat=2, repeats=8, model="m",
        limits=limits_of(("calls=50", "cost_usd=2.5")),
    )  # fmt: skip
    with Client(URL) as client:
        assert run(job, client).ended.agent_code == 127
    body = json.loads(reported.calls.last.request.content)
    assert (body["batch"], body["task"], body["repeat"], body["model"]) == ("b", "t", 2, "m")
    assert (body["status"], body["error"]) == ("setup_failed", "agent: command not found")
    asked = json.loads(registered.calls.last.request.content)
    assert (asked["repeat"], asked["repeats"]) == (2, 8)
    assert asked["limits"] == {"calls": 50, "cost_usd": 2.5}
    assert asked["batch_limits"] is None


@pytest.mark.parametrize("word", ["calls=many", "calls=1.5", "dollars=1", "calls"])
def test_a_limit_that_is_none_is_named(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as left:
        limits_of((word,))
    assert left.value.exit_code == 2
    assert word in capsys.readouterr().err


def test_an_agent_that_is_not_known_is_named_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (known_agent(None), known_agent("codex")) == (None, "codex")
    with pytest.raises(Exit) as left:
        known_agent("codec")
    assert left.value.exit_code == 2
    assert "no agent 'codec'; choose from aider, " in capsys.readouterr().err


@respx.mock
def test_an_agent_that_says_how_it_ended_is_reported_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    respx.post(f"{URL}/rollouts").respond(201, json=REGISTERED)
    reported = respx.post(f"{URL}/rollouts/r/outcome").respond(json=RESULT)
    respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(json=VERDICT)
    said = json.dumps({"info": {"exit_status": "RepeatedFormatError"}})
    for code, status, error in ((0, "agent_error", "RepeatedFormatError"),
                                (3, "agent_error", "exit code 3")):  # fmt: skip
        (tmp_path / "mini").write_text(f"#!/bin/sh\necho '{said}' > t.json\nexit {code}\n")
        (tmp_path / "mini").chmod(0o755)
        with Client(URL) as client:
            run(Job(command=("mini", "-t", "hi", "-o", "t.json")), client)
        body = json.loads(reported.calls.last.request.content)
        assert (body["status"], body["error"]) == (status, error)
        assert "termination_reason" not in body


# --------------------------------------------------------------------------------------------------
# Signals that are passed on, an agent that is stopped as doomed, and one that did not start

GROUP = 4_000_000  # more than there can be


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Collects the signals that would reach a group."""
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signals.append((group, number)))
    return signals


@pytest.mark.parametrize(("code", "shell"), [(0, 0), (3, 3), (-signal.SIGKILL, 137), (None, 0)])
def test_a_signal_is_128_and_its_number_to_a_shell(code: int | None, shell: int) -> None:
    assert ProcessResult(agent_code=code).shell_code == shell


def test_a_command_that_is_missing_differs_from_one_that_may_not_run() -> None:
    assert not_started(FileNotFoundError()) == (127, "command not found")
    assert not_started(PermissionError()) == (126, "cannot be executed")


def test_signals_reach_the_group_and_those_that_end_are_noted(sent: list[tuple[int, int]]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals() as signals:
        signals.pass_to(GROUP)
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
    assert sent == [(GROUP, signal.SIGUSR1), (GROUP, signal.SIGTERM)]
    assert signals.ending == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_before_the_agent_is_known_waits_for_it(sent: list[tuple[int, int]]) -> None:
    with Signals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert sent == []
        signals.pass_to(GROUP)
        assert sent == [(GROUP, signal.SIGINT)]
        signal.raise_signal(signal.SIGWINCH)
    assert sent == [(GROUP, signal.SIGINT), (GROUP, signal.SIGWINCH)]
    assert signals.ending == [signal.SIGINT]


class Process:
    pid = GROUP


@respx.mock
def test_a_doomed_agent_is_stopped_once_and_a_service_that_is_away_dooms_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, sent = threading.Event(), []

    def killpg(group: int, number: int) -> None:
        sent.append((group, number))
        over.set()

    monkeypatch.setattr(os, "killpg", killpg)
    monkeypatch.setattr("truezero.runner.run._WATCH_S", 0.0)
    monkeypatch.setattr("truezero.runner.run._GRACE_S", 30.0)
    answers: list[dict[str, Any]] = [
        {"status_code": 503},
        {"json": {**VERDICT, "doomed": False}},
        {"json": {**VERDICT, "doomed": True}},
    ]
    route = respx.get(url__startswith=f"{URL}/rollouts/r/verdict")
    route.side_effect = [httpx.Response(**{"status_code": 200, **answer}) for answer in answers]
    process: Any = Process()
    with Client(URL) as client:
        watch = _Watch(process, client, "r", over)
        watch.run()
    assert (watch.stopped, route.call_count) == (True, 3)
    assert sent == [(GROUP, signal.SIGTERM)], "it ended in time, and is not killed"


# --- The exit code of a run, for each verdict and ending ------------------------------------------


def report(health: str, transient: bool | None, code: int | None) -> Report:
    found = models.Verdict.model_validate({**VERDICT, "health": health, "transient": transient})
    return Report(
        rollout_id="r",
        agent="an agent",
        ended=ProcessResult(agent_code=code),
        result=None,
        verdict=found,
    )


@pytest.mark.parametrize(
    ("health", "transient", "agent_code", "exit_code"),
    [
        ("healthy", None, 0, 0),
        ("healthy", None, 3, 3),
        ("healthy", None, -signal.SIGTERM, 143),
        ("not_judged", None, 127, 127),
        ("api_error", True, 0, 75),
        ("api_error", False, 0, 76),
        ("api_error", False, 3, 76),
        ("suspected_api_error", None, 0, 77),
        ("undecided", None, 0, 78),
    ],
)
def test_the_exit_code_is_the_agents_only_where_its_verdict_stands(
    health: str, transient: bool | None, agent_code: int, exit_code: int
) -> None:
    found = report(health, transient, agent_code)
    assert found.exit_code == exit_code
    assert record(found)["agent_exit_code"] == agent_code


def test_what_a_breaker_held_is_permanent() -> None:
    held = Report(
        rollout_id="r",
        agent="sh",
        ended=ProcessResult(agent_code=None),
        skipped="skipped: breaker open",
    )
    assert held.exit_code == 76
    assert record(held)["verdict"] is None
