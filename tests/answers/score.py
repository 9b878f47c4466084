"""Score a judge on the labelled answers: ``python score.py < CAUSES``.

CAUSES are JSON lines, one for each answer, in the order of ``python score.py --answers``: ``cause``
(null where nothing failed) and ``transient``. It needs nothing but Python, and reads the ``.jsonl``
files that lie beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

TRANSIENT = frozenset(("rate_limit", "provider_error"))  # where a row does not say it
ASKED = ("url", "upstream", "status", "headers", "body")  # the rest of a row is its label

Row = Mapping[str, Any]


def rows(folder: Path) -> dict[str, list[Row]]:
    """Read the labelled answers, by the name of their file."""
    return {
        file.stem: [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
        for file in sorted(folder.glob("*.jsonl"))
    }


def unlabelled(row: Row) -> Row:
    return {name: row[name] for name in ASKED if name in row}


def transient(row: Row) -> bool:
    return bool(row.get("transient", row["cause"] in TRANSIENT))


def table(by_file: Mapping[str, Sequence[Row]], causes: Iterable[Row]) -> list[str]:
    """Compare what a judge says with the labels, file by file.

    Raises:
        ValueError: there are more or fewer causes than answers.
    """
    said = iter(causes)
    lines = [f"{'':<12} answers   cause  transient  missed  misread"]
    total = [0] * 5
    for name, answers in by_file.items():
        counts = [0] * 5
        for row in answers:
            got = next(said, None)
            if got is None:
                raise ValueError("fewer causes than answers")
            failed, told = row["cause"] is not None, got.get("cause") is not None
            right = got.get("cause") == row["cause"]
            also = bool(got.get("transient")) == transient(row)
            each = (1, right, also, failed and not told, told and not failed)
            counts = [a + b for a, b in zip(counts, each, strict=True)]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        lines.append(_line(name, counts))
    if next(said, None) is not None:
        raise ValueError("more causes than answers")
    return [*lines, _line("all", total)]


def _line(name: str, counts: Sequence[int]) -> str:
    answers, right, also, missed, misread = counts
    return (
        f"{name:<12} {answers:>7} {100 * right / answers:>5.1f} % {100 * also / answers:>8.1f} %"
        f" {missed:>7} {misread:>8}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answers", action="store_true", help="print the answers, unlabelled")
    chosen = parser.parse_args(arguments)
    by_file = rows(Path(__file__).parent)
    if chosen.answers:
        lines = [json.dumps(unlabelled(row)) for each in by_file.values() for row in each]
    else:
        lines = table(by_file, (json.loads(line) for line in sys.stdin if line.strip()))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
