"""The operator's own rows on what errors mean, `[[causes]]`, which go before the cause table.

A row renames a failure that the table found. It never makes a failure of an answer.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from classifier.cause_table import ENDINGS, FLAWS, NO_ANSWER, ROWS
from classifier.causes import classify, names_of, storable, wait_of
from classifier.grammar import MEANINGS, own_words
from classifier.grammar.language import fold
from classifier.records import Cause, Exchange, FailureEvidence, ProviderError
from classifier.verdicts import Subcategory

T = TypeVar("T")

PREFIX: Final = "operator:"
"""What the `rule` of an operator's row begins with; no row of the table's does."""

_TABLES: Final = 200  # rows
_VALUES: Final = 20  # of one condition
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")
_NAME_CAP: Final = 200  # characters of a code or type
_PHRASE: Final = range(2, 201)  # characters of a phrase
_STATUSES: Final = range(200, 1000)
_CONDITIONS: Final = ("status", "code", "type", "words")
_KEYS: Final = ("name", "upstream", *_CONDITIONS, "cause", "reason", "transient")
# Rules of causes without an error, to which rows do not apply.
_WITHOUT_ERROR: Final = frozenset(row.id for row in (*ENDINGS.values(), *FLAWS.values(), NO_ANSWER))
_OF_PROXY: Final = "proxy."  # what the rules of the proxy's own refusals begin with


# --- rows --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One of the operator's rows; all conditions that are given must hold.

    ``upstreams``, ``codes``, ``types`` and ``words`` are in lower case. ``codes`` are compared
    with every name of the error (code, type, reasons, a stated exception), ``types`` with its type
    and a stated exception, ``statuses`` with the HTTP status line. ``words`` are phrases of which
    one must occur in the provider's own sentence.
    """

    name: str
    gives: Subcategory
    reason: str | None
    transient: bool
    upstreams: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The `rule` of a call that this row explains."""
        return PREFIX + self.name

    def concerns(self, upstream: str, status: int | None) -> bool:
        """Return True if the row is about this upstream and HTTP status."""
        return (not self.upstreams or upstream.lower() in self.upstreams) and (
            not self.statuses or status in self.statuses
        )


class OperatorCauses:
    """The operator's rows before the cause table.

    Arguments:
        rows: tried in their order, the first that matches holds.
    """

    def __init__(self, rows: Sequence[OperatorRow]) -> None:
        self.rows = tuple(rows)

    def classify(self, answer: FailureEvidence, *, stall_s: float = 60.0) -> Cause | None:
        """Classify a failed call, as ``classifier.causes.classify`` does; the rows go first.

        They apply where an error was read, or the status is one of an error.
        """
        cause = classify(answer, stall_s=stall_s)
        if cause is None or (answer.error is None and (answer.status or 0) < 400):
            return cause
        error = answer.error or ProviderError()
        names = tuple(names_of(error, answer.stated_type))
        message = None if error.message is None else own_words(error.message)
        for row in self.rows:
            if _matches(row, answer, names, message):
                return _cause(row, cause, names, wait_of(answer, error))
        return cause

    def recorded(self, exchange: Exchange) -> Exchange:
        """Return a recorded call with the cause that the rows give it now.

        Of an error, status and one name are on record, no sentence and no second name. So a row by
        words, or by code and type, holds for a call that it explained when that call ended.
        """
        cause = exchange.cause
        if cause is None or cause.rule in _WITHOUT_ERROR or cause.rule.startswith(_OF_PROXY):
            return exchange
        for row in self.rows:
            if _matches_recorded(row, exchange, cause):
                waits = row.transient or row.gives is Subcategory.QUOTA
                named = Cause(
                    subcategory=row.gives,
                    transient=row.transient,
                    rule=row.rule,
                    reason=row.reason,
                    code=cause.code,
                    retry_after_s=cause.retry_after_s if waits else None,
                )
                return exchange if named == cause else replace(exchange, cause=named)
        return exchange


def _matches(
    row: OperatorRow, answer: FailureEvidence, names: Sequence[str], text: str | None
) -> bool:
    if not row.concerns(answer.upstream, answer.status):
        return False
    if row.codes and not any(name.lower() in row.codes for name in names):
        return False
    if row.types:
        types = (None if answer.error is None else answer.error.type, answer.stated_type)
        if not any(name is not None and name.lower() in row.types for name in types):
            return False
    return not row.words or (text is not None and any(_says(text, each) for each in row.words))


def _matches_recorded(row: OperatorRow, exchange: Exchange, cause: Cause) -> bool:
    if not row.concerns(exchange.upstream, exchange.status):
        return False
    if row.words or (row.codes and row.types):
        return cause.rule == row.rule
    named = row.codes or row.types
    return not named or (cause.code is not None and cause.code.lower() in named)


def _says(text: str, phrase: str) -> bool:
    """Return True if a phrase occurs in a sentence, not inside a longer Latin word or number."""
    at = text.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        if not (_joins(text[at - 1 : at], phrase[0]) or _joins(phrase[-1], text[end : end + 1])):
            return True
        at = text.find(phrase, at + 1)
    return False


def _joins(one: str, other: str) -> bool:
    return bool(one and other) and all(each.isascii() and each.isalnum() for each in one + other)


def _cause(row: OperatorRow, cause: Cause, names: Sequence[str], wait_s: float | None) -> Cause:
    matched = next((name for name in names if name.lower() in row.codes | row.types), None)
    waits = row.transient or row.gives is Subcategory.QUOTA
    return Cause(
        subcategory=row.gives,
        transient=row.transient,
        rule=row.rule,
        reason=row.reason,
        code=storable((matched, cause.code)),
        retry_after_s=wait_s if waits else None,
    )


def suggested_row(upstream: str, status: int | None, code: str | None, cause: Subcategory) -> str:
    """Write a row for failures that nothing explains, in TOML, to be completed and pasted.

    Arguments:
        cause: what they count as now.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join(filter(None, (upstream, code or str(status)))))
    lines = [
        "[[causes]]",
        f"name = {json.dumps(name[:48])}",
        f"upstream = {json.dumps(upstream)}",
        *([] if status is None else [f"status = {status}"]),
        *([] if code is None else [f"code = {json.dumps(code)}"]),
        *([] if code else ['# words = "a part of the provider\'s sentence, to be more exact"']),
        f'cause = "{cause.value}"  # as it counts now; one of {", ".join(Subcategory)}',
    ]
    return "\n".join(lines) + "\n"


