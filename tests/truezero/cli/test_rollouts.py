"""Commands on one rollout: judge it, judge an export offline, run the demo."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.truezero.cli.test_cli import truezero
from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.cli import app
from truezero.cli.rollouts import report_lines
from truezero.runner import embedded
from truezero.runner import run as runner
from truezero.runner.run import ProcessResult, Report, record


def test_an_export_is_judged_offline(tmp_path: Path) -> None:
    call = {
        "id": "x1", "rollout_id": "r1", "upstream": "openai", "api": "openai.chat",
        "started_at": 1.0, "status": 401, "ending": "complete", "subcategory": "auth",
        "transient": False, "rule": "status.401",
    }  # fmt: skip
    (tmp_path / "export.jsonl").write_text(json.dumps(call) + "\n", encoding="utf-8")
    said = truezero("classify", "export.jsonl", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    verdict = json.loads(said.stdout)
    assert (verdict["rollout_id"], verdict["fingerprint"]) == ("r1", "auth:401")
    (tmp_path / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    bad = truezero("classify", "bad.jsonl", folder=tmp_path)
    assert bad.returncode == 2
    assert "line 1" in bad.stderr


@pytest.mark.slow
def test_the_demo_tells_every_zero_apart(tmp_path: Path) -> None:
    said = truezero("demo", "--json", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    runs = {run["scene"]: run for run in json.loads(said.stdout)}
    found = {
        name: (run["verdict"]["health"], run["verdict"]["subcategory"])
        for name, run in runs.items()
    }
    assert found == {
        "solved": ("healthy", None),
        "honest-zero": ("healthy", None),
        "dead-key": ("api_error", "auth"),
        "empty-account": ("api_error", "quota"),
        "unknown-model": ("api_error", "model_not_found"),
        "rate-limited": ("healthy", None),
        "paced": ("healthy", None),
        "outage": ("api_error", "provider_error"),
        "silent": ("suspected_api_error", None),
        "own-timeout": ("healthy", None),
        "its-outage": ("api_error", "provider_error"),
    }
    decided = {
        name: [(each["result"], run["verdict"]["attributed_to"], run["result"]["rewards"])
               for each in run["verdict"]["references"]]
        for name, run in runs.items()
    }  # fmt: skip
    assert decided.pop("own-timeout")[-1] == ("answered", "agent", {"reward": 0.0})
    assert decided.pop("its-outage")[-1] == ("failed_alike", "provider", None)
    assert not any(decided.values()), "trusted agents' failures ask nothing"
    assert runs["honest-zero"]["result"]["rewards"] == {"reward": 0.0}
    assert runs["dead-key"]["reported_reward"] == 0.0
    assert runs["dead-key"]["result"]["rewards"] is None
    assert runs["rate-limited"]["verdict"]["recovered_requests"] == 1
    assert runs["paced"]["reported_reward"] == 1.0
    assert runs["paced"]["verdict"]["failed_requests"] == 0
    assert runs["paced"]["verdict"]["held_s"] > 0
    assert runs["outage"]["verdict"]["retry"]["eligible"] is True
    assert not list(tmp_path.iterdir()), "the demo leaves nothing behind"


@pytest.mark.slow
def test_the_demos_table_is_for_people(tmp_path: Path) -> None:
    said = truezero("demo", "--keep", "kept.db", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "6 of 8 zeros were not measurements" in said.stdout
    assert "the proxy's own question" in " ".join(said.stdout.split())
    assert "its calls waited" in said.stdout
    assert "api_error [auth, permanent]: HTTP 401" in said.stdout
    assert (tmp_path / "kept.db").is_file()


def test_a_run_tells_its_verdict_and_what_was_found() -> None:
    ended = ProcessResult(agent_code=0, doomed=True)
    found = {
        "check": "starved", "level": "suspect", "calls": 2, "of": 2, "evidence": [],
        "sentence": "the task timed out after 9 s",
    }  # fmt: skip
    judged = models.Verdict.model_validate({**VERDICT, "validity": [found]})
    report = Report(rollout_id="a/b", agent="codex", ended=ended, verdict=judged)
    assert report_lines(report) == [
        "a/b: healthy (1 call); agent stopped (--fail-fast)",
        "suspect starved: the task timed out after 9 s (2 of 2 calls)",
    ]
    past = dataclasses.replace(report, no_call="no call came: check its login")
    assert report_lines(past)[2:] == ["no call came: check its login"]
    skipped = Report(rollout_id="a/b", agent="codex", ended=ended, skipped="skipped: open")
    assert report_lines(skipped) == ["a/b: skipped: open"]


def test_a_run_as_json_is_its_record_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ProcessResult(agent_code=0, doomed=False)
    done = Report(rollout_id="a/b", agent="codex", ended=ended, bypasses=("a login of its own",))

    def run(_job: runner.Job, _client: object, say: Callable[[str], None]) -> Report:
        say("codex may go past the proxy: a login of its own")
        return done

    @contextmanager
    def service(_url: object, _token: object, say: Callable[[str], None]) -> Iterator[None]:
        say("starting a temporary one")
        yield

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(embedded, "connect_or_start", service)
    said = CliRunner().invoke(app, ["run", "--json", "--", "codex"])
    assert (said.exit_code, said.stdout) == (done.exit_code, "")
    assert json.loads(said.stderr) == record(done)
    assert json.loads(said.stderr)["bypasses"] == ["a login of its own"]
    assert "past the proxy" in CliRunner().invoke(app, ["run", "--", "codex"]).stderr
