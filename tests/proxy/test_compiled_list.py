"""The list of what covers the compiled modules names tests that there are."""

from __future__ import annotations

from pathlib import Path

LIST = Path(__file__).with_name("compiled.txt")
ROOT = LIST.parents[2]


def test_each_listed_test_is_there() -> None:
    listed = LIST.read_text().split()
    gone = [
        name
        for name in listed
        if f"def {name.partition('::')[2]}(" not in (ROOT / name.partition("::")[0]).read_text()
    ]
    assert listed == sorted(set(listed))
    assert gone == []
