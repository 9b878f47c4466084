"""PostgreSQL: exchanges by month, texts of any length, counts of 64 bits.

SQLite's tables stay as they are: its texts and counts have no bounds, its calls no months.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_WIDE = ("exchanges", "verdicts", "events")
_KEPT = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name <> 'alembic_version'
"""


def upgrade() -> None:
    """Change PostgreSQL's tables; SQLite's stay as they are."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    for table, column, kind in connection.execute(sa.text(_KEPT)).all():
        if kind == "character varying":
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text")
        elif kind == "integer" and table in _WIDE:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE bigint")
    op.execute("ALTER SEQUENCE events_id_seq AS bigint")
    for statement in _partitioned():
        op.execute(statement)


def _partitioned() -> Iterator[str]:
    yield "ALTER TABLE exchanges RENAME TO exchanges_whole"
    yield "ALTER INDEX exchanges_pkey RENAME TO exchanges_whole_pkey"
    yield "ALTER INDEX exchanges_started RENAME TO exchanges_whole_started"
    yield (
        "CREATE TABLE exchanges (LIKE exchanges_whole INCLUDING DEFAULTS)"
        " PARTITION BY RANGE (started_at)"
    )
    yield "ALTER TABLE exchanges ADD PRIMARY KEY (rollout_id, id, started_at)"
    yield "CREATE INDEX exchanges_started ON exchanges (started_at)"
    yield "CREATE TABLE exchanges_else PARTITION OF exchanges DEFAULT"
    yield "INSERT INTO exchanges SELECT * FROM exchanges_whole"
    yield "DROP TABLE exchanges_whole"
