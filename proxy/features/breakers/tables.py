"""The table of breakers."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from proxy.store.tables import Archived, metadata, text_of

breakers = Table(
    "breakers",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("lane", text_of(300), primary_key=True),
    Column("state", Text, nullable=False),  # JSON of classifier.breakers.BreakerState
    sqlite_with_rowid=False,
    info={"archived": Archived("breaker", json=("state",))},
)
