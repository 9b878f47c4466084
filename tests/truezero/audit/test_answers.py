from __future__ import annotations

from typing import Any

from truezero.audit.answers import call_of, content, tokens_of

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


def test_reasoning_is_known_by_its_parts_or_its_tokens() -> None:
    spoken: dict[str, Any] = {"choices": [{"message": {"content": ""}}]}
    thoughts: tuple[dict[str, Any], ...] = (
        {"choices": [{"message": {"content": "", "reasoning_content": "hm"}}]},
        spoken | {"usage": {"completion_tokens_details": {"reasoning_tokens": 9}}},
        {"content": [{"type": "redacted_thinking", "data": "x"}]},
        {"output": [{"type": "reasoning", "summary": []}]},
        {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}]}}]},
        {"candidates": [{}], "usageMetadata": {"thoughtsTokenCount": 9}},
        {"steps": [{"type": "thought"}]},
    )
    for answer in thoughts:
        call = call_of(200, {}, answer)
        assert (call.reasoning, call.content) == (True, False)
    for answer in (spoken, spoken | {"usage": {"completion_tokens": 9, "reasoning_tokens": 0}}):
        assert call_of(200, {}, answer).reasoning is None


def test_a_part_that_is_no_text_is_an_answer() -> None:
    assert content([{"type": "image", "image": "data:"}]) == ["image"]
    assert content([{"type": "refusal", "refusal": "no"}]) == ["no"]
    assert content([{"type": "text", "text": ""}, {"type": "output_text"}]) == ["", ""]


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
