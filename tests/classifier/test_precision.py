"""Which judge can be trusted with a score."""

from __future__ import annotations

from tests.classifier.precision import JUDGES, Marks, marks


def test_evidence_is_never_wrong_and_misses_nothing_on_the_table() -> None:
    mark = marks(JUDGES["evidence"])
    assert (mark.precision, mark.recall) == (1.0, 1.0)
    assert mark.right >= 60


def test_the_other_judges_miss_failures_that_evidence_finds() -> None:
    for name in ("seed", "status only"):
        assert marks(JUDGES[name]).recall < 0.8, name


def test_precision_counts_wrong_alarms_and_recall_missed_ones() -> None:
    mark = Marks(right=3, wrong=1, missed=2)
    assert (mark.precision, mark.recall) == (0.75, 0.6)
    assert marks(lambda _: True).wrong > 0
    assert marks(lambda _: True).recall == 1.0
