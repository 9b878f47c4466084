"""The exit code of a run, for each verdict and ending."""

from __future__ import annotations

import signal

import pytest

from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.runner.run import ProcessResult, Report, record


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
