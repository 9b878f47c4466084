"""What is on record of an answer: rows of ``recorded.jsonl``, heard whole, in pieces and cut.

A row is what went over the wire (``body``: JSON, or the text as it was sent; ``base64``: no text;
JSON unless ``headers`` say what), how the call ended, and its ``record``: each field of the
contract that holds something, but for ids, sizes and times. Of a digest it says that there is one.
Answers of which nothing but the cause is a fact are in ``tests/answers/``.

``UPDATE_GOLDEN=1 pytest tests/proxy/wire/test_recorded.py`` rewrites the records.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from classifier.codec import encode_exchange
from classifier.records import Ending, Exchange
from tests import golden, tables
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import JSON, dump
from tests.tables import each

FILE = Path(__file__).with_name("recorded.jsonl")
ROWS = tables.lines(FILE)
TOLD_BY_A_ROW = ("status", "upstream", "method")
THE_SAME_IN_EACH = ("id", "rollout_id", "role", "started_at", "attribution_source")
MEASURED = ("first_byte_s", "duration_s", "request_bytes", "response_bytes")
LEFT_OUT = frozenset((*TOLD_BY_A_ROW, *THE_SAME_IN_EACH, *MEASURED))
SAID_ONLY_IF_TRUE = frozenset(("injected", "held", "model_ambiguous", "inferred", "transient"))

Row = dict[str, Any]


def sent(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else dump(body)


def body_of(row: Row) -> bytes:
    return base64.b64decode(row["base64"]) if "base64" in row else sent(row["body"])


def heard(row: Row, pieces: Sequence[bytes], ending: Ending | None = None) -> Exchange:
    return observed(
        pieces,
        row["url"],
        method=row.get("method", "POST"),
        ending=ending or Ending(row.get("ending", "complete")),
        status=row["status"],
        type_=None,
        headers=row.get("headers", {"content-type": JSON}),
        request=sent(row.get("request", "")),
        upstream=row.get("upstream", "any"),
    )


def on_record(row: Row, pieces: Sequence[bytes]) -> Row:
    record = encode_exchange(heard(row, pieces))
    absent = {"usage_source": "absent", "ending": row.get("ending", "complete")}
    return {
        name: True if name.endswith("_digest") else value
        for name, value in record.items()
        if value is not None
        and name not in LEFT_OUT
        and value != absent.get(name)
        and (value or name not in SAID_ONLY_IF_TRUE)
    }


def named(row: Row) -> str:
    return f"{row['fact']} ({row['url']})"


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites the records")
def test_the_records_are_rewritten() -> None:
    rows = [{**row, "record": on_record(row, [body_of(row)])} for row in ROWS]
    tables.write_lines(FILE, rows)


@each("row", ROWS, ids=named)
def test_what_an_answer_says_is_on_record(row: Row) -> None:
    assert on_record(row, [body_of(row)]) == row["record"]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_its_pieces_say_the_same(step: int) -> None:
    @each("row", ROWS[::step], ids=named)
    def in_pieces(row: Row) -> None:
        body = body_of(row)
        for size in (1, 7):
            pieces = [body[i : i + size] for i in range(0, len(body), size)]
            assert on_record(row, pieces) == row["record"], size

    in_pieces()


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_call_of_a_model_that_is_cut_has_no_content_that_it_did_not_carry(step: int) -> None:
    @each("row", [row for row in ROWS if row["record"]["kind"] == "inference"][::step], ids=named)
    def cut_anywhere(row: Row) -> None:
        body, whole = body_of(row), row["record"]
        for place in range(0, len(body), 3 * step):
            cut = heard(row, [body[:place]], Ending.CUT_UPSTREAM)
            assert bool(cut.content_seen) <= bool(whole.get("content_seen")), place
            assert bool(cut.content_seen) <= bool(cut.output_seen), place

    cut_anywhere()
