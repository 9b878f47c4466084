"""The schema's history, applied by Alembic.

`versions/` holds one file per step; nothing else changes a table.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from proxy.store.locks import Lock, hold

HEAD = "0002"  # a test compares it with the newest file of versions/


def current(connection: Connection) -> str | None:
    """The schema version a database stands at, or None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def upgrade(connection: Connection) -> tuple[str | None, str | None]:
    """Apply what is missing, in one transaction; returns the versions before and now.

    Arguments:
        connection: outside any transaction; committed on return.
    """
    with connection.begin():
        hold(connection, Lock.SCHEMA)
        before = current(connection)
        if before == HEAD:
            return before, before
        # Imported here: a start on a database that is up to date does without Alembic.
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return before, current(connection)
