from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from truezero.audit.errors import AuditError, FinishedRun
from truezero.audit.formats import FORMATS, format_of
from truezero.audit.judge import audited
from truezero.audit.reading import (
    any_has,
    call_of,
    content,
    count,
    instant,
    load,
    load_lines,
    number,
    peek,
    stamped,
    tokens_of,
    total,
    unstamped,
)

# --- bodies ---------------------------------------------------------------------------------------

TEXT = {"type": "text", "text": "an answer"}
# (answer, content, tool calls)
ANSWERS: tuple[tuple[dict[str, Any], bool | None, int | None], ...] = (
    ({"choices": [{"message": {"content": "an answer"}}]}, True, 0),
    ({"choices": [{"message": {"content": None, "tool_calls": [{}]}}]}, True, 1),
    ({"choices": [{"message": {"content": ""}}]}, False, 0),
    ({"choices": []}, False, 0),
    ({"content": [TEXT, {"type": "tool_use", "name": "x"}]}, True, 1),
    ({"content": [{"type": "thinking", "thinking": "hm", "text": "hm"}]}, False, 0),
    ({"output": [{"type": "message", "content": [TEXT]}]}, True, 0),
    ({"output": [{"type": "function_call", "name": "x"}]}, True, 1),
    (
        {"output": [{"type": "reasoning", "content": [{"type": "reasoning", "text": "h"}]}]},
        False,
        0,
    ),
    ({"candidates": [{"content": {"parts": [{"text": "an answer"}]}}]}, True, 0),
    ({"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}, True, 1),
    ({"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}]}}]}, False, 0),
    ({"candidates": [{"finishReason": "STOP"}]}, False, 0),
    ({"steps": [{"type": "thought"}, {"type": "model_output", "content": [TEXT]}]}, True, 0),
    ({"steps": [{"type": "function_call", "name": "x"}]}, True, 1),
    ({"steps": [{"type": "user_input", "content": [TEXT]}, {"type": "thought"}]}, False, 0),
    ({"something": "else"}, None, None),
)


def test_the_answers_of_every_dialect_are_read_and_others_are_unknown() -> None:
    read = [call_of(200, {}, answer) for answer, *_ in ANSWERS]
    assert [(c.content, c.tool_calls) for c in read] == [(c, tools) for _, c, tools in ANSWERS]


def test_a_failure_is_one_by_its_status_or_its_error() -> None:
    body = {"error": {"message": "m"}}
    assert [call_of(status, {}, body).error is not None for status in (429, 200, None)] == [
        True
    ] * 3
    assert call_of(500, {}, {}).error is not None
    assert call_of(200, {}, {"choices": [], "error": None}).error is None
    faults = [{"code": "quota_exceeded", "message": "m"}]
    stated = (("failed", True), ("completed", False))
    assert [
        call_of(200, {}, {"steps": [], "status": status, "errors": faults}).error is not None
        for status, _ in stated
    ] == [fails for _, fails in stated]


def test_usage_is_read_under_each_dialects_names() -> None:
    usages = (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 3}},
        {"usage": {"input_tokens": 9, "output_tokens": 3}},
        {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}},
        {"usage": {"total_input_tokens": 9, "total_output_tokens": 3}},
    )
    read = [
        call_of(200, {"model": "m", "tools": [{}]}, {"choices": [], **usage}) for usage in usages
    ]
    assert {(c.input_tokens, c.output_tokens, c.model, c.has_tools) for c in read} == {
        (9, 3, "m", True)
    }
    assert (tokens_of({"total_tokens": 5, "input_tokens": 1}), tokens_of({}), tokens_of(None)) == (
        5,
        None,
        None,
    )
    assert tokens_of({"input_tokens": 1, "output_tokens": 2}) == 3


def test_a_finish_reason_is_the_providers_own() -> None:
    answers = (
        {"choices": [{"finish_reason": "length", "message": {}}]},
        {"candidates": [{"finishReason": "length"}]},
        {"content": [], "stop_reason": "length"},
        {"steps": [], "status": "length"},
    )
    assert {call_of(200, {}, each).finish_reason for each in answers} == {"length"}


def test_reasoning_is_no_content() -> None:
    assert content([{"type": "reasoning", "text": "hm"}, "", {"type": "text", "text": ""}]) == [
        "",
        "",
    ]
    assert content("said") == ["said"]
    assert content(None) == []


# --- format ---------------------------------------------------------------------------------------


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
    assert len(set(names)) == len({each.marks for each in FORMATS}) == len(names) == 9
    assert {format_of(tmp_path, name).name for name in names} == set(names)
