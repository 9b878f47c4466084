"""The meanings of providers' errors: one ordered table of facts, first match wins.

The facts are data, in ``classifier/data/causes``; ``classifier.causes`` applies them. Phrases are
whole clauses of a provider's own sentence, never single words.

The order inside the table is the order of evidence: names that a provider defined (codes,
types, Google reasons and quota ids, AWS exceptions), then phrases of its own message, then
the broad type names that several failures share, then the status. Broad names stand after
phrases because providers reuse them: Anthropic's ``invalid_request_error`` is a malformed
request, an empty account and a reached spend limit; only its message tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from classifier.cause_rows import SHIPPED, CauseRow, RowSchema, read_rows
from classifier.records import Ending, Flaw
from classifier.tables import Read, fields, listed, shipped, text

UNNAMED: Final = "in_band.unnamed"
"""The row of an error inside a 200 that nothing explains."""

_TEXTUAL: Final = ("code", "type", "words", "param", "pattern", "reason_pattern")
# What a row has to go by, by its file.
_CONDITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "codes.toml": _TEXTUAL,
    "sentences.toml": _TEXTUAL,
    "broad.toml": _TEXTUAL,
    "statuses.toml": ("on",),
    "endings.toml": (),
}
_ENDINGS: Final = {
    Ending.CUT_UPSTREAM: "ending.cut",
    Ending.TIMED_OUT: "ending.timed_out",
    Ending.NEVER_CONNECTED: "ending.never_connected",
    Ending.LEFT_BY_AGENT: "ending.stalled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRows:
    """The shipped rows, in the order in which they are tried.

    ``codes`` and ``sentences`` go before the grammar, ``broad`` and ``statuses`` after it. Of calls
    without an error, ``endings`` and ``flaws`` (of a 200) say why they failed, and ``no_answer``
    of those that broke before an answer.
    """

    codes: tuple[CauseRow, ...]
    sentences: tuple[CauseRow, ...]
    broad: tuple[CauseRow, ...]
    statuses: tuple[CauseRow, ...]
    endings: Mapping[Ending, CauseRow]
    flaws: Mapping[Flaw, CauseRow]
    no_answer: CauseRow

    @property
    def table(self) -> tuple[CauseRow, ...]:
        """Every row that reads an error or a status, in the order in which they are tried."""
        return (*self.codes, *self.sentences, *self.broad, *self.statuses)

    @property
    def without_error(self) -> tuple[CauseRow, ...]:
        """The rows of failures without an error."""
        return (*self.endings.values(), *self.flaws.values(), self.no_answer)

    @property
    def unexplained(self) -> frozenset[str]:
        """The ids of rows for which only a status speaks, or a name that any failure may have."""
        by_status = (row.id for row in self.statuses if row.id.startswith("status."))
        any_failures = ("any.rejected_name", "any.not_found_name", "any.program_error")
        return frozenset((*by_status, UNNAMED, *any_failures))


def read_known_rows(read: Read = shipped) -> KnownRows:
    """Read the shipped rows.

    Arguments:
        read: reads a file of ``classifier/data`` by its name.

    Raises:
        ValueError: a row is not valid; one sentence with its file, number, name and key.
    """
    families = _families(read)
    files = {file: _rows_of(file, read, families) for file in _CONDITIONS}
    homes: dict[str, str] = {}
    for file, rows in files.items():
        for row in rows:
            if (home := homes.setdefault(row.id, file)) != file:
                raise ValueError(f"causes/{file}: name: {row.id!r} is the name of a row in {home}")
    last = {row.id: row for row in files["endings.toml"]}
    return KnownRows(
        codes=files["codes.toml"],
        sentences=files["sentences.toml"],
        broad=files["broad.toml"],
        statuses=files["statuses.toml"],
        endings={ending: last[name] for ending, name in _ENDINGS.items()},
        flaws={flaw: last[f"flaw.{flaw.value}"] for flaw in Flaw},
        no_answer=last["ending.no_answer"],
    )


def _families(read: Read) -> Mapping[str, frozenset[str]]:
    """Read the names by which an upstream of one provider goes."""
    file = "causes/upstreams.toml"
    try:
        table = read(file)
        return fields(
            table, dict.fromkeys(table, lambda names: frozenset(map(text, listed(names))))
        )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _rows_of(file: str, read: Read, families: Mapping[str, frozenset[str]]) -> tuple[CauseRow, ...]:
    schema = RowSchema(fields=SHIPPED, conditions=_CONDITIONS[file])
    try:
        rows = read_rows(fields(read(f"causes/{file}"), {"causes": listed})["causes"], schema)
    except ValueError as error:
        raise ValueError(f"causes/{file}: {error}") from None
    return tuple(
        replace(row, upstreams=frozenset(n for u in row.upstreams for n in families.get(u, [u])))
        for row in rows
    )


@cache
def known_rows() -> KnownRows:
    """Return the shipped rows, read when they are first needed."""
    return read_known_rows()
