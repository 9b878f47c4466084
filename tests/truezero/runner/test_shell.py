"""Simple commands are split as a shell would; whatever is not plain is left alone."""

from __future__ import annotations

import pytest

from tests.tables import each
from truezero.runner import recognition


@each(
    "text, words",
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b c' d\\ e \"f $g\"", [["a", "b c", "d e", "f $g"]]),
        ("a && b || c; d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a >b 2>&1 <c >> d &> e f", [["a", "f"]]),
        ("a ${B} $1 x#y # z; w", [["a", "${B}", "$1", "x#y"]]),
        ("a \\\n b", [["a", "b"]]),
        ("", []),
        (" ;; ", []),
    ],
)
def test_simple_commands_are_split(text: str, words: list[list[str]]) -> None:
    found = recognition.simple_commands(text)
    assert found is not None
    assert [[word.text for word in command] for command in found] == words


@pytest.mark.parametrize(
    "text",
    [
        "a <<E",
        "a $(b)",
        "a `b`",
        'a "$(b)"',
        'a "`b`"',
        "(a)",
        "{ a; }",
        "if a; then b; fi",
        "a 'b",
    ],
)
def test_what_is_not_plain_is_none(text: str) -> None:
    assert recognition.simple_commands(text) is None


def test_a_word_ends_where_others_may_follow() -> None:
    text = "x; 'my agent' hi"
    found = recognition.simple_commands(text)
    assert found is not None
    assert text[: found[1][0].end] == "x; 'my agent'"


def test_lines_are_joined_and_here_documents_are_not_read() -> None:
    assert recognition.script_lines("a \\\n  b\n  c\n") == ["a    b", "c"]
    assert recognition.script_lines("a <<E\nb\nE\n") == []


def test_variables_that_lines_set_are_known() -> None:
    assert recognition.assigned('export A=1 \n  B="$C" x\necho D=2\n') == {"A": "1", "B": '"$C"'}
