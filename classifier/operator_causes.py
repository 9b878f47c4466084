"""The operator's own rows on what errors mean, `[[causes]]`, which go before the cause table.

A row renames a failure that the table found. It never makes a failure of an answer.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from classifier.cause_rows import OPERATORS, CauseRow, RowSchema, read_rows
from classifier.cause_table import known_rows
from classifier.causes import classify, failed_status, names_of, storable, wait_of
from classifier.grammar import own_words
from classifier.grammar.meanings import meanings
from classifier.records import Cause, Exchange, FailureEvidence, ProviderError
from classifier.verdicts import Subcategory

PREFIX: Final = "operator:"
"""What the `rule` of an operator's row begins with; no row of the table's does."""

_TABLES: Final = 200  # rows
_OF_PROXY: Final = "proxy."  # what the rules of the proxy's own refusals begin with


# --- rows --------------------------------------------------------------------------------------


class OperatorCauses:
    """The operator's rows before the cause table.

    Arguments:
        rows: tried in their order, the first that matches holds.
    """

    def __init__(self, rows: Sequence[CauseRow]) -> None:
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
        lowered = frozenset(name.lower() for name in names)
        status = failed_status(answer.status, error.status)
        own = cache(lambda: None if error.message is None else own_words(error.message))
        for row in self.rows:
            if row.matches(answer, lowered, status, own):
                return _cause(row, cause, names, wait_of(answer, error))
        return cause

    def recorded(self, exchange: Exchange) -> Exchange:
        """Return a recorded call with the cause that the rows give it now.

        Of an error, status and one name are on record, no sentence and no second name. So a row by
        words, or by code and type, holds for a call that it explained when that call ended.
        """
        cause = exchange.cause
        if cause is None or cause.rule.startswith(_OF_PROXY) or cause.rule in _without_error():
            return exchange
        for row in self.rows:
            if _matches_recorded(row, exchange, cause):
                waits = row.transient or row.gives is Subcategory.QUOTA
                named = Cause(
                    subcategory=row.gives,
                    transient=row.transient,
                    rule=row.id,
                    reason=row.reason,
                    code=cause.code,
                    retry_after_s=cause.retry_after_s if waits else None,
                )
                return exchange if named == cause else replace(exchange, cause=named)
        return exchange


@cache
def _without_error() -> frozenset[str]:
    """Return the rules of causes without an error, to which rows do not apply."""
    return frozenset(row.id for row in known_rows().without_error)


def _matches_recorded(row: CauseRow, exchange: Exchange, cause: Cause) -> bool:
    if not row.concerns(exchange.upstream, exchange.status):
        return False
    if row.words or (row.codes and row.types):
        return cause.rule == row.id
    named = row.codes or row.types
    return not named or (cause.code is not None and cause.code.lower() in named)


def _cause(row: CauseRow, cause: Cause, names: Sequence[str], wait_s: float | None) -> Cause:
    matched = next((name for name in names if name.lower() in row.codes | row.types), None)
    waits = row.transient or row.gives is Subcategory.QUOTA
    return Cause(
        subcategory=row.gives,
        transient=row.transient,
        rule=row.id,
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


def operator_rows(tables: object) -> tuple[CauseRow, ...]:
    """Read `[[causes]]`, as TOML gives them.

    A rejection that the operator explains has a reason, so that it is explained.

    Raises:
        ValueError: a row is not valid; one sentence with its number and key.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise ValueError("must be tables of truezero.toml: [[causes]]")
    if len(tables) > _TABLES:
        raise ValueError(f"there are more rows than {_TABLES}")
    return tuple(
        replace(
            row,
            id=PREFIX + row.id,
            reason=row.reason
            or (_EXPLAINED if row.gives is Subcategory.REJECTED_REQUEST else None),
        )
        for row in read_rows(tables, _SCHEMA)
    )


@cache
def known_reasons() -> Mapping[Subcategory, frozenset[str]]:
    """Return the reasons that the table knows, by what they are reasons of."""
    reasons: defaultdict[Subcategory, set[str]] = defaultdict(set)
    known = known_rows()
    pairs = [(row.gives, row.reason) for row in (*known.table, *known.without_error)]
    for gives, reason in (*pairs, *((each.gives, each.reason) for each in meanings())):
        if reason is not None:
            reasons[gives].add(reason)
    return {each: frozenset(reasons[each]) for each in Subcategory}


_EXPLAINED: Final = "malformed"
_SCHEMA: Final = RowSchema(
    fields=OPERATORS,
    conditions=("status", "code", "type", "words"),
    named=False,
    reasons=known_reasons,
)
