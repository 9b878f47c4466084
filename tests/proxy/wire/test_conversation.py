from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.conversation import (
    defers_tools,
    is_edited,
    is_plain,
    is_unanswered,
    messages_of,
    opening,
    sample,
    unwrapped,
)

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["role", "content", "text", "parts", "type", "input", "tool_calls",
                         "toolResult", "output", "thinking", "source", "k", "messages",
                         "system", "tools", "toolConfig", "request", "contents", "prompt"]),
        inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


# -- which the messages are ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "messages"),
    [
        ({"messages": [1, 2]}, [1, 2]),
        ({"input": ["a"]}, ["a"]),
        ({"input": "a"}, ("a",)),
        ({"prompt": "a"}, ("a",)),
        ({"contents": [{"parts": []}]}, [{"parts": []}]),
        ({"message": "now", "chat_history": ["a", "b"]}, ("a", "b", "now")),
        ({"message": "now"}, ("now",)),
        ({"messages": []}, None),
        ({"messages": {"role": "user"}}, None),
        ({"input": None}, None),
        ({"prompt": {"id": "template"}}, None),
        ({"input": {"type": "text", "text": "a"}}, ({"type": "text", "text": "a"},)),
        ({}, None),
    ],
)
def test_each_dialect_has_its_messages(request_: dict[str, Any], messages: object) -> None:
    assert messages_of(request_) == messages


def test_a_wrapped_request_has_them_inside() -> None:
    inner = {"contents": ["a"]}
    assert unwrapped({"model": "g", "request": inner}) is inner
    others: list[dict[str, Any]] = [{"request": "x", "messages": []}, {"request": {"messages": []}}]
    for other in others:
        assert unwrapped(other) is other


# -- samples -------------------------------------------------------------------------------

