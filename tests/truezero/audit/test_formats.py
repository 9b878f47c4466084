from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from truezero.audit.audit_format import stamped, unstamped
from truezero.audit.files import any_has, load, load_lines, peek
from truezero.audit.formats import FORMATS, format_of
from truezero.audit.judge import audited
from truezero.audit.runs import AuditError, FinishedRun
from truezero.audit.values import count, instant, number, total


def test_values_of_other_programs_are_read_or_unknown() -> None:
    odd: tuple[object, ...] = (None, "3", -1, 1.5, math.nan, math.inf, True, [], {})
    assert [count(value) for value in odd] == [None] * len(odd)
    assert [count(3), count(3.0), number(True), number("3")] == [3, 3, 1.0, None]
    assert (total((None, None)), total((None, 2, 3))) == (None, 5)
    assert instant("2026-11-01T00:00:00Z") == instant("2026-11-01T00:00:00+00:00") == 1793491200.0
    assert (instant("yesterday"), instant(None), instant(5)) == (None, None, 5.0)


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    for broken, said in (("[1]", "line 2 is no object"), ("{", "line 2: ")):
        file.write_text(f'{{"a": 1}}\n{broken}\n')
        with pytest.raises(AuditError, match=said):
            list(load_lines(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(AuditError):
        list(load_lines(file))
    with pytest.raises(AuditError):
        load(file)


def test_a_file_is_recognised_by_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "pretty.json").write_text(json.dumps({"a": 1}, indent=2))
    (tmp_path / "lines.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    assert peek(tmp_path / "pretty.json") == peek(tmp_path / "lines.jsonl") == {"a": 1}
    assert peek(tmp_path / "missing") is None
    assert any_has(tmp_path, lambda record: record == {"a": 1}, "*.jsonl")
    assert not any_has(tmp_path, lambda record: record == {"b": 2}, "*.jsonl", "*.json")


def test_what_a_verdict_replaces_comes_back() -> None:
    judged = audited(FinishedRun(id="r", task="t", reward=0.0, tokens=0))
    record = {"reward": 0.0, "error": None}
    marked = stamped(record, judged, {"reward": None, "error": "e", "added": 1})
    assert (marked["reward"], marked["error"], marked["added"]) == (None, "e", 1)
    assert unstamped(marked) == record
    assert stamped(marked, judged, {"reward": None, "error": "e", "added": 1}) == marked


def test_an_own_key_of_a_harness_is_left_alone() -> None:
    assert unstamped({"truezero": "mine"}) == {"truezero": "mine"}


def test_every_format_has_a_name_and_marks_of_its_own(tmp_path: Path) -> None:
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len({each.marks for each in FORMATS}) == len(names) == 13
    assert {format_of(tmp_path, name).name for name in names} == set(names)
