"""What the rules say of rollouts, in every field: the rows of ``judged.jsonl``.

A row's rollout is as `tests.classifier.written` says, under fields of another ``policy`` where it
names some. Its ``verdict`` is as it is encoded, but for what holds nothing, ids, sentences and
coverage; of findings the check and level (`validity/found.jsonl` has the rest).

``UPDATE_GOLDEN=1 pytest tests/classifier/test_judged.py`` rewrites the verdicts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from classifier import Verdict, judge
from classifier.codec import encode_verdict
from tests import golden, tables
from tests.classifier.written import Row, policy_of, rollout_of
from tests.tables import each

FILE = Path(__file__).with_name("judged.jsonl")
ROWS = tables.lines(FILE)
LEFT_OUT = frozenset(("rollout_id", "batch", "classifier", "policy", "sentence", "error_category",
                      "validity_coverage", "references"))  # fmt: skip
COUNTS = frozenset(("failed_requests", "recovered_requests", "late_calls", "tokens_unknown_calls",
                    "cost_unknown_calls"))  # fmt: skip


def told(verdict: Verdict) -> Row:
    encoded = encode_verdict(verdict)
    encoded["provider_wait_s"] = verdict.provider_wait_s
    encoded["validity"] = [f"{found.check} {found.level}" for found in verdict.validity]
    return {
        name: value
        for name, value in encoded.items()
        if name not in LEFT_OUT
        and value not in (None, [], {}, "")
        and value is not False
        and (value or name not in COUNTS)
    }


def judged(row: Row) -> Row:
    return told(judge(rollout_of(row), policy=policy_of(row)))


def named(row: Row) -> str:
    return f"{row['fact']} ({row['calls']})"


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites the verdicts")
def test_the_verdicts_are_rewritten() -> None:
    rows = [{**row, "verdict": judged(row)} for row in ROWS]
    tables.write_lines(FILE, rows)


@pytest.mark.parametrize("half", [0, 1])
def test_a_rollout_is_judged_in_every_field_as_its_row_says(half: int) -> None:
    @each("row", ROWS[half::2], ids=named)
    def as_written(row: Row) -> None:
        assert judged(row) == row["verdict"]

    as_written()
