"""What is reported of a rollout of benchflow, and what its retry reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.truezero.integrations import fake_benchflow
from tests.truezero.integrations.fake_benchflow import CATEGORIES, Planes, Rollout
from truezero.integrations.benchflow_rollouts import outcome, unmeasured
from truezero.sdk.errors import ServiceError


@pytest.fixture(autouse=True)
def _benchflow(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_benchflow.install(monkeypatch)


def test_what_a_retry_cannot_mend_is_not_called_temporary() -> None:
    for status, passing in ((None, True), (503, True), (401, False)):
        said = unmeasured(ServiceError("why", status=status))
        assert said.startswith("truezero: not measured")
        assert said.endswith(": why")
        assert ("temporarily unavailable" in said) == passing


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, "success", "agent_stop"),
        ("agent idle", "task_timeout", None),
        ("no image", "setup_failed", None),
        ("lost", "environment_error", None),
        ("a prompt, verbatim", "unknown_execution_error", None),
    ],
)
def test_of_an_error_only_benchflows_category_is_reported(
    error: str | None, status: str, reason: str | None, tmp_path: Path
) -> None:
    rewards = {"reward": 1, "passed": True, "note": "text", "nan": float("nan")}
    seen = outcome(Rollout(tmp_path, "r", Planes(), error=error, rewards=rewards))
    assert (seen["status"], seen.get("termination_reason")) == (status, reason)
    assert seen["error"] == (error and CATEGORIES.get(error, "other"))
    assert seen["rewards"] == {"reward": 1.0, "passed": 1.0}
