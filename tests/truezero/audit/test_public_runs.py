"""Records as a person labels them, of this test's own making; the shared ones where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpus_score import corpus_folder
from tests.truezero.audit import public_runs
from tests.truezero.audit.harnesses import dump, harbor_result
from tests.truezero.audit.public_runs import (
    Record,
    audits,
    errors_of,
    found_in,
    judged,
    mean_errors,
    records,
)
from tests.truezero.audit.scenarios import Scenario
from truezero.audit.report import audit

SHARED = records()
FAULTY = (corpus_folder() or Path()) / "public-faults"


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


def test_records_of_a_set_that_is_there_are_judged_by_its_own_files(tmp_path: Path) -> None:
    trial = harbor_result(Scenario(kind="k", number=1, calls=(), reward=0.0, failed=False))
    raised = {
        "exception_type": "NonZeroAgentExitCodeError",
        "exception_message": "Command failed (exit 127): x\nstdout: bash: x: command not found",
    }
    facts = {"trial_name": "a__x", "exception_info": raised, "agent_result": None}
    dump(tmp_path / "s" / "jobs" / "j1" / "a__x" / "result.json", {**trial, **facts})
    each = {**record("no_measurement.setup", 0.0), "set": "s (Harbor)", "trial": "j1/a__x"}
    gone = record("no_measurement.setup", 0.0)
    held = (each, gone)
    known, other = judged(held, audits(held, tmp_path))
    assert (known.run.verdict.rule, known.called, other.called) == (
        "agent_never_began",
        True,
        False,
    )


# Faults that published runs showed, as made inputs: (published, corrected) by part, and the verdict
# of each run: its health, and whether it leaves the score.
FAULTS: dict[str, tuple[list[tuple[float | None, float | None]], list[tuple[str, bool]]]] = {
    "F01": ([(1.0, 1.0), (0.0, 0.0)], [("healthy", False)] * 4),
    "F02": ([(4.75, 4.75)], [("healthy", False)] * 4),
    "F03": ([(None, None)] * 2, [("healthy", False)] * 2 + [("undecided", False)] * 2),
    "F04": ([(0.5, 0.5)], [("healthy", False)] * 2),
    "F05": ([(None, None)], [("healthy", False), ("undecided", False)]),
    "F06": ([(None, None)], [("healthy", False), ("healthy", True), ("undecided", False)]),
    "F07": ([(0.25, 0.25)], [("healthy", False)] * 4),
    "F08": (
        [(0.0, 0.0)],
        [("api_error", True)] * 6 + [("undecided", False)] * 2 + [("api_error", True)],
    ),
    "F09": ([(0.0, 0.0)], [("undecided", False)]),
    "F10": ([(0.5, 0.5)], [("api_error", False), ("healthy", False)]),
    "F11": ([(0.5, 1.0)], [("not_judged", True), ("healthy", False)]),
    "F12": ([(1.0, 1.0)], [("healthy", False)]),
    "F12c": ([(1.0, 1.0)], [("healthy", False)]),
    "F14": ([(None, None)], [("api_error", True)]),
    "F15": ([(None, None)], [("api_error", True), ("healthy", False)]),
}


@pytest.mark.skipif(not FAULTY.is_dir(), reason="the shared inputs are not here")
@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_published_runs_showed_are_mended(name: str) -> None:
    found = audit(FAULTY / name)
    scores = [(part.score_reported, part.scores.score_effective) for part in found.parts]
    runs = [(run.verdict.health.value, run.left_out) for run in found.runs]
    assert (scores, runs) == FAULTS[name]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED, reason="the shared records are not here")
def test_corrected_scores_of_published_runs_are_nearer_to_what_was_measured() -> None:
    each = judged(SHARED)
    found = found_in(each)
    assert found.precision >= 0.97
    assert found.recall >= 0.9
    for key in (lambda one: str(one["set"]), public_runs.model_of):
        errors = mean_errors(each, key)
        assert errors is not None
        assert errors.corrected < errors.published
