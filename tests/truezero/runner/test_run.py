"""What a run reports to the service, and says of calls that did not come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import respx

from tests.truezero.sdk.test_client import REGISTERED, RESULT, URL, VERDICT
from truezero import Client
from truezero.runner.run import Job, job_of, record, run


def test_the_dashes_before_a_command_are_no_part_of_it() -> None:
    assert job_of(["--", "agent", "--", "x"]).command == ("agent", "--", "x")
    assert job_of(["agent", "--json"]).command == ("agent", "--json")


@respx.mock
@pytest.mark.parametrize(
    ("words", "calls", "no_call"),
    [
        (["env", "-i", "codex"], 0, "Codex ended before its first one, or went past the proxy"),
        (["env", "-i", "codex"], 1, None),
        (["./other"], 0, None),
        (["/nowhere/codex"], 0, None),
    ],
)
def test_a_known_agent_whose_calls_did_not_come_is_told_what_to_check(
    words: list[str],
    calls: int,
    no_call: str | None,
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
    known = "env" in words
    assert len(told) == known
    assert all("Codex may go past the proxy: the command starts it with" in line for line in told)
    written = record(seen)
    assert len(written["bypasses"]) == known
    assert written["no_call"] == seen.no_call
    assert (no_call or "") in (seen.no_call or "")
    assert (seen.no_call is None) == (no_call is None)
    if seen.no_call:
        assert "model_provider in its -c flags" in seen.no_call
        assert seen.no_call.endswith("the command starts it with an empty environment")


@respx.mock
def test_what_the_rollout_was_registered_with_is_reported_with_its_outcome() -> None:
    registered = respx.post(f"{URL}/rollouts").respond(201, json=REGISTERED)
    reported = respx.post(f"{URL}/rollouts/r/outcome").respond(json=RESULT)
    respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(json=VERDICT)
    job = Job(command=("/nowhere/agent",), batch="b", task="t", repeat=2, repeats=8, model="m")
    with Client(URL) as client:
        assert run(job, client).ended.agent_code == 127
    body = json.loads(reported.calls.last.request.content)
    assert (body["batch"], body["task"], body["repeat"], body["model"]) == ("b", "t", 2, "m")
    assert (body["status"], body["error"]) == ("setup_failed", "agent: command not found")
    asked = json.loads(registered.calls.last.request.content)
    assert (asked["repeat"], asked["repeats"]) == (2, 8)


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
