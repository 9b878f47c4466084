"""Errors in other languages, worded as providers, gateways and proxies of those countries do.

``language_samples.jsonl`` has them, a sentence or an answer a line, and in which ``set`` it is.
They were written before the stems of their languages, when 35 of the first 148 were told: by their
status, or by an English word. The sentences are this project's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifier.verdicts import Subcategory
from tests.tables import lines


@dataclass(frozen=True, slots=True)
class Report:
    """One sentence of an error, the status it came with (200: inside an answer), its cause."""

    language: str
    status: int
    gives: Subcategory
    message: str
    reason: str | None = None


_ROWS = lines(Path(__file__).with_suffix(".jsonl"))


def _reports(name: str) -> tuple[Report, ...]:
    return tuple(
        Report(
            row["language"],
            row["status"],
            Subcategory(row["gives"]),
            row["message"],
            row.get("reason"),
        )
        for row in _ROWS
        if row["set"] == name
    )


def _by_language(name: str, field: str) -> dict[str, tuple[Any, ...]]:
    rows = [row for row in _ROWS if row["set"] == name]
    return {
        language: tuple(row[field] for row in rows if row["language"] == language)
        for language in dict.fromkeys(row["language"] for row in rows)
    }


REPORTS = _reports("reports")
LATER = _reports("later")
"""Added after the words, each for a sentence of strangers that was misread."""

LOOKALIKES: Mapping[str, tuple[Mapping[str, object], ...]] = _by_language("lookalikes", "answer")
"""Answers of a model that speak of failures."""

ADVICE: Mapping[str, tuple[str, ...]] = _by_language("advice", "message")
"""Sentences that report nothing: advice, conditions, quotations, and that all is well."""
