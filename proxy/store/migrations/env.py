"""Alembic's environment: runs migrations on the connection in its configuration."""

from __future__ import annotations

from alembic import context

from proxy.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
