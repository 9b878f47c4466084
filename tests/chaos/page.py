"""The board as the table of docs/measurements/faults.md; the page's prose stays as it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

PAGE = Path(__file__).parent.parent.parent / "docs" / "measurements" / "faults.md"
_MARKED = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- /measured -->)", re.DOTALL)
_HEAD = (
    "| faults | times | what the wire shows | verdict | notes |",
    "|---|--:|---|---|---|",
)


class Driven(Protocol):
    """What a line needs of a fault."""

    @property
    def name(self) -> str: ...
    @property
    def fired(self) -> int: ...
    @property
    def shown(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def silent(self) -> bool: ...


def table(faults: Sequence[Driven]) -> str:
    """Return one line for all faults that ended alike, in the order of the first of each."""
    alike: dict[str, list[str]] = {}
    for fault in faults:
        alike.setdefault(_cells(fault), []).append(fault.name)
    return "\n".join((*_HEAD, *(f"| {', '.join(names)} {end}" for end, names in alike.items())))


def _cells(fault: Driven) -> str:
    notes = ", ".join(fault.notes) or ("**none**" if fault.silent else "–")
    return f"| {fault.fired} | {fault.shown} | {fault.verdict} | {notes} |"


def summary(faults: Sequence[Driven]) -> str:
    """The figures in one sentence."""
    fired = sum(bool(fault.fired) for fault in faults)
    silent = sum(fault.silent for fault in faults)
    return f"Of {len(faults)} faults {fired} fired; {silent} of them left no note."


def rewritten(text: str, faults: Sequence[Driven]) -> str:
    """The page with this table in the place of the one before.

    Raises:
        ValueError: the page has no place for it.
    """
    written = f"{summary(faults)}\n\n{table(faults)}\n"
    new, places = _MARKED.subn(lambda _: written, text)
    if places != 1:
        raise ValueError("the page has no place marked for the table")
    return new
