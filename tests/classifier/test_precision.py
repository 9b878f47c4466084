"""Which judge can be trusted with a score."""

from __future__ import annotations

import pytest

from tests.classifier import precision
from tests.classifier.precision import HEALTHY, JUDGES, NAMES, ROWS, Marks, by_rule, marks


def test_evidence_is_never_wrong_and_misses_nothing_on_the_table() -> None:
    mark = marks(JUDGES["evidence"])
    assert (mark.precision, mark.recall) == (1.0, 1.0)
    assert mark.right >= 60


def test_every_rule_fires_where_the_table_names_it_and_nowhere_else() -> None:
    for name, mark in by_rule(lambda row: row.verdict().rule).items():
        assert (mark.precision, mark.recall) == (1.0, 1.0), name
        assert mark.right >= 4, name


def test_a_rule_is_measured_by_what_it_took_and_by_what_another_took() -> None:
    decided = {name: sum(row.evidence.startswith(name) for row in ROWS) for name in NAMES}
    found = by_rule(lambda _: HEALTHY)
    assert found[HEALTHY] == Marks(
        right=decided[HEALTHY], wrong=len(ROWS) - decided[HEALTHY], missed=0
    )
    assert found["interrupted"] == Marks(right=0, wrong=0, missed=decided["interrupted"])
    assert (found["interrupted"].precision, found["interrupted"].recall) == (None, 0.0)


def test_both_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    precision.main(ROWS[::10])
    printed = capsys.readouterr().out
    for name in (*JUDGES, *NAMES):
        assert f"\n{name} " in printed, name


def test_the_other_judges_miss_failures_that_evidence_finds() -> None:
    for name in ("seed", "status only"):
        recall = marks(JUDGES[name]).recall
        assert recall is not None, name
        assert recall < 0.8, name


def test_precision_counts_wrong_alarms_and_recall_missed_ones() -> None:
    mark = Marks(right=3, wrong=1, missed=2)
    assert (mark.precision, mark.recall) == (0.75, 0.6)
    assert marks(lambda _: True).wrong > 0
    assert marks(lambda _: True).recall == 1.0
