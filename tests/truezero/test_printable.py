"""What comes from agents, providers and archives, as it is shown on a terminal."""

from __future__ import annotations

import unicodedata

import pytest

from truezero.printable import visible, visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpt-5 é 漢字 😀 …–", "gpt-5 é 漢字 😀 …–"),
        ("a\x1b[2J\x1b[31mred", "a\\x1b[2J\\x1b[31mred"),
        ("fine\r\nFAKE: healthy", "fine\\x0d\\x0aFAKE: healthy"),
        ("\x9b2J\x7f\x00", "\\x9b2J\\x7f\\x00"),
        ("r\u202e1-kcab", "r\\u202e1-kcab"),
        ("a\u200bb\ufeff\u2066c\u2028", "a\\u200bb\\ufeff\\u2066c\\u2028"),
        ("\ud800 and \U000e0041", "\\ud800 and \\U000e0041"),
    ],
)
def test_what_is_not_shown_is_escaped_and_all_else_stays(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_control_and_no_bidi_character_is_left() -> None:
    bidi = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    for code in range(0x110000):
        letter = chr(code)
        if (
            unicodedata.category(letter) in ("Cc", "Cs")
            or unicodedata.bidirectional(letter) in bidi
        ):
            assert visible(letter).isascii(), hex(code)


def test_lines_stay_lines() -> None:
    assert visible_lines("one\x1b\ntwo\r") == "one\\x1b\ntwo\\x0d"
