from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump, harbor_result
from tests.truezero.audit.scenarios import Scenario
from truezero.audit.formats.harbor import HARBOR
from truezero.audit.report import audit
from truezero.audit.runs import FinishedRun

RUN = Scenario(kind="k", number=1, calls=("ok",), reward=0.0, failed=False)


def trial(folder: Path, name: str, **fields: Any) -> None:
    dump(folder / name / "result.json", {**harbor_result(RUN), "trial_name": name, **fields})


@pytest.mark.slow
def test_a_copy_carries_an_exception_that_harbor_knows_and_no_reward(tmp_path: Path) -> None:
    copy = check_copy("harbor", tmp_path)
    trials = [json.loads(file.read_text()) for file in copy.rglob("result.json")]
    marked = [each for each in trials if "truezero" in each]
    assert {each["verifier_result"] for each in marked} == {None}
    names = {each["exception_info"]["exception_type"] for each in marked}
    assert {"AgentAuthenticationError", "ApiUsageLimitError", "APIResponseValidationError"} <= names


def test_trials_of_one_task_are_samples_of_it(tmp_path: Path) -> None:
    trial(tmp_path, "b", started_at="2026-11-01T00:00:00")
    trial(tmp_path, "a", started_at="2026-11-01T01:00:00")
    runs = [run for run in HARBOR.read(tmp_path) if isinstance(run, FinishedRun)]
    assert [(run.id, run.repeat, run.attempt) for run in runs] == [("b", 0, 0), ("a", 1, 0)]
    assert runs[0].model == "openai/gpt-5"


def test_a_rejected_request_has_the_name_that_harbor_knows_it_by(tmp_path: Path) -> None:
    raised = {"exception_type": "BadRequestError", "exception_message": "HTTP 400: bad schema"}
    unused = {"n_input_tokens": 0, "n_output_tokens": 0}
    exception = {**raised, "exception_traceback": ""}
    facts = {"exception_info": exception, "agent_result": unused, "reward_valid": True}
    trial(tmp_path / "job", "a", **facts)
    audited = audit(tmp_path / "job", write=True)
    assert audited.runs[0].verdict.subcategory == "rejected_request"
    [written] = (tmp_path / "job.audited").rglob("result.json")
    assert json.loads(written.read_text())["exception_info"]["exception_type"] == "BadRequestError"
    assert json.loads(written.read_text())["reward_valid"] is False
    assert audit(tmp_path / "job.audited").runs[0].verdict.subcategory == "rejected_request"


def test_agents_models_and_what_they_were_called_with_are_not_summed(tmp_path: Path) -> None:
    agent = harbor_result(RUN)["agent_info"]
    for name, facts in {
        "a": {},
        "b": {"agent_info": agent | {"name": "b"}},
        "c": {"agent_info": agent | {"model_info": None}, "config": {"agent": {"model_name": "m"}}},
        "d": {"config": {"agent": {"kwargs": {"effort": "high", "api_key": "secret"}}}},
        "e": {"source": "words"},
    }.items():
        trial(tmp_path, name, **facts)
    parts = {part.name: len(part.runs) for part in audit(tmp_path).parts}
    assert parts == {
        "a · openai/gpt-5": 1,
        "b · openai/gpt-5": 1,
        "a · m": 1,
        "a · openai/gpt-5 · effort=high": 1,
        "a · words · openai/gpt-5": 1,
    }


def test_a_trial_in_two_folders_counts_once(tmp_path: Path) -> None:
    for folder in ("jobs", "jobs/backup"):
        trial(tmp_path / folder, "a")
    assert list(audit(tmp_path).copies.items()) == [("jobs/backup/a", "jobs/a")]


def test_scores_are_read_or_it_is_said_why_not(tmp_path: Path) -> None:
    for rewards, reward, unread in (
        ({"reward": "1.0"}, 1.0, None),
        ({"speed": 2, "style": 1}, None, "rewards under several keys (speed, style)"),
        ({"reward": "fast"}, None, "no number"),
        ({}, None, None),
    ):
        trial(tmp_path, "a", verifier_result={"rewards": rewards})
        [run] = audit(tmp_path).runs
        assert run.reward == reward
        assert (run.unread or "").startswith(unread) if unread else run.unread is None


# (exception, health)
EXCEPTIONS = (
    ("AgentAuthenticationError", "api_error"),
    ("ApiUsageLimitError", "api_error"),
    ("ApiRateLimitError", "api_error"),
    ("ApiConnectionError", "api_error"),
    ("AgentTimeoutError", "healthy"),
    ("RewardFileNotFoundError", "healthy"),
    ("NonZeroAgentExitCodeError", "healthy"),
    ("SandboxBuildFailedError", "not_judged"),
)


@pytest.mark.parametrize(("kind", "health"), EXCEPTIONS)
def test_harbors_exceptions_are_read_by_name(tmp_path: Path, kind: str, health: str) -> None:
    raised = {"exception_type": kind, "exception_message": "it failed", "exception_traceback": ""}
    trial(tmp_path, "a", exception_info=raised)
    assert audit(tmp_path).runs[0].verdict.health.value == health


