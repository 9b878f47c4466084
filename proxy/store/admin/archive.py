"""A database's rollouts as records, and records back into a database: whole rollouts or none.

It carries no secret and judges nothing: what a deployment signs with stays where it is, and
so does what happened to its processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby
from operator import ne
from typing import Any, TypeAlias

from sqlalchemy import (
    Connection,
    Select,
    select,
)

from proxy.store import migrations
from proxy.store.admin import rows
from proxy.store.admin.nouns import NOUNS, Noun, Record, RecordError
from proxy.store.admin.rows import CHUNK, Row
from proxy.store.tables import (
    breakers,
    exchanges,
    lost_row,
    open_calls,
    rollouts,
)

STARTED_AT = rows.columns_of(exchanges).index("started_at")
_CONFLICTS_KEPT = 10  # further ones are counted


_OF_ROLLOUTS = ("rollout", "exchange", "verdict")
_OWNER_AT = {name: noun.owner_at for name, noun in NOUNS.items()}
_RANK = {noun: rank for rank, noun in enumerate(_OF_ROLLOUTS)}
_FACTS = frozenset(_OF_ROLLOUTS) - {"verdict"}  # from which a verdict follows


@dataclass(slots=True, kw_only=True)
class ImportResult:
    """What became of an archive's records, counted by noun."""

    added: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    refused: int = 0  # rollouts and breakers
    conflicts: list[str] = field(default_factory=list)  # the first refusals, a sentence each

    def refuse(self, sentence: str) -> None:
        """Count what is there with other facts."""
        self.refused += 1
        if len(self.conflicts) < _CONFLICTS_KEPT:
            self.conflicts.append(sentence)


# --- out of a database ---------------------------------------------------------------------


@contextmanager
def records(url: str, *, batch: str | None = None) -> Iterator[Iterator[Record]]:
    """Everything about rollouts as it stands at one moment, or all about one batch of them.

    Rollouts come by id, each followed by its exchanges by id and its verdict; then breakers.
    A call in flight comes as `lost`: whoever reads it cannot wait for its end.

    Raises:
        UnusableDatabase: the database cannot be read by this program.
    """
    with rows.reading(url) as connection:
        yield _records(connection, batch)


def _records(connection: Connection, batch: str | None) -> Iterator[Record]:
    mine = None if batch is None else select(rollouts.c.id).where(rollouts.c.batch == batch)
    yield from _about_rollouts(connection, mine)
    query = _in_order(connection, NOUNS["breaker"])
    if batch is not None:
        query = query.where(breakers.c.batch == batch)
    for row in rows.stream(connection, query):
        yield "breaker", row


def _about_rollouts(
    connection: Connection, mine: Select[Any] | Sequence[str] | None
) -> Iterator[Record]:
    found = [_ranked(connection, name, mine) for name in _OF_ROLLOUTS]
    for _owner, rank, row in merge(*found, _in_flight(connection, mine)):
        yield _OF_ROLLOUTS[rank], row


def _ranked(
    connection: Connection, name: str, mine: Select[Any] | Sequence[str] | None
) -> Iterator[tuple[str, int, Row]]:
    noun, rank = NOUNS[name], _RANK[name]
    at = noun.owner_at
    for row in rows.stream(connection, _in_order(connection, noun, mine)):
        yield row[at], rank, row


def _in_order(
    connection: Connection, noun: Noun, mine: Select[Any] | Sequence[str] | None = None
) -> Select[Any]:
    query = select(noun.table).order_by(*rows.by_key(connection, noun.table))
    return query if mine is None else query.where(noun.table.c[noun.owner].in_(mine))


def _in_flight(
    connection: Connection, mine: Select[Any] | Sequence[str] | None
) -> Iterator[tuple[str, int, Row]]:
    ended = select(exchanges.c.id).where(
        exchanges.c.rollout_id == open_calls.c.rollout_id, exchanges.c.id == open_calls.c.id
    )
    order = rows.exactly(connection, open_calls.c.rollout_id, open_calls.c.id)
    query = select(open_calls).where(~ended.exists()).order_by(*order)
    if mine is not None:
        query = query.where(open_calls.c.rollout_id.in_(mine))
    names = NOUNS["exchange"].columns
    for row in connection.execute(query).mappings():  # as many as there are calls in flight
        lost = lost_row(row)
        yield lost["rollout_id"], _RANK["exchange"], tuple(lost.get(name) for name in names)


