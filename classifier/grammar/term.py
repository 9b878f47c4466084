"""One entry of the grammar's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_NOBODY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Words that mean the same to the grammar.

    ``words`` are alternatives separated by ``|``; a trailing ``*`` matches any ending. ``only``
    holds what a single provider says, by provider, so that a score can leave it out. ``negated``
    marks a predicate that reports a failure only under a negation: "found" does, "exceeded"
    does not. ``source`` is where the words are documented.
    """

    id: str
    words: str
    source: str
    only: Mapping[str, str] = field(default_factory=lambda: _NOBODY)
    negated: bool = False

    def phrases(self) -> Iterator[tuple[str, ...]]:
        """Yield each alternative as a tuple of words."""
        for alternative in "|".join((self.words, *self.only.values())).split("|"):
            if words := tuple(alternative.split()):
                yield words
