"""Both policies over the truth table, row by row."""

from __future__ import annotations

import pytest

from classifier import EVIDENCE, SEED, Health, Policy, Verdict
from tests.classifier.truth import SEQUENCES, TABLE, Row
from tests.tables import each


def told(verdict: Verdict) -> str:
    """Write a verdict as the table does."""
    if verdict.health.unhealthy:
        return f"{verdict.rule} {verdict.fingerprint}"
    return verdict.rule if verdict.health is Health.HEALTHY else verdict.health.value


def expected_by_seed(row: Row) -> str:
    assert row.seed is not None
    return f"zero_signal {row.seed}" if row.seed.startswith("suspected:") else row.seed


@each("row", TABLE)
def test_evidence_says_what_the_table_says(row: Row) -> None:
    verdict = row.verdict()
    assert told(verdict) == row.evidence, row.why
    assert verdict.error_category == (verdict.health.value if verdict.health.unhealthy else None)


@each("row", TABLE)
def test_the_seed_says_what_benchflow_would(row: Row) -> None:
    assert told(row.verdict(SEED)) == expected_by_seed(row), row.why


@pytest.mark.parametrize("policy", [EVIDENCE, SEED], ids=["evidence", "seed"])
def test_only_unhealthy_verdicts_name_a_failure(policy: Policy) -> None:
    for row in TABLE:
        verdict = row.verdict(policy)
        named = (verdict.fingerprint, verdict.layer, verdict.error)
        assert all(name is not None for name in named) is verdict.health.unhealthy, str(row)
        proven = verdict.health is Health.API_ERROR
        parts = (verdict.subcategory, verdict.transient, verdict.cause)
        assert all(part is not None for part in parts) is proven, str(row)


def test_the_evidence_of_a_proven_failure_are_failed_calls_of_the_rollout() -> None:
    for row in TABLE:
        verdict = row.verdict()
        if verdict.health is Health.API_ERROR:
            failed = {x.id for x in row.rollout.exchanges if x.failed and x.role == "agent"}
            assert verdict.evidence, str(row)
            assert set(verdict.evidence) <= failed, str(row)


def test_the_table_is_large_and_holds_no_rollout_twice() -> None:
    rows = [str(row) for row in TABLE]
    assert len(rows) >= 200
    assert len(set(rows)) == len(rows)
    assert sum(row.lost is True for row in TABLE) >= 60
    assert sum(row.lost is False for row in TABLE) >= 60


def test_long_sequences_are_judged_as_a_careful_evaluator_would() -> None:
    for row in SEQUENCES:
        verdict = row.verdict()
        assert (told(verdict), verdict.scoreable) == (row.evidence, row.scoreable), (
            f"{row}: {row.why}"
        )


def test_what_was_lost_is_never_scored_and_what_was_fair_always_is() -> None:
    scores = {True: {"no"}, False: {"yes"}, None: {"no", "unknown"}}
    for row in SEQUENCES:
        assert row.scoreable in scores[row.lost], str(row)


def test_the_sequences_are_many_and_none_is_told_twice() -> None:
    rows = [str(row) for row in (*TABLE, *SEQUENCES)]
    assert len(SEQUENCES) >= 120
    assert len(set(rows)) == len(rows)
