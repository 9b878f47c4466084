"""Keep the evidence that a verdict stands on in one column, whatever its kinds are."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

_AT_ONCE = 1000
_BEFORE = ("neighbours", "reference_series", "unattributed_calls", "passes_tokens")

_verdicts = sa.table(
    "verdicts",
    sa.column("rollout_id", sa.Text),
    sa.column("provisional", sa.Boolean),
    sa.column("stands_on", sa.Text),
    *(sa.column(name) for name in _BEFORE),
)


def upgrade() -> None:
    """Add the column, fill it from the four before it, and drop those."""
    op.add_column("verdicts", sa.Column("stands_on", sa.Text(), nullable=True))
    connection, own = op.get_bind(), _verdicts.c.rollout_id
    known = sa.or_(*(_verdicts.c[name].is_not(None) for name in _BEFORE))
    query = sa.select(own, *(_verdicts.c[name] for name in _BEFORE)).where(known).order_by(own)
    filled = sa.update(_verdicts).where(own == sa.bindparam("of"))
    filled = filled.values(stands_on=sa.bindparam("found"))
    after = ""
    while rows := connection.execute(query.where(own > after).limit(_AT_ONCE)).all():
        connection.execute(filled, [{"of": row.rollout_id, "found": _found(row)} for row in rows])
        after = rows[-1].rollout_id
    for name in _BEFORE:
        op.drop_column("verdicts", name)


def _found(row: Any) -> str:
    neighbours, references = row.neighbours, row.reference_series
    found = {
        "neighbours": json.loads(neighbours) if neighbours else None,
        "references": json.loads(references) if references else None,
        "unattributed_calls": row.unattributed_calls or None,
        "passes_tokens": row.passes_tokens,
    }
    known = {name: each for name, each in found.items() if each is not None}
    return json.dumps(known, sort_keys=True, separators=(",", ":"))
