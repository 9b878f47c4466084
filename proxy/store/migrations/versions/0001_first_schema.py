"""The first schema: rollouts, exchanges, open calls, verdicts, breakers, events, workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "breakers",
        sa.Column("batch", sa.String(length=200), nullable=False),
        sa.Column("lane", sa.String(length=300), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("batch", "lane"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("rollout_id", sa.String(length=200), nullable=True),
        sa.Column("batch", sa.String(length=200), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("events_at", ["at"], unique=False)

    op.create_table(
        "exchanges",
        sa.Column("rollout_id", sa.String(length=200), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("method", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=40), nullable=False),
        sa.Column("upstream", sa.String(length=64), nullable=False),
        sa.Column("api", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("answered_model", sa.String(length=200), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("ending", sa.String(length=20), nullable=True),
        sa.Column("streamed", sa.Boolean(), nullable=True),
        sa.Column("first_byte_s", sa.Float(), nullable=True),
        sa.Column("first_token_s", sa.Float(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_input_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("total_tokens", sa.Integer(), nullable=True),
        sa.Column("input_total", sa.Integer(), nullable=True),
        sa.Column("output_total", sa.Integer(), nullable=True),
        sa.Column("usage_source", sa.String(length=16), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("finish_reason", sa.String(length=64), nullable=True),
        sa.Column("tool_calls", sa.Integer(), nullable=True),
        sa.Column("output_seen", sa.Boolean(), nullable=True),
        sa.Column("has_tools", sa.Boolean(), nullable=True),
        sa.Column("subcategory", sa.String(length=20), nullable=True),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("transient", sa.Boolean(), nullable=True),
        sa.Column("rule", sa.String(length=64), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("retry_after_s", sa.Float(), nullable=True),
        sa.Column("provider_request_id", sa.String(length=128), nullable=True),
        sa.Column("request_bytes", sa.Integer(), nullable=False),
        sa.Column("response_bytes", sa.Integer(), nullable=False),
        sa.Column("request_digest", sa.String(length=32), nullable=True),
        sa.Column("sdk_retry", sa.Integer(), nullable=True),
        sa.Column("attribution_source", sa.String(length=20), nullable=False),
        sa.Column("key_digest", sa.String(length=16), nullable=True),
        sa.Column("injected", sa.Boolean(), nullable=False),
        sa.Column("deaf", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("rollout_id", "id"),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("exchanges", schema=None) as batch_op:
        batch_op.create_index("exchanges_started", ["started_at"], unique=False)

    op.create_table(
        "open_calls",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("rollout_id", sa.String(length=200), nullable=False),
        sa.Column("worker", sa.String(length=32), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("method", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=40), nullable=False),
        sa.Column("upstream", sa.String(length=64), nullable=False),
        sa.Column("api", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("attribution_source", sa.String(length=20), nullable=False),
        sa.Column("key_digest", sa.String(length=16), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("open_calls", schema=None) as batch_op:
        batch_op.create_index("open_calls_rollout", ["rollout_id"], unique=False)
        batch_op.create_index("open_calls_worker", ["worker"], unique=False)

    op.create_table(
        "rollouts",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("batch", sa.String(length=200), nullable=True),
        sa.Column("task", sa.String(length=200), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("upstream", sa.String(length=64), nullable=True),
        sa.Column("usage_channel", sa.String(length=8), server_default="proxy", nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("registered", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("gaps", sa.Integer(), server_default="0", nullable=False),
        sa.Column("skipped", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("outcome_at", sa.Float(), nullable=True),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("fault_calls", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("rollouts", schema=None) as batch_op:
        batch_op.create_index("rollouts_batch", ["batch", "created_at", "id"], unique=False)
        batch_op.create_index("rollouts_created", ["created_at", "id"], unique=False)
        batch_op.create_index(
            "rollouts_drilled",
            ["id"],
            unique=False,
            sqlite_where=sa.text("fault IS NOT NULL"),
            postgresql_where=sa.text("fault IS NOT NULL"),
        )
        batch_op.create_index("rollouts_task", ["task", "created_at", "id"], unique=False)

    op.create_table(
        "server",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "verdicts",
        sa.Column("rollout_id", sa.String(length=200), nullable=False),
        sa.Column("batch", sa.String(length=200), nullable=True),
        sa.Column("health", sa.String(length=24), nullable=False),
        sa.Column("subcategory", sa.String(length=20), nullable=True),
        sa.Column("fingerprint", sa.String(length=80), nullable=True),
        sa.Column("cause", sa.String(length=200), nullable=True),
        sa.Column("lane", sa.String(length=300), nullable=True),
        sa.Column("provisional", sa.Boolean(), nullable=False),
        sa.Column("scoreable", sa.String(length=8), nullable=False),
        sa.Column("reward", sa.Float(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("total_tokens", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("price_table", sa.String(length=40), nullable=True),
        sa.Column("given_at", sa.Float(), nullable=False),
        sa.Column("calls", sa.Integer(), server_default="0", nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("rollout_id"),
    )
    with op.batch_alter_table("verdicts", schema=None) as batch_op:
        batch_op.create_index("verdicts_batch", ["batch", "health"], unique=False)
        batch_op.create_index("verdicts_fingerprint", ["fingerprint"], unique=False)

    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
