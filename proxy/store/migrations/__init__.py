"""Schema migrations: `versions/` holds one Alembic file per step."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    create_mock_engine,
    insert,
    inspect,
    text,
)
from sqlalchemy.engine import URL

from proxy.store import triggers
from proxy.store.connections import Lock, hold
from proxy.store.errors import UnusableDatabase, refuse_encoding
from proxy.store.tables import DERIVED, metadata

_VERSIONS = Path(__file__).parent / "versions"
HEAD = max(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*_*.py"))
"""The schema of this version: the newest migration's."""

# The table that marks a database into which 0.2 began to copy another.
_UNFINISHED = "unfinished_copy"


def is_newer(version: str) -> bool:
    """Return True for a schema that only a later version of truezero can have written."""
    return not version.isdecimal() or int(version) > int(HEAD)


def refuse_unknown(version: str) -> None:
    """Raise ``UnusableDatabase`` for a schema without a migration in this version."""
    if is_newer(version):
        raise UnusableDatabase(
            f"the database has schema {version}, but this version of truezero supports "
            f"schemas up to {HEAD}: run the version that wrote it, or a later one"
        )
    if not list(_VERSIONS.glob(f"{version}_*.py")):
        raise UnusableDatabase(
            f"the database has schema {version} of a development version that was never released, "
            "which cannot be upgraded: write an archive of it with the version that made it "
            "(`truezero export --full`), and import that into a new database"
        )


def refuse_unfinished(connection: Connection) -> None:
    """Raise ``UnusableDatabase`` for a database that a copy by 0.2 did not finish."""
    if inspect(connection).has_table(_UNFINISHED):
        raise UnusableDatabase(
            "a copy into the database by an earlier version did not finish: import an archive of "
            "the other database (`truezero export --full`) into a new one"
        )


def current(connection: Connection) -> str | None:
    """Return a database's schema version, or None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def upgrade(connection: Connection) -> tuple[str | None, str | None]:
    """Apply missing migrations in one transaction; returns the versions before and now.

    Arguments:
        connection: outside any transaction; committed on return.

    Raises:
        UnusableDatabase: a later version of truezero wrote the database, or it is new and its
            encoding is not UTF8.
    """
    with connection.begin():
        hold(connection, Lock.SCHEMA)
        before = current(connection)
        if before == HEAD:
            return before, before
        if before is None and connection.dialect.name == "sqlite":
            _create(connection)
            return None, HEAD
        if before is not None:
            refuse_unknown(before)
        elif (encoding := connection.scalar(text("SHOW server_encoding"))) != "UTF8":
            refuse_encoding(encoding)
        # Imported here, 50 ms: a start on an SQLite file that is new or up to date does without.
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return before, current(connection)


# As Alembic makes it (MigrationContext._version).
_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def _create(connection: Connection) -> None:
    """Create SQLite's tables at once, as all steps together do: a test compares the two."""
    for statement in _schema():
        connection.exec_driver_sql(statement)
    connection.execute(insert(_VERSION).values(version_num=HEAD))


@cache
def _schema() -> tuple[str, ...]:
    """Return the statements that make SQLite's schema, made once a process."""
    assert metadata.tables.keys() >= {table.name for table in DERIVED}
    made: list[str] = []
    dialect = URL.create("sqlite").get_dialect()()
    engine = create_mock_engine(
        "sqlite://", lambda ddl, *_, **__: made.append(str(ddl.compile(dialect=dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    made += triggers.statements("sqlite")
    _VERSION.create(engine, checkfirst=False)
    return tuple(made)
