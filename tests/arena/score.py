"""Scores of an arena: what came out right by family, and what is known to be wrong.

docs/measurements/attribution.md has both. A family may not score less than what that page leaves
it: its size without the cells that the page lists as wrong.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PAGE = Path(__file__).parent.parent.parent / "docs" / "measurements" / "attribution.md"
_SEED = 37
_LISTED = "- wrong: "

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What came of one cell or trick; ``wrong`` None: what must."""

    family: str
    name: str
    wrong: str | None


def drawn(everything: Iterable[T], family: Callable[[T], str], *, one_of: int) -> list[T]:
    """Draw a part of each family, at least one of it: the same at each call."""
    families: dict[str, list[T]] = {}
    for one in everything:
        families.setdefault(family(one), []).append(one)
    chance = random.Random(_SEED)
    return [
        one
        for members in families.values()
        for one in chance.sample(members, -(-len(members) // one_of))
    ]


def table(scores: Sequence[Score]) -> str:
    """A line for each family: right of all, in Markdown."""
    right, played = _right(scores), Counter(one.family for one in scores)
    lines = [f"| {name} | {right[name]} | {count} |" for name, count in played.items()]
    total = f"| **all** | **{sum(right.values())}** | **{len(scores)}** |"
    return "\n".join(["| family | right | of |", "|---|--:|--:|", *lines, total])


def told(scores: Iterable[Score]) -> str:
    """Two lines for each that is wrong: its name, and what came out."""
    return "\n".join(f"WRONG: {one.name}\n       {one.wrong}" for one in scores if one.wrong)


def below(scores: Sequence[Score], known: frozenset[str]) -> list[str]:
    """Say which families score less than the cells that are not known to be wrong."""
    right = _right(scores)
    floor = Counter(one.family for one in scores if one.name not in known)
    return [
        f"{family}: {right[family]} right, at least {least} must be"
        for family, least in floor.items()
        if right[family] < least
    ]


def wrong_anew(
    part: Sequence[T],
    play: Callable[[Sequence[T], Path], Sequence[Score]],
    known: frozenset[str],
    home: Path,
) -> list[Score]:
    """Play a part; what came out wrong, is not known to, and does again when played by itself.

    A machine that is busy with other tests may be too slow for the moment that a cell is about.
    """
    found: list[Score] = []
    for name in ("together", "alone"):
        folder = home / name
        folder.mkdir()
        scores = play(part, folder)
        wrong = [one.wrong is not None and one.name not in known for one in scores]
        found = [one for one, anew in zip(scores, wrong, strict=True) if anew]
        part = [one for one, anew in zip(part, wrong, strict=True) if anew]
        if not part:
            break
    return found


def _right(scores: Iterable[Score]) -> Counter[str]:
    return Counter(one.family for one in scores if one.wrong is None)


# --- the page ------------------------------------------------------------------------------


def known_wrong(page: str, section: str) -> frozenset[str]:
    """The names that a section of the page lists as wrong."""
    lines = _parts(page, section)[1].splitlines()
    return frozenset(line.removeprefix(_LISTED) for line in lines if line.startswith(_LISTED))


def written(page: str, section: str, scores: Sequence[Score]) -> str:
    """The page with a section that has these scores."""
    before, _, after = _parts(page, section)
    wrong = "".join(f"{_LISTED}{one.name}\n" for one in scores if one.wrong)
    listed = f"\n{wrong}" if wrong else ""
    return f"{before}\n{table(scores)}\n{listed}\n{after}"


def _parts(page: str, section: str) -> tuple[str, str, str]:
    """A page before a section's table, the section, and what comes after it."""
    begin, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
    before, begun, rest = page.partition(begin)
    inside, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"{PAGE.name} has no section {section}")
    return before + begun, inside, ended + after


# --- the command line ----------------------------------------------------------------------


def options(purpose: str | None) -> argparse.Namespace:
    """The words of a command line, which choose by name, and whether the page is written."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("words", nargs="*", help="play only those whose names hold one of these")
    parser.add_argument("--write", action="store_true", help=f"write all scores to {PAGE.name}")
    return parser.parse_args()


def report(section: str, scores: Sequence[Score], chosen: argparse.Namespace) -> int:
    """Print scores, write them to the page if that was asked for, and return the exit code."""
    page = PAGE.read_text("utf-8")
    fallen = below(scores, known_wrong(page, section))
    for part in (told(scores), table(scores), *(f"BELOW ITS FLOOR: {each}" for each in fallen)):
        print(part, end="\n" if part else "")
    if chosen.write and not chosen.words and not fallen:
        PAGE.write_text(written(page, section, scores), "utf-8")
    return int(bool(fallen))
