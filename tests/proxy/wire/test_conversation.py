from __future__ import annotations

from pathlib import Path
from typing import Any

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
from tests.tables import each, lines

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


@each("row", lines(Path(__file__).with_name("conversations.jsonl")), ids=str)
def test_messages_samples_openings_and_what_is_plain_are_as_written(row: dict[str, Any]) -> None:
    match row:
        case {"messages": messages, "request": request}:
            told = messages_of(request)
            assert (told and list(told)) == messages
        case {"samples": [one, other], "equal": equal}:
            assert (sample(one) == sample(other)) is equal
        case {"openings": [one, other], "equal": equal}:
            assert (opening(one) == opening(other)) is equal
        case {"message": message, "plain": plain}:
            assert is_plain(message) is plain
        case {"request": request, "edited": edited}:
            assert is_edited(request) is edited
        case _:
            raise AssertionError(row)


def test_a_wrapped_request_has_them_inside() -> None:
    inner = {"contents": ["a"]}
    assert unwrapped({"model": "g", "request": inner}) is inner
    others: list[dict[str, Any]] = [{"request": "x", "messages": []}, {"request": {"messages": []}}]
    for other in others:
        assert unwrapped(other) is other


# -- samples -------------------------------------------------------------------------------


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
