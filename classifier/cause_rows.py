"""Rows on what the errors of providers mean: one type and one reader, whoever wrote them.

The shipped ones stand in ``classifier/data/causes`` (``cause_table``), the operator's in
``[[causes]]`` of truezero.toml (``operator_causes``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from classifier.conversation_state import PATTERNS
from classifier.grammar import own_words
from classifier.grammar.language import fold
from classifier.records import FailureEvidence, ProviderError
from classifier.tables import Schema, Statuses, fields, flag, needed, statuses, subcategory, text
from classifier.verdicts import Subcategory

T = TypeVar("T")

_NOTHING: Final = ProviderError()


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One fact about a provider: an error that it sends, and what that means.

    All conditions that are given must hold. ``codes`` are compared with every name of the error
    (code, type, reasons, a stated exception), ``types`` with its type and a stated exception,
    ``params`` with its ``param``, all in lower case. ``pattern`` is searched in its message,
    ``reason_pattern`` in its reasons. ``words`` are phrases of which one must occur in the
    provider's own words. ``statuses`` are those of the HTTP status line, ``on`` those that the
    body states where a gateway flattened it. ``source`` is where the fact is documented.
    """

    id: str
    gives: Subcategory
    transient: bool
    reason: str | None = None
    source: str = ""
    upstreams: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    on: Statuses | None = None
    codes: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    params: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    reason_pattern: re.Pattern[str] | None = None

    def concerns(self, upstream: str, status: int | None) -> bool:
        """Return True if the row is about this upstream and HTTP status."""
        return (not self.upstreams or upstream.lower() in self.upstreams) and (
            not self.statuses or status in self.statuses
        )

    def matches(
        self,
        answer: FailureEvidence,
        names: frozenset[str],
        status: int | None,
        own: Callable[[], str | None],
    ) -> bool:
        """Return True if every condition holds.

        Arguments:
            names: of the error, in lower case.
            status: the one that describes the failure.
            own: returns the provider's own words, of ``own_words``; called for rows with words.
        """
        if self.on is not None and status not in self.on:
            return False
        if self.codes and self.codes.isdisjoint(names):
            return False  # most rows end here
        return self.concerns(answer.upstream, answer.status) and self._fits(
            answer.error or _NOTHING, answer.stated_type, own
        )

    def _fits(
        self, error: ProviderError, stated_type: str | None, own: Callable[[], str | None]
    ) -> bool:
        """Return True if the conditions of the error's text hold."""
        message, patterned = error.message, self.reason_pattern
        return (
            (self.pattern is None or bool(message and self.pattern.search(message)))
            and (patterned is None or any(patterned.search(each) for each in error.reasons))
            and (not self.params or (error.param or "").lower() in self.params)
            and (not self.types or self._has_type(error.type, stated_type))
            and (not self.words or self._is_said(own()))
        )

    def _is_said(self, sentence: str | None) -> bool:
        return sentence is not None and any(_says(sentence, each) for each in self.words)

    def _has_type(self, *types: str | None) -> bool:
        return any(each is not None and each.lower() in self.types for each in types)


def _says(sentence: str, phrase: str) -> bool:
    """Return True if a phrase occurs in a sentence, not inside a longer Latin word or number."""
    at = sentence.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        before, after = sentence[at - 1 : at], sentence[end : end + 1]
        if not (_joins(before, phrase[0]) or _joins(phrase[-1], after)):
            return True
        at = sentence.find(phrase, at + 1)
    return False


def _joins(one: str, other: str) -> bool:
    return bool(one and other) and all(each.isascii() and each.isalnum() for each in one + other)


# --- schema ------------------------------------------------------------------------------------

