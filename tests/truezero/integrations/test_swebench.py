"""SWE-bench's report names the instances that were no measurement."""

from __future__ import annotations

from typing import Any

from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.integrations.swebench import with_failures

HEALTHY = {**VERDICT, "health": "healthy", "error_category": None, "error": None}


def verdict(**facts: Any) -> models.Verdict:
    return models.Verdict.model_validate({**HEALTHY, **facts})


DEAD = verdict(
    health="api_error",
    error_category="api_error",
    error="api_error [auth, permanent]: HTTP 401 on 3 of 3 calls",
)
SILENT = verdict(health="suspected_api_error", error_category="suspected_api_error")
REACHED = verdict(scoreable="yes")
SPOILT = verdict(scoreable="no", excluded_by=["max_steps"])
REPORT: dict[str, Any] = {
    "resolved_ids": ["a"], "unresolved_ids": ["b", "c", "d"], "infra_failure_ids": ["d"],
    "infra_failure_instances": 1, "failure_reasons": {"d": "the image could not be built"},
}  # fmt: skip


def test_what_reached_no_model_is_named_with_its_reason() -> None:
    kept = {**REPORT, "failure_reasons": dict(REPORT["failure_reasons"])}
    found = with_failures(REPORT, {"a": REACHED, "b": DEAD, "c": SILENT})
    assert found["infra_failure_ids"] == ["b", "c", "d"]
    assert found["infra_failure_instances"] == 3
    assert found["failure_reasons"] == {
        "b": "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls",
        "c": "suspected_api_error",
        "d": "the image could not be built",
    }
    assert (found["resolved_ids"], found["unresolved_ids"]) == (["a"], ["b", "c", "d"])
    assert kept == REPORT
    assert with_failures(found, {"b": DEAD, "c": SILENT}) == found


def test_what_was_reached_and_is_no_measurement_is_named_too() -> None:
    found = with_failures(REPORT, {"a": REACHED, "b": SPOILT})
    assert found["infra_failure_ids"] == ["b", "d"]
    assert found["failure_reasons"]["b"] == (
        "does not count so far: the agent ran out of steps, which the policy leaves out (max_steps)"
    )


def test_what_is_named_is_no_longer_ambiguous() -> None:
    found = with_failures(
        {**REPORT, "ambiguous_failure_ids": ["b", "e"], "ambiguous_failure_instances": 2},
        {"b": DEAD, "e": REACHED},
    )
    assert found["infra_failure_ids"] == ["b", "d"]
    assert (found["ambiguous_failure_ids"], found["ambiguous_failure_instances"]) == (["e"], 1)


def test_a_report_without_failures_gains_no_field() -> None:
    assert with_failures({"resolved_ids": []}, {"a": REACHED}) == {"resolved_ids": []}
    first = with_failures({}, {"b": DEAD})
    assert first["infra_failure_ids"] == ["b"]