LONG = "".join(chr(97 + n * 7 % 26) for n in range(5_000))
MARK = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "a"}, {"content": "a", "role": "user"}),
        ({"role": "user", "content": "a"},
         {"role": "user", "content": [{"type": "text", "text": "a"}]}),
        ({"role": "user", "content": [{"type": "text", "text": "a"}]},
         {"role": "user", "content": [{"text": "a", "type": "text", "cache_control": MARK}]}),
        ({"content": [{"type": "tool_result", "tool_use_id": "1", "content": LONG}]},
         {"content": [{"content": [{"text": LONG}], "type": "tool_result", "cache_control": MARK,
                       "tool_use_id": "2"}]}),
        ({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
         {"tool_calls": [{"id": "2", "function": {"arguments": "{}", "name": "f"}}]}),
        ({"content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": "1", "b": 2}}]},
         {"content": [{"input": {"b": 2, "a": "1"}, "name": "f", "id": "2", "type": "tool_use"}]}),
    ],
)  # fmt: skip
def test_what_agents_move_or_make_anew_does_not_matter(one: object, other: object) -> None:
    assert sample(one) == sample(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"content": LONG}, {"content": LONG[:-1]}),
        ({"content": LONG}, {"content": LONG[1:] + "a"}),
        ({"content": "page 1 of 3\n" * 80}, {"content": "page 2 of 3\n" * 80}),
        ({"content": LONG}, {"content": LONG[:2_000] + "!" * 1_000 + LONG[3_000:]}),
        ({"parts": [{"text": "a"}]}, {"parts": [{"text": "b"}]}),
        ({"parts": [{"functionCall": {"name": "f", "args": {"x": "1"}}}]},
         {"parts": [{"functionCall": {"name": "f", "args": {"x": "2"}}}]}),
        ({"type": "function_call", "name": "f", "arguments": '{"x":1}'},
         {"type": "function_call", "name": "f", "arguments": '{"x":2}'}),
        ({"type": "function_call_output", "output": "a"},
         {"type": "function_call_output", "output": "b"}),
        ({"content": [{"toolUse": {"toolUseId": "1", "name": "f", "input": {"x": "1"}}}]},
         {"content": [{"toolUse": {"toolUseId": "1", "name": "f", "input": {"x": "2"}}}]}),
        ({"content": [{"toolResult": {"content": [{"json": {"x": 1}}]}}]},
         {"content": [{"toolResult": {"content": [{"json": {"x": 2}}]}}]}),
        ({"type": "function_result", "name": "f", "result": "a"},
         {"type": "function_result", "name": "f", "result": "b"}),
        ({"type": "user_input", "content": [{"type": "text", "text": "a"}]},
         {"type": "user_input", "content": [{"type": "text", "text": "b"}]}),
    ],
)  # fmt: skip
def test_other_texts_have_other_samples(one: object, other: object) -> None:
    assert sample(one) != sample(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"system": "a"}, {"system": "b"}),
        ({"instructions": "a"}, {}),
        ({"systemInstruction": {"parts": [{"text": "a"}]}},
         {"systemInstruction": {"parts": [{"text": "b"}]}}),
        ({"tools": [{"name": "f"}]}, {"tools": [{"name": "g"}]}),
        ({"tools": [{"name": "f"}]}, {"tools": [{"name": "f"}, {"name": "f"}]}),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
         {"tools": [{"type": "function", "function": {"name": "g", "parameters": {}}}]}),
        ({"tools": [{"functionDeclarations": [{"name": "f"}]}]},
         {"tools": [{"functionDeclarations": [{"name": "g"}]}]}),
        ({"toolConfig": {"tools": [{"toolSpec": {"name": "f"}}]}},
         {"toolConfig": {"tools": [{"toolSpec": {"name": "g"}}]}}),
    ],
)  # fmt: skip
def test_an_opening_is_its_instructions_and_its_tools(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert opening(one) != opening(other)
    assert opening(one) == opening({**one, "temperature": 1})


def test_what_stands_before_the_instructions_and_is_about_the_request_does_not_matter() -> None:
    told = {"type": "text", "text": "You are"}
    first, second = ({"type": "text", "text": f"x-header: {n}"} for n in (1, 2))
    assert opening({"system": [first, told]}) == opening({"system": [second, told]})


def test_a_look_costs_the_same_however_much_there_is() -> None:
    wide = {"content": [{"type": "text", "text": "a"}] * 100_000}
    assert sample(wide) == sample({"content": "a"})
    assert not is_plain(wide)
    deep: dict[str, Any] = {"content": "a"}
    for _ in range(50_000):
        deep = {"content": [deep]}
    assert sample(deep) is None
    assert not is_plain(deep)
    assert sample({"input": {str(n): n for n in range(1_000)}}) is None


# -- what is plain -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "a", {"role": "user", "content": "a"}, {"role": "assistant", "content": None,
        "tool_calls": [{"function": {"name": "f"}}]}, {"content": [{"type": "text", "text": "a"}]},
        {"content": [{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}]},
        {"content": [{"type": "tool_use", "input": {"image": "of a cat"}}]},
        {"role": "assistant", "content": "a", "reasoning_content": None, "audio": None},
        {"type": "function_call", "arguments": "{}"},
        {"type": "function_call_output", "output": "a"},
        {"parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"content": [{"toolResult": {"content": [{"text": "a"}]}}]},
        {"type": "user_input", "content": [{"type": "text", "text": "a"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "a"}]},
        {"type": "text", "text": "a"}, {"type": "function_result", "name": "f", "result": "a"},
        {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [{"name": "f"}]},
    ],
)  # fmt: skip
def test_texts_and_tool_calls_are_plain(message: object) -> None:
    assert is_plain(message)


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "image", "source": {}, "data": "x"}]},
        {"content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"content": [{"type": "input_audio", "input_audio": {"data": "x"}}]},
        {"content": [{"type": "document", "source": {"data": "x"}}]},
        {"content": [{"type": "thinking", "thinking": "x", "signature": "y"}]},
        {"content": [{"type": "redacted_thinking", "data": "x"}]},
        {"content": [{"type": "tool_result", "content": [{"type": "image", "source": {"u": 1}}]}]},
        {"content": [{"toolResult": {"content": [{"image": {"format": "png"}}]}}]},
        {"content": [{"reasoningContent": {"reasoningText": {"text": "x"}}}]},
        {"role": "assistant", "content": "a", "reasoning_content": "x"},
        {"role": "user", "content": "a", "images": ["x"]},
        {"type": "reasoning", "summary": []}, {"type": "reasoning", "encrypted_content": "x"},
        {"type": "item_reference", "id": "x"}, {"type": "computer_call_output", "output": {}},
        {"type": ["message"]}, {"content": 5}, {"content": [5]}, 5, None, [],
        {"parts": [{"inlineData": {"data": "x"}}]}, {"parts": [{"text": "a", "thought": True}]},
        {"parts": [{"functionCall": {}, "thoughtSignature": "x"}]},
        {"type": "thought", "signature": "x"}, {"type": "image", "uri": "x"},
        {"type": "user_input", "content": [{"type": "video", "uri": "https://v.example"}]},
        {"type": "function_result", "name": "f", "result": [{"type": "image", "data": "x"}]},
        {"type": "google_search_call", "id": "s"},
    ],
)  # fmt: skip
def test_reasoning_images_audio_documents_and_what_is_unknown_are_not(message: object) -> None:
    assert not is_plain(message)


