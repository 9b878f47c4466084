"""`truezero run`: the verdict in lines, or the record as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.cli import app
from truezero.runner import embedded
from truezero.runner import run as runner
from truezero.runner.run import ProcessResult, Report, record


def test_a_run_as_json_is_its_record_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ProcessResult(agent_code=0, doomed=False)
    done = Report(rollout_id="a/b", agent="codex", ended=ended, bypasses=("a login of its own",))

    def run(_job: runner.Job, _client: object, say: Callable[[str], None]) -> Report:
        say("codex may go past the proxy: a login of its own")
        return done

    @contextmanager
    def service(
        _url: object, _token: object, say: Callable[[str], None], *, starts: bool
    ) -> Iterator[None]:
        assert starts
        say("starting a temporary one")
        yield

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(embedded, "connect_or_start", service)
    said = CliRunner().invoke(app, ["run", "--json", "--", "codex"])
    assert (said.exit_code, said.stdout) == (done.exit_code, "")
    assert json.loads(said.stderr) == record(done)
    assert json.loads(said.stderr)["bypasses"] == ["a login of its own"]
    assert "past the proxy" in CliRunner().invoke(app, ["run", "--", "codex"]).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reward", "1", "--reward-cmd", "true"], "give one of --reward"),
        (["--reward", "nan"], "--reward: nan is not a finite number"),
        (["--reward", "half"], "half"),
    ],
)
def test_a_reward_is_one_number_from_one_source(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["run", *words, "--", "agent"])
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_reward_that_cannot_be_read_is_said_and_is_no_success() -> None:
    judged = models.Verdict.model_validate(VERDICT)
    for code, health, exit_code in ((0, "healthy", 1), (5, "healthy", 5), (0, "undecided", 78)):
        report = Report(
            rollout_id="r", agent="a", ended=ProcessResult(agent_code=code),
            verdict=judged.model_copy(update={"health": health, "transient": None}),
            no_reward="r.json: not written by this run",
        )  # fmt: skip
        assert report.exit_code == exit_code
        assert record(report)["no_reward"] == "r.json: not written by this run"