# --- rows as settings --------------------------------------------------------------------------


def operator_rows(tables: object) -> tuple[OperatorRow, ...]:
    """Read `[[causes]]`, as TOML gives them.

    Raises:
        ValueError: a row is not valid; one sentence with its number and key.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise ValueError("must be tables of truezero.toml: [[causes]]")
    if len(tables) > _TABLES:
        raise ValueError(f"there are more rows than {_TABLES}")
    rows: list[OperatorRow] = []
    for number, table in enumerate(tables, start=1):
        try:
            row = _row(number, table)
            if any(row.name == other.name for other in rows):
                raise ValueError(f"name: {row.name!r} is the name of an earlier row")
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from None
        rows.append(row)
    return tuple(rows)


def _row(number: int, table: object) -> OperatorRow:
    if not isinstance(table, Mapping):
        raise ValueError("not a table")
    if unknown := [key for key in table if key not in _KEYS]:
        raise ValueError(f"unknown key {unknown[0]!r} (known: {', '.join(_KEYS)})")
    if not any(key in table for key in _CONDITIONS):
        raise ValueError(f"one of {', '.join(_CONDITIONS)} is needed")
    gives = _gives(table)
    transient = table.get("transient", gives.transient)
    if not isinstance(transient, bool):
        raise ValueError("transient: neither true nor false")
    return OperatorRow(
        name=_named(table.get("name", str(number))),
        gives=gives,
        reason=_reason(table, gives),
        transient=transient,
        upstreams=frozenset(_values(table, "upstream", _upstream)),
        statuses=frozenset(_values(table, "status", _status)),
        codes=frozenset(_values(table, "code", _error_name)),
        types=frozenset(_values(table, "type", _error_name)),
        words=tuple(_values(table, "words", _phrase)),
    )


def _gives(table: Mapping[str, object]) -> Subcategory:
    known = ", ".join(Subcategory)
    if "cause" not in table:
        raise ValueError(f"cause is needed: {known}")
    try:
        return Subcategory(str(table["cause"]))
    except ValueError:
        raise ValueError(f"cause: {table['cause']!r} is none of {known}") from None


def _reason(table: Mapping[str, object], gives: Subcategory) -> str | None:
    """Read the reason; a rejection that the operator explains has one, so that it is explained."""
    reason = table.get("reason", "malformed" if gives is Subcategory.REJECTED_REQUEST else None)
    if reason is None:
        return None
    known = REASONS[gives]
    if not isinstance(reason, str) or reason not in known:
        raise ValueError(f"reason: {reason!r} is none of {', '.join(sorted(known)) or 'any'}")
    return reason


def _known_reasons() -> Mapping[Subcategory, frozenset[str]]:
    reasons: defaultdict[Subcategory, set[str]] = defaultdict(set)
    pairs = [(row.gives, row.reason) for row in ROWS]
    for gives, reason in (*pairs, *((each.gives, each.reason) for each in MEANINGS)):
        if reason is not None:
            reasons[gives].add(reason)
    return {each: frozenset(reasons[each]) for each in Subcategory}


REASONS: Final = _known_reasons()
"""The reasons that the table knows, by what they are reasons of."""


def _named(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} is not 1 to 48 letters, digits, '_', '.' or '-'")
    return name


def _values(table: Mapping[str, object], key: str, read: Callable[[object], T]) -> Iterator[T]:
    """Read a condition: one value, or a list of which one has to fit."""
    if key not in table:
        return
    given = table[key]
    values = given if isinstance(given, list) else [given]
    if not 0 < len(values) <= _VALUES:
        raise ValueError(f"{key}: {len(values)} values, and 1 to {_VALUES} may be given")
    for value in values:
        try:
            yield read(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None


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
