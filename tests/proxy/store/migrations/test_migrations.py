"""A database of any released schema is brought up to date with every row it held.

`schemas/` holds one for each schema that there is a migration from, as SQL text; whoever adds a
migration writes the one that it leads to by
``python -m tests.proxy.store.migrations.test_migrations``.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, MetaData, create_engine, inspect, select, text

from proxy.features.exports.rows import BEFORE_STANDS_ON, carried_evidence
from proxy.store import migrations
from proxy.store.database import Database
from proxy.store.errors import UnusableDatabase
from proxy.store.lane_minutes import KEPT_FROM
from proxy.store.migrations import HEAD
from proxy.store.tables import DERIVED, CommitBatch, Registration, metadata, verdicts
from tests.proxy.filled import NAMES, contents, fill, run
from tests.proxy.store.records import FULL

SCHEMAS = Path(__file__).parent / "schemas"
VERSIONS = Path(migrations.__file__).parent / "versions"
EVER = sorted(path.name.split("_")[0] for path in VERSIONS.glob("[0-9]*.py"))


def test_each_schema_has_a_database_to_try() -> None:
    kept = {path.stem for path in SCHEMAS.glob("*.sql")}
    assert kept == set(EVER), "run python -m tests.proxy.store.migrations.test_migrations"


class Upgraded(NamedTuple):
    """A database as the version that had a schema left it, and since upgraded."""

    schema: str
    file: Path
    prepared: tuple[str | None, str | None]
    rows: dict[str, Any]  # as they were
    kept: dict[str, Any]  # the same columns of them, afterwards


def thinned(schemas: Sequence[str]) -> list[Any]:
    """The oldest, the newest and the one before it as they are; `make all` runs those between."""
    ends, slow = (schemas[0], *schemas[-2:]), [pytest.mark.slow, pytest.mark.whole]
    return [pytest.param(s, marks=[] if s in ends else slow) for s in schemas]


@pytest.fixture(scope="module", params=thinned(EVER))
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    """Upgrade a database, once for all that is asked of it."""
    file = made(tmp_path_factory.mktemp("upgraded") / "old.db", request.param)
    with closing(sqlite3.connect(file)) as raw:
        (before,) = raw.execute("SELECT version_num FROM alembic_version").fetchone()
        columns = {
            table: [name for name in columns_of(raw, table) if name not in (gone or ())]
            for table in held(file)
            if (gone := GONE.get(table, frozenset())) is not None
        }
    rows = held(file, columns)
    database = Database(str(file))
    prepared = database.prepare()
    database.close()
    return Upgraded(before, file, prepared, rows, held(file, columns))


@pytest.fixture
def old(upgraded: Upgraded, tmp_path: Path) -> Path:
    """Return a copy of an upgraded database."""
    return Path(shutil.copy(upgraded.file, tmp_path / "old.db"))


def made(file: Path, schema: str) -> Path:
    with closing(sqlite3.connect(file)) as raw:
        raw.executescript((SCHEMAS / f"{schema}.sql").read_text("utf-8"))
    return file


def held(file: Path, columns: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Read the rows of every table, or of the given columns of the given tables."""
    with closing(sqlite3.connect(file)) as raw:
        if columns is None:
            tables = raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            names = [name for (name,) in tables if name != "alembic_version"]
            columns = {name: columns_of(raw, name) for name in names}
        return {
            table: sorted(raw.execute(f"SELECT {', '.join(named)} FROM {table}"), key=repr)
            for table, named in columns.items()
        }


def columns_of(raw: sqlite3.Connection, table: str) -> list[str]:
    return [f'"{row[1]}"' for row in raw.execute(f"PRAGMA table_info({table})")]


# What migrations dropped or counted anew: by table, its columns or all of it.
GONE: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(("batch_notes", "batch_tasks", "batch_shapes", "batch_servings")),
    "batches": frozenset({'"counts"'}),
    "verdicts": frozenset({'"drifts"', '"counted"', *(f'"{each}"' for each in BEFORE_STANDS_ON)}),
}


