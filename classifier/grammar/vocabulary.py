"""The vocabulary of errors: subjects, what became of them (predicates), and small words.

The words stand in ``vocabulary.toml``, gathered from the pages that each ``source`` names;
alternatives are separated by ``|``. Chinese words stand beside English ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from classifier.tables import (
    Read,
    Schema,
    fields,
    flag,
    needed,
    shipped,
    table,
    text,
    texts,
    word_set,
)

FILE: Final = "vocabulary.toml"
FIELD: Final = "\x01"
"""Stands for the name of a request's field; ``<field>`` in the file."""
STATES: Final = "\x03"
"""Stands for the colon behind a field's path: "messages.2.role: …"; ``<states>`` in the file."""

_NOBODY: Final[Mapping[str, str]] = {}
_SOURCE: Final = re.compile(r"<(\w+)>")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words of English and Chinese.

    A predicate up to four words behind one of ``negations`` is denied (or, if ``negated``,
    affirmed), unless one of ``ends_negation`` stands between; ``none_of`` say of a noun that there
    is none. A clause that begins with ``advice`` tells the reader what to do, not what happened;
    from one of ``conditions`` to its end nothing is reported as having happened. ``turns`` begin a
    new clause, ``continues`` behind a comma go on with it, ``links`` join nouns. A subject behind
    one of ``prepositions`` is what the failure happened at, not what failed. What follows one of
    ``echoes`` and a colon is a copy of the request, or one of ``echoes_plain`` without a colon, to
    the end of the clause. ``plain_fields`` are fields of requests that look like plain words where
    they are quoted. ``coined`` words make ``snake_case`` in a sentence a provider's own name rather
    than a field's. ``request_fields`` are parameters of requests on any wire, with what they
    hold; ``response_fields`` belong to an answer.
    """

    subjects: tuple[Term, ...]
    predicates: tuple[Term, ...]
    negations: frozenset[str]
    none_of: frozenset[str]
    ends_negation: frozenset[str]
    advice: frozenset[str]
    conditions: frozenset[str]
    turns: frozenset[str]
    continues: frozenset[str]
    links: frozenset[str]
    prepositions: frozenset[str]
    echoes: frozenset[str]
    echoes_plain: frozenset[str]
    plain_fields: frozenset[str]
    coined: frozenset[str]
    request_fields: frozenset[str]
    response_fields: frozenset[str]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Subjects and predicates."""
        return (*self.subjects, *self.predicates)


def _phrases(value: object) -> str:
    return text(value).replace("<field>", FIELD).replace("<states>", STATES)


_TERM: Final[Schema] = {"words": _phrases, "source": text, "only": texts, "negated": flag}
_TERMS: Final = ("subjects", "predicates")
_SCHEMA: Final[Schema] = {
    **dict.fromkeys(Vocabulary.__annotations__, word_set),
    "sources": texts,
    **dict.fromkeys(_TERMS, table),
}


def read_vocabulary(read: Read = shipped) -> Vocabulary:
    """Read the words.

    Raises:
        ValueError: one sentence with the file, the term and the key of what is not valid.
    """
    try:
        values = fields(read(FILE), _SCHEMA)
        needed(values, *_SCHEMA)
        sources = values.pop("sources")
        for part in _TERMS:
            values[part] = tuple(_terms(part, values[part], sources))
    except ValueError as error:
        raise ValueError(f"{FILE}: {error}") from None
    return Vocabulary(**values)


def _terms(part: str, tables: Mapping[str, object], sources: Mapping[str, str]) -> Iterator[Term]:
    for name, term in tables.items():
        try:
            values: dict[str, Any] = fields(term, _TERM)
            needed(values, "words", "source")
            values["source"] = _spelt_out(values["source"], sources)
        except ValueError as error:
            raise ValueError(f"{part}: {name}: {error}") from None
        yield Term(id=name, **values)


def _spelt_out(source: str, sources: Mapping[str, str]) -> str:
    """Replace each ``<name>`` by what ``sources`` say that it stands for."""
    if unknown := [name for name in _SOURCE.findall(source) if name not in sources]:
        raise ValueError(f"source: <{unknown[0]}> is not in [sources]")
    return _SOURCE.sub(lambda name: sources[name[1]], source)


@cache
def vocabulary() -> Vocabulary:
    """Return the words, read when they are first needed."""
    return read_vocabulary()
