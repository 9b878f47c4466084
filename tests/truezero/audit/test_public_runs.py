"""Records as a person labels them, of this test's own making; the shared ones where they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.truezero.audit import public_runs
from tests.truezero.audit.public_runs import (
    Record,
    errors_of,
    found_in,
    judged,
    mean_errors,
    records,
)

SHARED = records()


def record(label: str, reward: float | None, **evidence: Any) -> Record:
    trial = f"m/{label}-{reward}-{len(evidence)}-{evidence.get('tokens')}"
    return {"set": "s", "trial": trial, "reward": reward, "label": label, "evidence": evidence}


def test_findings_are_compared_with_labels_and_scores_with_what_was_measured() -> None:
    dead = "litellm.AuthenticationError: Invalid API key"
    each = judged(
        (
            record("false_zero.provider", 0.0, error=dead, tokens=0),
            record("false_zero.provider", 0.0, error=dead, tokens=90),
            record("point.verified_before_failure", 1.0, error=dead, tokens=90),
            record("honest", 0.0, error="prompt is too long: 9 tokens > 8 maximum", tokens=90),
            record("honest", 0.0, answer="", reasoning_chars=9),
            record("false_point.empty_answer", 1.0, answer="", reasoning_chars=9),
            record("no_measurement.environment", 0.0, error="the disk is full", tokens=90),
            record("undecidable", 0.0, error="timed out", tokens=None),
        )
    )
    found, errors = found_in(each), errors_of(each)
    assert (found.right, found.wrong, found.missed) == (3, 0, 1)
    assert (found.precision, found.recall) == (1.0, 0.75)
    assert errors is not None
    assert (errors.published, errors.corrected) == pytest.approx((1 / 3 - 2 / 8, 1 / 3 - 1 / 5))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED, reason="the shared records are not here")
def test_corrected_scores_of_published_runs_are_nearer_to_what_was_measured() -> None:
    each = judged(SHARED)
    assert found_in(each).precision >= 0.97
    for key in (lambda one: str(one["set"]), public_runs.model_of):
        errors = mean_errors(each, key)
        assert errors is not None
        assert errors.corrected < errors.published
