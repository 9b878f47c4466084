"""The shipped rows of causes: what may stand in their files, and what a mistake is told as."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from classifier.cause_rows import CauseRow
from classifier.cause_table import KnownRows, known_rows, read_known_rows
from classifier.causes import CauseTable, classify
from classifier.records import Ending, FailureEvidence, Flaw, Kind
from classifier.tables import shipped
from proxy.wire.provider_error import read_error
from tests.answers.table import DOCUMENTED, FOLDER, Answer
from tests.tables import each

KNOWN = known_rows()
FILE = FOLDER / "documented.jsonl"
FILES = ("codes", "sentences", "broad", "statuses")


def mistakes(known: KnownRows, samples: Iterable[Answer]) -> Iterator[str]:
    """Tell of each row that no sample strikes, by its file, and of each sample without its row."""
    rules = {sample.rule for sample in samples}
    for file in FILES:
        rows: tuple[CauseRow, ...] = getattr(known, file)
        for number, row in enumerate(rows, start=1):
            if row.id not in rules:
                where = f"causes/{file}.toml: row {number} ({row.id})"
                yield f"{where}: sample: no line of {FILE.name} has this rule"
    names = {row.id for row in known.table} | {"stated.long_wait", "stated.requested_over_limit"}
    for number, sample in enumerate(samples, start=1):
        if sample.rule and "+" not in sample.rule and sample.rule not in names:
            yield f"{FILE.name}: line {number}: rule: no row is called {sample.rule!r}"


def table(known: KnownRows) -> CauseTable:
    return CauseTable(
        coined=(*known.codes, *known.sentences), broad=(*known.broad, *known.statuses)
    )


def edited(file: str, change: tuple[str, str]) -> KnownRows:
    """Read the rows with one text of a file replaced by another, or put after its end."""
    before, after = change

    def read(name: str) -> Mapping[str, Any]:
        if name != file:
            return shipped(name)
        text = (DATA / name).read_text("utf-8")
        assert before in text
        return tomllib.loads(text.replace(before, after, 1) if before else f"{text}\n{after}")

    return read_known_rows(read)


DATA = Path(__file__).parents[2] / "classifier" / "data"
CODES, SENTENCES = "causes/codes.toml", "causes/sentences.toml"
NEW = '[[causes]]\nname = "acme.broke"\ncode = "E1042"\ncause = "quota"\nsource = "acme.example"\n'


def test_each_row_has_a_sample_and_each_sample_its_row() -> None:
    assert list(mistakes(KNOWN, DOCUMENTED)) == []


def test_a_row_without_a_sample_and_a_sample_without_a_row_are_told() -> None:
    known = edited(CODES, ("", NEW))
    number = len(KNOWN.codes) + 1
    where = f"causes/codes.toml: row {number} (acme.broke)"
    said = f"{where}: sample: no line of documented.jsonl has this rule"
    assert said in mistakes(known, DOCUMENTED)
    removed = edited(CODES, ('name = "harness.budget"', 'name = "harness.other"'))
    assert [told for told in mistakes(removed, DOCUMENTED) if "rule: no row" in told]


@each(
    "file, change, said",
    [
        (CODES, ("", NEW.replace("code", "cod")), "(acme.broke): unknown key 'cod' (known: name,"),
        (CODES, ("", NEW.replace('"E1042"', "true")), "(acme.broke): code: True is no text of a"),
        (CODES, ("", NEW.replace('"E1042"', "[]")), "(acme.broke): code: 0 values, and 1 to 20"),
        (CODES, ("", NEW.replace('"quota"', '"money"')), "(acme.broke): cause: 'money' is none of"),
        (CODES, ("", NEW.replace("cause =", "transient =")), "transient: neither true nor false"),
        (CODES, ("", NEW.replace('cause = "quota"\n', "")), "(acme.broke): cause is needed: auth,"),
        (CODES, ("", NEW.replace('name = "acme.broke"\n', "")), "(None): name is needed"),
        (CODES, ("", NEW.replace('source = "acme.example"\n', "")), "(acme.broke): source is need"),
        (CODES, ("", NEW.replace("acme.example", " ")), "(acme.broke): source: ' ' is no text"),
        (CODES, ("", NEW.replace('code = "E1042"\n', "on = 400\n")), "one of code, type, words, "),
        (CODES, ("", NEW + "on = 99\n"), "(acme.broke): on: 99 is none of '4xx', '5xx', 200 and"),
        (CODES, ("", NEW + "on = [400, '3xx']\n"), "(acme.broke): on: '3xx' is none of '4xx',"),
        (CODES, ("", NEW + "status = 99\n"), "(acme.broke): status: 99 is not an HTTP status"),
        (CODES, ("", NEW + "pattern = '('\n"), "(acme.broke): pattern: does not compile: missing"),
        (CODES, ("", NEW + "pattern = ['a', 1]\n"), "(acme.broke): pattern: 1 is no text"),
        (CODES, ("", NEW + "pattern = '<x>'\n"), "pattern: '<x>' is none of <rejected_reasoning>"),
        (CODES, ("", NEW + "reason = 'Too much'\n"), "(acme.broke): reason: 'Too much' is not 1"),
        (CODES, ("", NEW.replace("acme.broke", "harness.budget")), "'harness.budget' is the name"),
        (CODES, ("", NEW.replace("acme.broke", "bedrock.iam")), "'bedrock.iam' is the name of a"),
        (CODES, ("", NEW.replace("E1042\"", "E1042")), "causes/codes.toml: Illegal character"),
        (CODES, ("", "[x]\n"), "causes/codes.toml: unknown key 'x' (known: causes)"),
        (SENTENCES, ("", NEW + "words = \"got 'x'\"\n"), "words: \"got 'x'\" holds a quotation"),
        ("causes/upstreams.toml", ("", "acme = 1"), "causes/upstreams.toml: acme: not a list"),
    ],
    ids=lambda case: case[2],
)  # fmt: skip
def test_a_mistake_is_told_by_file_row_and_key(
    file: str, change: tuple[str, str], said: str
) -> None:
    with pytest.raises(ValueError) as raised:
        edited(file, change)
    told = str(raised.value)
    assert said in told
    assert told.startswith(f"{file}: " if "is the name of a" not in said else "causes/")


def test_a_row_in_the_operators_format_is_a_shipped_row() -> None:
    """With a source it can be taken over from truezero.toml as it is, words among its keys."""
    known = edited(SENTENCES, ("", NEW.replace('code = "E1042"', 'words = "flat  Broke"')))
    said = read_error({"error": {"message": "You are flat broke."}})
    flat = FailureEvidence(
        upstream="acme", api="", kind=Kind.INFERENCE, status=400, ending=Ending.COMPLETE, error=said
    )
    cause = classify(flat, table=table(known))
    assert cause is not None
    assert cause.rule == "acme.broke"


# --- the order of evidence ----------------------------------------------------------------------


def test_no_two_rows_have_the_same_conditions() -> None:
    conditions = [
        (r.codes, r.reason_pattern, r.pattern, r.params, r.on, r.statuses, r.upstreams)
        for r in KNOWN.codes
    ]
    assert len(set(conditions)) == len(conditions)


def test_no_pattern_matches_an_empty_message() -> None:
    assert [row.id for row in KNOWN.table if row.pattern and row.pattern.search("")] == []


# --- rows by status, by ending and by flaw --------------------------------------------------------


def test_every_failed_status_has_a_row_and_so_has_an_unnamed_error_inside_a_200() -> None:
    covered = {status for row in KNOWN.statuses if not row.upstreams for status in row.on or ()}
    assert {*range(400, 1000), None} <= covered


def test_every_flaw_has_a_row() -> None:
    assert set(KNOWN.flaws) == set(Flaw)


def test_every_ending_that_says_of_itself_why_a_call_failed_has_a_row() -> None:
    """A call that is closed at the outcome is read by the row of one that its agent left."""
    rowless = {Ending.COMPLETE, Ending.LOST, Ending.LEFT_WHILE_HELD, Ending.CLOSED_AT_OUTCOME}
    assert set(KNOWN.endings) == set(Ending) - rowless


def test_the_rows_of_endings_and_flaws_need_no_other_condition() -> None:
    rows = [row for row in KNOWN.without_error if row.codes or row.pattern or row.on]
    assert [row.id for row in rows] == []
