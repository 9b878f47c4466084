"""The meanings of a subject and a predicate in one clause: an ordered table, ``meanings.toml``.

Rows of a lower rank are tried over every clause before those of the next: money first, since it
outranks whatever else a sentence says; what names its object next; general words, then vague ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from classifier.tables import (
    ANY_STATUS,
    Read,
    Schema,
    Statuses,
    fields,
    flag,
    listed,
    needed,
    shipped,
    statuses,
    subcategory,
    text,
    word_set,
)
from classifier.verdicts import Subcategory

FILE: Final = "meanings.toml"
RANKS: Final = ("money", "specific", "general", "vague")
"""The tables of the file, in the order in which they are tried."""

_NO_TERMS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One row: any of the subjects with any of the predicates gives a cause.

    Without subjects a predicate says it alone.

    ``beside`` are terms of which one must occur anywhere in the message, ``without`` terms of
    which none may. ``on`` are the statuses it may come with (None: inside a 200 that states none);
    a file may give those that it may not come with, ``not_on``.
    ``within`` is how many words may stand between them. ``direct``: a subject behind a
    preposition does not count; ``nearest``: nor one that another subject is closer than. ``also``
    are predicates of which the same clause must hold one more.
    ``any_status_named``: a name says it whatever the status is, a sentence only with ``on``;
    ``said_only``: a name does not say it.
    """

    rank: str
    gives: Subcategory
    predicates: frozenset[str]
    subjects: frozenset[str] = _NO_TERMS
    reason: str | None = None
    beside: frozenset[str] = _NO_TERMS
    without: frozenset[str] = _NO_TERMS
    on: Statuses | None = None
    within: int = 7
    direct: bool = False
    nearest: bool = False
    also: frozenset[str] = _NO_TERMS
    any_status_named: bool = False
    said_only: bool = False


def _distance(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of words")
    return value


_SCHEMA: Final[Schema] = {
    "subjects": word_set,
    "predicates": word_set,
    "cause": subcategory,
    "reason": text,
    "also": word_set,
    "beside": word_set,
    "without": word_set,
    "within": _distance,
    "direct": flag,
    "nearest": flag,
    "any_status_named": flag,
    "said_only": flag,
    "on": statuses,
    "not_on": statuses,
}


def read_meanings(read: Read = shipped) -> Iterator[Meaning]:
    """Read the rows in the order in which they are tried.

    Raises:
        ValueError: a row is not valid; one sentence with its file, rank, number and key.
    """
    try:
        ranks = fields(read(FILE), dict.fromkeys(RANKS, listed))
        needed(ranks, *RANKS)
    except ValueError as error:
        raise ValueError(f"{FILE}: {error}") from None
    for rank in RANKS:
        for number, row in enumerate(ranks[rank], start=1):
            try:
                yield _meaning(rank, fields(row, _SCHEMA))
            except ValueError as error:
                raise ValueError(f"{FILE}: {rank}: row {number}: {error}") from None


def _meaning(rank: str, values: dict[str, Any]) -> Meaning:
    needed(values, "predicates", "cause")
    if (elsewhere := values.pop("not_on", None)) is not None:
        values["on"] = ANY_STATUS - elsewhere
    return Meaning(rank=rank, gives=values.pop("cause"), **values)


@cache
def meanings() -> tuple[Meaning, ...]:
    """Return the rows in the order in which they are tried, read when they are first needed."""
    return tuple(read_meanings())
