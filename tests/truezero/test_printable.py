"""What comes from agents, providers and archives, as it is shown on a terminal."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from classifier import verdicts
from truezero.printable import plural, visible, visible_lines

ROOT = Path(__file__).parents[2]


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


def test_a_count_stands_with_its_noun() -> None:
    assert [plural(n, "call") for n in (0, 1, 1234)] == ["0 calls", "1 call", "1,234 calls"]
    assert [plural(n, "batch", "batches") for n in (1, 2)] == ["1 batch", "2 batches"]
    assert all(plural(n, "call") == verdicts.plural(n, "call") for n in (0, 1, 2, 1234))


# Limits, ratios that a harness reads, and counts that are two at least.
_NEVER_ONE = re.compile(
    r"(?:LIMIT|MAX|MOST|_BYTES|bytes|\.limit|LINK_LIFE_S // 60)\}"
    r"|/\{verdict\.total_requests\} requests"
    r"|on \{len\(counts\.failures\)\} of "  # the policy seed speaks as the first release did
    r"|\{decoder\.ratio:\.0f\} times|\{:\.1f\} tokens a second"
    r"|\{repeated\} times|\{policy\.max_retries\} retries|\{(?:zeros|len\(runs\))\} "
)
_COUNTED = re.compile(
    r"\{[^{}\"]*\}(?:\[/\w+\]|</\w+>)?\}? (?:more |failed |other )?(?:answer|attempt|batch|breaker|"
    r"call|character|connection|core|exchange|fault|file|group|key|line|measurement|model|outcome|process|"
    r"record|repeat|repetition|request|result|retr|rollout|row|run|sample|task|time|token|trace|trial|"
    r"upstream|verdict|worker|zero)(?:s|es|ies)\b(?!/s| the )|%d [a-z]+s\b"
)


def test_no_sentence_says_1_calls() -> None:
    """Whatever is counted goes through `plural`, in code and on pages."""
    files = [
        file for part in ("classifier", "proxy", "truezero") for file in (ROOT / part).rglob("*")
    ]
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        if file.suffix in (".py", ".html") and "relay/faults" not in str(file)
        for line in file.read_text("utf-8").splitlines()
        for said in [_COUNTED.search(line)]
        if said and "plural(" not in said[0] and not _NEVER_ONE.search(line)
    ]
    assert found == []
