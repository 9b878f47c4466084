"""The cause of one call, by its evidence: the rows of ``classified.jsonl``.

``UPDATE_GOLDEN=1 pytest tests/classifier/test_classified.py`` rewrites the causes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from classifier.causes import classify
from classifier.codec import encode_cause
from classifier.records import Ending, FailureEvidence, Flaw, Kind, ProviderError
from tests import golden, tables
from tests.tables import each

FILE = Path(__file__).with_name("classified.jsonl")
ROWS = tables.lines(FILE)

Row = dict[str, Any]


def evidence(answer: Row) -> FailureEvidence:
    told = dict(answer, kind=Kind(answer["kind"]), ending=Ending(answer["ending"]))
    if "flaw" in told:
        told["flaw"] = Flaw(told["flaw"])
    if "error" in told:
        said = told["error"]
        told["error"] = ProviderError(**{**said, "reasons": tuple(said.get("reasons", ()))})
    return FailureEvidence(**told)


def cause(row: Row) -> Row | None:
    found = classify(evidence(row["answer"]), stall_s=row.get("stall_s", 60.0))
    if found is None:
        return None
    return {name: value for name, value in encode_cause(found).items() if value is not None}


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites the causes")
def test_the_causes_are_rewritten() -> None:
    rows = [{**row, "cause": cause(row)} for row in ROWS]
    tables.write_lines(FILE, rows)


@each("row", ROWS, ids=lambda row: f"{row['fact']} {row['answer']}")
def test_a_call_has_the_cause_that_its_row_says(row: Row) -> None:
    assert cause(row) == row["cause"]