@pytest.mark.parametrize(
    ("request_", "edited"),
    [
        ({"previous_interaction_id": "i"}, True), ({"continuation_token": "t"}, True),
        ({"previous_response_id": "r"}, True), ({"previous_response_id": None}, False),
        ({"context_management": {"edits": []}}, True), ({"truncation": "auto"}, True),
        ({"truncation": "disabled"}, False), ({"transforms": ["middle-out"]}, True),
        ({"transforms": []}, False), ({"cachedContent": "c"}, True), ({"prompt": "text"}, False),
        ({"prompt": {"id": "p"}}, True), ({"context": [1, 2]}, True), ({}, False),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, False),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, True),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"},
                                           {"type": "compact_20260112"}]}}, True),
        ({"context_management": {"edits": [{}]}}, True), ({"context_management": [3]}, True),
        ({"context_management": {"edits": [1]}}, True),
    ],
)  # fmt: skip
def test_a_server_may_be_asked_to_change_the_conversation(
    request_: dict[str, Any], *, edited: bool
) -> None:
    assert is_edited(request_) is edited


def test_tools_may_be_read_only_once_they_are_searched_for() -> None:
    plain = {"name": "bash", "description": "Run a command."}
    for tools, defers in (
        ([plain], False),
        ([plain, {**plain, "defer_loading": True}], True),
        ([plain, {**plain, "defer_loading": False}], False),
        ([{"type": "tool_search_tool_regex_20251119", "name": "find"}, plain], True),
        ([{"type": "openrouter:tool_search"}, plain], True),
        ([{"type": "namespace", "name": "crm", "tools": [plain]}, {"type": "tool_search"}], True),
        (["bash", None], False),
        ("bash", False),
    ):
        assert defers_tools({"tools": tools}) is defers, tools
    assert not defers_tools({})


def test_a_conversation_begins_while_nobody_has_answered() -> None:
    assert is_unanswered([{"role": "system"}, {"role": "user"}, {"content": "a"}, "a"])
    for role in ("assistant", "model", "tool", ["user"], 5):
        assert not is_unanswered([{"role": "user"}, {"role": role}])


@given(ANY)
def test_nothing_of_any_shape_raises(value: Any) -> None:
    for request in (value, {"messages": [value], "system": value, "tools": value},
                    {"request": value}, {"contents": value, "toolConfig": value}):  # fmt: skip
        if isinstance(request, dict):
            inner = unwrapped(request)
            for message in messages_of(inner) or ():
                hash(sample(message))
                is_plain(message)
            is_unanswered(messages_of(inner) or ())
            hash(opening(inner))
            is_edited(inner)