def test_steps_count_where_the_trial_itself_does_not(tmp_path: Path) -> None:
    raised = {"exception_type": "AuthenticationError", "exception_message": "Invalid API key"}
    steps = [{"step_name": "1", "agent_result": {"n_input_tokens": 5, "n_output_tokens": 2}},
             {"step_name": "2", "exception_info": raised}]  # fmt: skip
    trial(tmp_path, "a", agent_result=None, step_results=steps)
    verdict = audit(tmp_path).runs[0].verdict
    assert (verdict.rule, verdict.fingerprint, verdict.total_tokens) == (
        "interrupted",
        "auth:401",
        7,
    )


def test_an_agent_that_counted_nothing_is_undecided(tmp_path: Path) -> None:
    trial(tmp_path, "a", agent_result={"n_input_tokens": None, "n_output_tokens": None})
    assert audit(tmp_path).runs[0].verdict.health.value == "undecided"


EXITED = "NonZeroAgentExitCodeError"
TASK = "helper run 'Mend it; bash: x: command not found' 2>&1 | tee /logs/agent/helper.txt"
# (exception message, what the agent printed, rule)
LAUNCHES = (
    (f"Command failed (exit 127): {TASK}\nstdout: bash: helper: command not found\nstderr: None",
     None, "agent_never_began"),
    ("Command failed (exit 127): helper run ... bash: helper: command not found", None,
     "agent_never_began"),
    (f"Command failed (exit 2): {TASK}\nstdout: Usage: helper [OPTIONS]\nNo such option: --loud",
     None, "agent_never_began"),
    (f"Command failed (exit 1): {TASK}\nstdout: x ... [truncated]",
     "Traceback (most recent call last):\nImportError: cannot import name 'x'",
     "agent_never_began"),
    (f"Command failed (exit 1): {TASK}\nstdout: None\nstderr: None", None, "not_recorded"),
    (f"Command failed (exit 1): {TASK}", "Credit balance is too low", "all_failed"),
    ("Command failed (exit 127): helper", '{\n  "usage": {\n    "total_tokens": 9\n  }\n}',
     "healthy"),
)  # fmt: skip


@pytest.mark.parametrize(("message", "printed", "rule"), LAUNCHES)
def test_what_an_agent_printed_shows_if_it_began(
    tmp_path: Path, message: str, printed: str | None, rule: str
) -> None:
    unknown = {"n_input_tokens": None, "n_output_tokens": None}
    raised = {"exception_type": EXITED, "exception_message": message}
    trial(tmp_path, "a", exception_info=raised, agent_result=unknown)
    if printed is not None:
        (tmp_path / "a" / "agent").mkdir()
        (tmp_path / "a" / "agent" / "helper.txt").write_text(printed)
    [run] = audit(tmp_path).runs
    assert run.verdict.rule == rule
    assert run.false_zero == (rule in ("agent_never_began", "all_failed"))


def test_a_copy_takes_the_reward_of_an_agent_that_never_began_and_keeps_why(tmp_path: Path) -> None:
    message, _, rule = LAUNCHES[0]
    raised = {"exception_type": EXITED, "exception_message": message}
    trial(tmp_path / "job", "a", exception_info=raised, agent_result=None)
    audit(tmp_path / "job", write=True)
    copy = tmp_path / "job.audited"
    written = json.loads((copy / "a" / "result.json").read_text())
    assert (written["verifier_result"], written["exception_info"]) == (None, raised)
    [again] = audit(copy).runs
    assert (again.verdict.rule, again.reward, again.false_zero) == (rule, 0.0, True)


def test_a_command_that_ended_well_began_whatever_it_printed(tmp_path: Path) -> None:
    trial(tmp_path, "a", agent_result={"n_input_tokens": None, "n_output_tokens": None})
    (tmp_path / "a" / "agent").mkdir()
    (tmp_path / "a" / "agent" / "helper.txt").write_text("bash: helper: command not found")
    assert audit(tmp_path).runs[0].verdict.rule == "not_recorded"


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        ({"agent_setup": {"started_at": "2026-05-01T10:00:00"}}, "its installation"),
        ({"agent_setup": None}, "its sandbox failed"),
    ],
)
def test_a_phase_that_failed_before_the_agents_own_says_that_it_never_began(
    tmp_path: Path, phases: dict[str, Any], why: str
) -> None:
    raised = {"exception_type": "RuntimeError", "exception_message": "compose failed"}
    trial(tmp_path, "a", exception_info=raised, agent_result=None, agent_execution=None, **phases)
    [run] = audit(tmp_path).runs
    assert run.verdict.rule == "agent_never_began"
    assert why in run.why


def test_a_providers_refusal_says_that_an_agent_began_where_no_phase_is_noted(
    tmp_path: Path,
) -> None:
    refused = "litellm.AuthenticationError: Incorrect API key provided"
    raised = {"exception_type": "AuthenticationError", "exception_message": refused}
    trial(tmp_path, "a", exception_info=raised, agent_result=None, agent_execution=None)
    [run] = audit(tmp_path).runs
    assert (run.verdict.rule, run.verdict.subcategory) == ("all_failed", "auth")