def test_an_old_database_keeps_every_row_it_held(upgraded: Upgraded) -> None:
    assert min(len(kept) for kept in upgraded.rows.values()) > 0, "no table goes untried"
    assert upgraded.prepared == (upgraded.schema, HEAD)
    noted = [row for row in upgraded.kept["server"] if row[0] == KEPT_FROM]
    assert bool(noted) is (upgraded.schema < "0026"), "lanes are not counted before it"
    kept = [row for row in upgraded.kept["server"] if row not in noted]
    assert upgraded.kept | {"server": kept} == upgraded.rows


def test_what_old_verdicts_stood_on_is_kept_in_one_column(tmp_path: Path) -> None:
    file = made(tmp_path / "old.db", "0029")
    with closing(sqlite3.connect(file)) as raw:
        raw.row_factory = sqlite3.Row
        before = {row["rollout_id"]: dict(row) for row in raw.execute("SELECT * FROM verdicts")}
    database = Database(str(file))
    database.prepare()
    loaded = database.rollouts.load_some(before)
    database.close()
    after = {name: row["stands_on"] for name, (row, _) in loaded.items() if row["final"]}
    kept = {name: carried_evidence(row) for name, row in before.items() if not row["provisional"]}
    assert after == kept
    assert len({tuple(json.loads(each)) for each in kept.values() if each}) > 1
    everywhere = held(file, {"verdicts": ['"rollout_id"', '"stands_on"']})["verdicts"]
    assert dict(everywhere) == {name: carried_evidence(row) for name, row in before.items()}


def test_an_old_database_gets_the_tables_that_the_code_declares(old: Path) -> None:
    declared = create_engine("sqlite://")
    metadata.create_all(declared)
    sides = inspect(create_engine(f"sqlite:///{old}")), inspect(declared)
    for table in metadata.tables:
        found, expected = (
            [(c["name"], str(c["type"]), c["nullable"]) for c in side.get_columns(table)]
            for side in sides
        )
        assert found == expected, "run python -m tests.proxy.store.migrations.test_migrations"


def test_a_new_file_is_what_all_migrations_make(tmp_path: Path) -> None:
    new, migrated = tmp_path / "new.db", tmp_path / "migrated.db"
    assert Database(str(new)).prepare() == (None, HEAD)
    build(create_engine(f"sqlite:///{migrated}"), "head")
    assert statements(new) == statements(migrated)
    assert Database(str(new)).prepare() == Database(str(migrated)).prepare() == (HEAD, HEAD)


def statements(file: Path) -> dict[str, list[str]]:
    """Return the SQL of each table and index by its parts, in order.

    A column that a later migration added stands behind the key: SQLite appends its text. Where
    columns stand is compared by `test_an_old_database_gets_the_tables_that_the_code_declares`.
    """
    with closing(sqlite3.connect(file)) as raw:
        made_by = raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {name: parts_of(sql) for name, sql in made_by}


def parts_of(sql: str) -> list[str]:
    """Return what stands before a statement's brackets, between their commas and behind them."""
    before, _, rest = " ".join(sql.split()).partition("(")
    inner, _, behind = rest.rpartition(")")
    parts = re.split(r",\s*(?![^()]*\))", inner)
    return [before.strip(), *sorted(part.strip() for part in parts), behind.strip()]


def test_an_old_database_is_read_and_written_on(old: Path) -> None:
    database = Database(str(old))
    assert database.prepare() == (HEAD, HEAD)
    with closing(sqlite3.connect(old)) as raw:
        names = [name for (name,) in raw.execute("SELECT id FROM rollouts")]
    assert len(names) == len(NAMES)
    for name in names:
        found = database.rollouts.load(name)
        assert found is not None
        assert len(found[1].exchanges) == 3 + (name == "a")
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert database.rollouts.load("r1") is not None


