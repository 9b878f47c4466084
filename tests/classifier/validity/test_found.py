"""What the checks find of rollouts: the rows of ``found.jsonl``, whatever order calls arrive in.

A row's rollout is as `tests.classifier.written` says. ``score`` tells health and score, ``found``
each finding whole, ``looked`` on how many calls of how many a check looked.

``UPDATE_GOLDEN=1 pytest tests/classifier/validity/test_found.py`` rewrites what is found.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from classifier import judge
from classifier.codec import encode_verdict
from tests import golden, tables
from tests.classifier.written import Row, policy_of, rollout_of
from tests.tables import each

FILE = Path(__file__).with_name("found.jsonl")
ROWS = tables.lines(FILE)


def found(row: Row) -> Row:
    seen, policy = rollout_of(row), policy_of(row)
    verdict = judge(seen, policy=policy)
    turned = judge(replace(seen, exchanges=seen.exchanges[::-1]), policy=policy)
    assert turned.validity == verdict.validity
    assert turned.validity_coverage == verdict.validity_coverage
    for finding in verdict.validity:
        assert finding.calls <= finding.of, finding
        assert set(finding.evidence) <= {call.id for call in seen.exchanges}, finding
        assert len(finding.evidence) <= 10, finding
        assert finding.sentence, finding
    told: Row = json.loads(json.dumps(encode_verdict(verdict)))
    return {
        "score": [told["health"], told["scoreable"], *told["excluded_by"]],
        "found": told["validity"],
        "looked": {name: f"{each['looked']} of {each['of']}"
                   for name, each in told["validity_coverage"].items()},
    }  # fmt: skip


def named(row: Row) -> str:
    return f"{row['fact']} ({row['calls']})"


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites what is found")
def test_what_is_found_is_rewritten() -> None:
    rows = [row | found(row) for row in ROWS]
    tables.write_lines(FILE, rows)


@pytest.mark.parametrize("half", [0, 1])
def test_the_checks_find_what_the_row_says(half: int) -> None:
    @each("row", ROWS[half::2], ids=named)
    def as_written(row: Row) -> None:
        assert found(row) == {name: row[name] for name in ("score", "found", "looked")}

    as_written()