# --- into a database -----------------------------------------------------------------------


def take(url: str, found: Iterable[Record]) -> ImportResult:
    """Add records to a database, whose schema is brought up to date first.

    A rollout is added whole or not at all. One that is there with the same facts is left as
    it is, its verdict included; one that is there with other facts is refused. Whatever
    interrupts it, the same again goes on where it was.

    Arguments:
        found: in the order of ``records``.

    Raises:
        UnusableDatabase: the database cannot be written by this program.
        RecordError: a record is out of order.
    """
    taken = ImportResult()
    heaps = _heaps(_groups(found))
    first = next(heaps, [])  # what is no archive is found out before a database is made
    with rows.writing(url) as engine:
        with engine.begin() as connection:
            migrations.refuse_unfinished(connection)
        for heap in chain([first], heaps):
            with engine.begin() as connection:
                _add(connection, heap, taken)
    return taken


Group: TypeAlias = tuple[str, list[Record]]  # an owner and all about it


def _groups(found: Iterable[Record]) -> Iterator[Group]:
    """All about one rollout or one breaker at a time."""
    before: tuple[bool, str] = (False, "")
    for owner, group in groupby(found, _owner):
        if owner < before:
            raise RecordError(f"{owner[1]!r} stands behind {before[1]!r}: records are sorted")
        before = owner
        whole = list(group)
        if whole[0][0] not in ("rollout", "breaker"):
            raise RecordError(f"{owner[1]!r}: its rollout is missing")
        yield owner[1], whole


def _owner(record: Record) -> tuple[bool, str]:
    """Whose a record is; breakers stand behind all rollouts."""
    name, row = record
    return name == "breaker", row[_OWNER_AT[name]]


def _heaps(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """As many whole groups as one commit takes."""
    heap: list[Group] = []
    size = 0
    for group in groups:
        heap.append(group)
        size += len(group[1])
        if size >= CHUNK:
            yield heap
            heap, size = [], 0
    if heap:
        yield heap


def _add(connection: Connection, heap: Sequence[Group], taken: ImportResult) -> None:
    ours = [group for group in heap if group[1][0][0] != "breaker"]
    new = [*_new_rollouts(connection, ours, taken)]
    new += [
        record for group in heap[len(ours) :] for record in _new_breakers(connection, group, taken)
    ]
    for name, noun in NOUNS.items():
        rows.insert(connection, noun.table, [row for kind, row in new if kind == name])
    taken.added.update(name for name, _ in new)


def _new_rollouts(
    connection: Connection, groups: Sequence[Group], taken: ImportResult
) -> Iterator[Record]:
    ids = [owner for owner, _ in groups]
    found = _about_rollouts(connection, ids) if ids else ()
    there = {owner: list(group) for (_, owner), group in groupby(found, _owner)}
    for owner, group in groups:
        known = there.get(owner)
        if known is None:
            yield from group
        elif _facts(known) == _facts(group):
            taken.there.update(name for name, _ in group)
        else:
            differs = _difference(_facts(group), _facts(known))
            taken.refuse(f"rollout {owner!r} is there with other facts ({differs})")


def _facts(group: Iterable[Record]) -> list[tuple[str, Row]]:
    return [(name, tuple(row)) for name, row in group if name in _FACTS]


def _difference(mine: Sequence[Record], theirs: Sequence[Record]) -> str:
    if len(mine) != len(theirs):
        return f"{len(theirs) - 1} exchanges, {len(mine) - 1} here"
    (name, row), (_, known) = next(pair for pair in zip(mine, theirs, strict=True) if ne(*pair))
    fields = zip(NOUNS[name].columns, row, known, strict=True)
    return f"{name}: {next(field for field, value, other in fields if value != other)}"


def _new_breakers(connection: Connection, group: Group, taken: ImportResult) -> Iterator[Record]:
    query = select(breakers).where(breakers.c.batch == group[0])
    there = {(row[0], row[1]): tuple(row) for row in connection.execute(query)}
    for name, row in group[1]:
        known = there.get((row[0], row[1]))
        if known is None:
            yield name, row
        elif known == tuple(row):
            taken.there[name] += 1
        else:
            taken.refuse(f"the breaker of {row[0]!r} on {row[1]!r} is there in another state")


# --- what a record may be ------------------------------------------------------------------