def test_an_old_verdict_learns_when_its_rollout_began(old: Path) -> None:
    known = "SELECT rollout_id, began_at FROM verdicts"
    told = "SELECT id, created_at FROM rollouts WHERE id IN (SELECT rollout_id FROM verdicts)"
    with closing(sqlite3.connect(old)) as raw:
        rows = raw.execute(known).fetchall()
        assert sorted(rows) == sorted(raw.execute(told))
    assert len(rows) > 3


def test_an_old_batch_has_ended_with_what_it_holds(upgraded: Upgraded, old: Path) -> None:
    database = Database(str(old))
    begun_since = upgraded.schema >= "0013"
    assert database.runs.ended("b1") is not begun_since
    database.close()


@pytest.mark.parametrize(
    "schema", [None, pytest.param(EVER[0], marks=pytest.mark.slow), *thinned(EVER)[1:-1]]
)
def test_an_upgrade_that_fails_leaves_the_database_as_it_was(
    tmp_path: Path, schema: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old.db"
    if schema is not None:
        made(old, schema)
    before = held(old)
    from alembic import command

    place: tuple[Any, str] = (migrations, "_create") if schema is None else (command, "upgrade")
    real = getattr(*place)

    def fails(*given: Any) -> None:
        real(*given)
        raise RuntimeError("killed")

    monkeypatch.setattr(*place, fails)
    with pytest.raises(RuntimeError):
        Database(str(old)).prepare()
    assert held(old) == before
    monkeypatch.undo()
    assert Database(str(old)).prepare() == (schema, HEAD)


@pytest.mark.parametrize("schema", EVER)
def test_postgresql_of_an_earlier_schema_keeps_every_row_it_held(
    empty_postgres_url: str, tmp_path: Path, schema: str
) -> None:
    rows = typed(made(tmp_path / "old.db", schema))
    for table in DERIVED:  # by the triggers of a schema that has them
        rows.pop(table.name, None)
    for name, gone in GONE.items():
        if gone is None:
            rows.pop(name, None)
        elif name in rows:
            dropped = {column.strip('"') for column in gone}
            rows[name] = [{k: v for k, v in row.items() if k not in dropped} for row in rows[name]]
    engine = create_engine(empty_postgres_url)
    build(engine, schema)
    tables = MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for name, kept in rows.items():
            connection.execute(tables.tables[name].insert(), kept)
    engine.dispose()
    database = Database(empty_postgres_url)
    assert database.prepare() == (schema, HEAD)
    now = contents(empty_postgres_url)
    now["server"] = [row for row in now["server"] if row[0] != KEPT_FROM]  # 0026 notes it
    for name, kept in rows.items():
        columns = [column.name for column in metadata.tables[name].columns]
        places = [columns.index(column) for column in kept[0]]
        found = [tuple(row[place] for place in places) for row in now[name]]
        assert sorted(found, key=repr) == sorted((tuple(r.values()) for r in kept), key=repr)
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert database.events.last_id() > max(row["id"] for row in rows["events"])
    database.close()


CLAIMED = 2**53 - 1


def test_what_no_call_can_have_is_unknown_after_an_upgrade(database_url: str) -> None:
    """An answer's claim filled the sums of a rollout until no database took them."""
    sound = replace(FULL, id="sound")
    calls = [replace(FULL, id=f"x{n}") for n in range(4)]
    database = Database(database_url)
    database.prepare()
    database.calls.write(CommitBatch(recorded=[sound, *calls]), worker="w")
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    row = {"rollout_id": "r1", "batch": "b", "health": "healthy", "provisional": True, "calls": 5,
           "scoreable": "yes", "given_at": 1.0, "verdict": "{}", "input_tokens": CLAIMED,
           "output_tokens": 60_000, "total_tokens": 5 * CLAIMED // 6, "cost_usd": 9e9}  # fmt: skip
    database.verdicts.store(row)
    from alembic.migration import MigrationContext  # here: 70 CPU ms for each worker to load
    from alembic.operations import Operations

    engine = create_engine(database._url)  # noqa: SLF001  the same file, by an engine of its own
    with engine.begin() as connection:
        for number, change in enumerate((
            f"input_tokens = {CLAIMED}, input_total = {CLAIMED}",
            f"total_tokens = {CLAIMED}",
            "cost_usd = 1e300 * 1e10, retry_after_s = 1e18"
            if database.is_sqlite else "cost_usd = 'NaN', retry_after_s = 'Infinity'",
            "cost_usd = 2e6, output_tokens = -1",
        )):  # fmt: skip
            connection.execute(
                text(f"UPDATE exchanges SET deaf = NULL, {change} WHERE id = 'x{number}'")
            )
        with Operations.context(MigrationContext.configure(connection)):
            import_module("proxy.store.migrations.versions.0011_release_0_2").bound_counts()
    engine.dispose()
    found = database.rollouts.load("r1")
    assert found is not None
    kept = {call.id: call for call in found[1].exchanges}
    assert kept["sound"] == sound
    unknown: dict[str, Any] = {"input_total": None, "output_total": None}
    for name, lost in (
        ("x0", {"input_tokens": None, **unknown}),
        ("x1", {"total_tokens": None, **unknown}),
        ("x2", {"cost_usd": None}),
        ("x3", {"cost_usd": None, "output_tokens": None, **unknown}),
    ):
        assert kept[name].usage == replace(FULL.usage, **lost), name
        assert kept[name].unreadable_reason == "a count or a cost that no call can have", name
    cause = kept["x2"].cause
    assert cause is not None and cause.retry_after_s == 366 * 86_400
    sums = database.read(lambda c: c.execute(select(verdicts)).mappings().one())
    assert [sums[f"{name}_tokens"] for name in ("input", "output", "total")] == [None, 60_000, None]
    assert sums["cost_usd"] is None
    database.close()


def typed(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every table, flags as bool."""
    engine = create_engine(f"sqlite:///{file}")
    tables = MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        return {
            name: [dict(row) for row in connection.execute(table.select()).mappings()]
            for name, table in tables.tables.items()
            if name != "alembic_version"
        }


def build(engine: Engine, schema: str) -> None:
    """Create the tables as the version that had this schema did, with its integer types."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(VERSIONS.parent))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, schema)
        if engine.name == "postgresql":
            connection.execute(text("SELECT setval('events_id_seq', 1000)"))


def test_a_database_of_a_later_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = made(tmp_path / "new.db", HEAD)
    run(file, "UPDATE alembic_version SET version_num = '9999'")
    before = held(file)
    with pytest.raises(UnusableDatabase, match="schema 9999, but this version"):
        Database(str(file)).prepare()
    assert held(file) == before


@pytest.mark.parametrize("schema", ["0003", "0010"])
def test_a_database_of_a_schema_without_a_release_is_refused_and_not_touched(
    tmp_path: Path, schema: str
) -> None:
    file = made(tmp_path / "between.db", "0002")
    run(file, f"UPDATE alembic_version SET version_num = '{schema}'")
    before = held(file)
    with pytest.raises(UnusableDatabase, match=f"schema {schema} of a development version"):
        Database(str(file)).prepare()
    assert held(file) == before


def main() -> None:
    """Write the newest schema's database, with secrets and a process that are nobody's."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.db"
        fill(str(file)).close()
        nobodys = "substr(hex(name) || hex(zeroblob(32)), 1, 64)"
        run(file, f"UPDATE server SET value = {nobodys} WHERE name <> 'closing'")
        run(file, "UPDATE workers SET pid = 1")
        with closing(sqlite3.connect(file)) as raw:
            text = "\n".join(raw.iterdump()) + "\n"
    (SCHEMAS / f"{HEAD}.sql").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
