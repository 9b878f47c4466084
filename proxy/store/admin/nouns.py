"""The kinds of record an archive holds, and the tables they are stored in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Table

from proxy.store.admin import rows
from proxy.store.admin.rows import Row
from proxy.store.tables import breakers, exchanges, rollouts, verdicts

Record: TypeAlias = tuple[str, Row]  # a noun's name, and its values in the order of its columns


class RecordError(ValueError):
    """A record is invalid; the message names the field and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A kind of record: its table, and the columns that name its owner and hold JSON."""

    table: Table
    owner: str
    json: tuple[str, ...] = ()  # columns that hold JSON

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a record's fields, in their order."""
        return rows.columns_of(self.table)

    @property
    def owner_at(self) -> int:
        """Where in a row its owner stands."""
        return self.columns.index(self.owner)


# In the order in which a rollout's records stand; breakers belong to batches and come last.
NOUNS: Mapping[str, Noun] = {
    "rollout": Noun(table=rollouts, owner="id", json=("metadata", "outcome", "fault")),
    "exchange": Noun(table=exchanges, owner="rollout_id"),
    "verdict": Noun(table=verdicts, owner="rollout_id", json=("verdict", "result")),
    "breaker": Noun(table=breakers, owner="batch", json=("state",)),
}