_VALUES: Final = 20  # of one condition
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")
_NAME_CAP: Final = 200  # characters of a code or type
_PHRASE: Final = range(2, 201)  # characters of a phrase
_STATUSES: Final = range(200, 1000)
_REASON: Final = re.compile(r"[a-z][a-z_]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSchema:
    """The keys that a row may have, and those that it must have.

    ``conditions`` are keys of which one is needed, unless there are none. ``named`` rows need a
    name and a source; others are called by their number. ``reasons`` returns the reasons that may
    be given for each cause; without it any may.
    """

    fields: Schema
    conditions: tuple[str, ...]
    named: bool = True
    reasons: Callable[[], Mapping[Subcategory, frozenset[str]]] | None = None


def read_rows(tables: Sequence[object], schema: RowSchema) -> tuple[CauseRow, ...]:
    """Read rows, each of a name of its own.

    Raises:
        ValueError: a row is not valid; one sentence with its number and key.
    """
    rows: list[CauseRow] = []
    for number, table in enumerate(tables, start=1):
        try:
            row = _row(number, table, schema)
            if any(row.id == other.id for other in rows):
                raise ValueError(f"name: {row.id!r} is the name of an earlier row")
        except ValueError as error:
            called = f" ({table.get('name')})" if schema.named and isinstance(table, dict) else ""
            raise ValueError(f"row {number}{called}: {error}") from None
        rows.append(row)
    return tuple(rows)


def _row(number: int, table: object, schema: RowSchema) -> CauseRow:
    values = fields(table, schema.fields)
    if schema.conditions and not any(key in values for key in schema.conditions):
        raise ValueError(f"one of {', '.join(schema.conditions)} is needed")
    if "cause" not in values:
        raise ValueError(f"cause is needed: {', '.join(Subcategory)}")
    if schema.named:
        needed(values, "name", "source")
    gives: Subcategory = values["cause"]
    if schema.reasons is not None and "reason" in values:
        _check_reason(values["reason"], schema.reasons()[gives])
    return CauseRow(
        id=values.get("name", str(number)),
        gives=gives,
        transient=values.get("transient", gives.transient),
        reason=values.get("reason"),
        source=values.get("source", ""),
        upstreams=frozenset(values.get("upstream", ())),
        statuses=frozenset(values.get("status", ())),
        on=values.get("on"),
        codes=frozenset(values.get("code", ())),
        types=frozenset(values.get("type", ())),
        params=frozenset(values.get("param", ())),
        words=values.get("words", ()),
        pattern=values.get("pattern"),
        reason_pattern=values.get("reason_pattern"),
    )


def _check_reason(reason: object, known: frozenset[str]) -> None:
    if not isinstance(reason, str) or reason not in known:
        raise ValueError(f"reason: {reason!r} is none of {', '.join(sorted(known)) or 'any'}")


def _several(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """Read a condition: one value, or a list of which one has to fit."""

    def values(given: object) -> tuple[T, ...]:
        listed = given if isinstance(given, list) else [given]
        if not 0 < len(listed) <= _VALUES:
            raise ValueError(f"{len(listed)} values, and 1 to {_VALUES} may be given")
        return tuple(read(each) for each in listed)

    return values


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not 1 to 48 letters, digits, '_', '.' or '-'")
    return value


def _reason(value: object) -> str:
    if not isinstance(value, str) or not _REASON.fullmatch(value):
        raise ValueError(f"{value!r} is not 1 to 32 small letters or '_'")
    return value


def _upstream(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not the name of an upstream")
    return value.lower().replace("_", "-")


def _status(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _STATUSES:
        raise ValueError(f"{value!r} is not an HTTP status")
    return value


def _error_name(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_CAP:
        raise ValueError(f"{value!r} is no text of a length from 1 to {_NAME_CAP}")
    return value.lower()


def _phrase(value: object) -> str:
    if not isinstance(value, str) or len(value.strip()) not in _PHRASE:
        raise ValueError(f"{value!r} is no text of a length from {_PHRASE.start} to {_PHRASE[-1]}")
    words = own_words(value)
    if words != " ".join(fold(value).lower().split()):
        raise ValueError(f"{value!r} holds a quotation or an echo, which are never read")
    return words


def _pattern(value: object) -> re.Pattern[str]:
    """Compile a regular expression, or several of which one has to be found, in any case."""
    parts = [_named_pattern(text(each)) for each in (value if isinstance(value, list) else [value])]
    try:
        return re.compile("|".join(parts), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"does not compile: {error}") from None


def _named_pattern(expression: str) -> str:
    """Return the pattern that ``<name>`` stands for, or the expression itself."""
    if not (expression.startswith("<") and expression.endswith(">")):
        return expression
    if (pattern := PATTERNS.get(expression[1:-1])) is None:
        known = ", ".join(f"<{name}>" for name in PATTERNS)
        raise ValueError(f"{expression!r} is none of {known}")
    return pattern


OPERATORS: Final[Schema] = {
    "name": _name,
    "upstream": _several(_upstream),
    "status": _several(_status),
    "code": _several(_error_name),
    "type": _several(_error_name),
    "words": _several(_phrase),
    "cause": subcategory,
    "reason": lambda value: value,
    "transient": flag,
}
"""The keys of an operator's row; its reason is checked with its cause."""

SHIPPED: Final[Schema] = {
    **OPERATORS,
    "reason": _reason,
    "on": statuses,
    "param": _several(_error_name),
    "pattern": _pattern,
    "reason_pattern": _pattern,
    "source": text,
}
"""Those of a shipped row; an operator's has no patterns, since they can be made slow."""
