"""What the rules say of rollouts, in every field: the rows of ``judged.jsonl``.

A row has calls in the words of ``tests.builders``, what the runner ``said``, fields of another
``policy``, and the series of questions ``asked`` about each failure. Its ``verdict`` is as it is
encoded, but for what holds nothing, ids, sentences and coverage; of findings the check and level.

``UPDATE_GOLDEN=1 pytest tests/classifier/test_judged.py`` rewrites the verdicts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from classifier import Policy, Verdict, judge
from classifier.codec import encode_verdict
from classifier.references import NotRun
from tests import golden, tables
from tests.builders import asked, rollout
from tests.tables import each

FILE = Path(__file__).with_name("judged.jsonl")
ROWS = tables.lines(FILE)
LEFT_OUT = frozenset(("rollout_id", "batch", "classifier", "policy", "sentence", "error_category",
                      "validity_coverage", "references"))  # fmt: skip
COUNTS = frozenset(("failed_requests", "recovered_requests", "late_calls", "tokens_unknown_calls",
                    "cost_unknown_calls"))  # fmt: skip

Row = dict[str, Any]


def judged(row: Row) -> Verdict:
    said = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row.get("said", {}).items()
    }
    seen = rollout(row["calls"], running=row.get("running", False), **said)
    if questions := dict(row.get("asked", {})):
        not_run = questions.pop("not_run", None)
        seen = asked(seen, **questions, not_run=NotRun(not_run) if not_run else None)
    return judge(seen, policy=Policy(**row.get("policy", {})))


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


def named(row: Row) -> str:
    return f"{row['fact']} ({row['calls']})"


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites the verdicts")
def test_the_verdicts_are_rewritten() -> None:
    rows = [{**row, "verdict": told(judged(row))} for row in ROWS]
    FILE.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


@each("row", ROWS, ids=named)
def test_a_rollout_is_judged_in_every_field_as_its_row_says(row: Row) -> None:
    assert told(judged(row)) == row["verdict"]
