"""Play all cells and print whether each came out right; exit with 1 where one did not."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.fairness.playing import Judged, judged
from tests.fairness.situations import SITUATIONS, cells


def table(found: list[Judged]) -> str:
    """A line for each situation: how many of its cells came out right."""
    right, played = Counter[str](), Counter[str]()
    for one in found:
        played[one.cell.situation.name] += 1
        right[one.cell.situation.name] += one.wrong is None
    names = [situation.name for situation in SITUATIONS if situation.name in played]
    return "\n".join(f"{name:40} {right[name]:4} of {played[name]}" for name in names)


def main() -> int:
    """Play the cells; with arguments, those whose names hold one of them."""
    wanted = [
        cell
        for cell in cells()
        if not sys.argv[1:] or any(part in cell.name for part in sys.argv[1:])
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = judged(wanted, Path(folder))
    wrong = [one for one in found if one.wrong is not None]
    for one in wrong:
        print(f"UNFAIR: {one.cell.name}\n        {one.wrong}")
    print(table(found))
    print(f"{len(found) - len(wrong)} of {len(found)} honest failures are no zero")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
