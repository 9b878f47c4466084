"""A PostgreSQL server of the tests' own, from this machine's binaries, in a folder that goes.

It listens on a socket in that folder only, and can be stopped, killed and started again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from proxy.store.database import RESTART_GRACE_S, Database

_SETTINGS = (
    "listen_addresses=", "shared_buffers=64MB", "max_connections=200", "autovacuum=off",
    "log_min_messages=warning",
)  # fmt: skip
_UNSYNCED = ("fsync=off", "full_page_writes=off")  # a machine that stops is no test's subject
CONNECT_S = 60  # where the service itself would wait 2 s
_TEMPLATE = "prepared"
_GROWN_BYTES = 16_000_000  # beyond the template's size, a used database costs more than a new one
_numbers = itertools.count(1)


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are, the newest of Debian's; None where they are not."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    named = shutil.which("initdb")
    newest = max(found, key=lambda path: float(path.parent.name), default=None)
    return newest or (Path(named).parent if named else None)


def required() -> Path:
    """`binaries()`; where they are not, the test is skipped, and in CI fails."""
    programs = binaries()
    if programs is None:
        absent = "PostgreSQL is not installed here (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    return programs


class Server:
    """One server and its databases.

    Arguments:
        programs: the folder of its binaries.
        synced: whether a commit waits for the disk, as outside tests.
    """

    def __init__(self, programs: Path, *, synced: bool = False) -> None:
        self._programs = programs
        self._settings = _SETTINGS if synced else (*_SETTINGS, *_UNSYNCED)
        self._folder = Path(tempfile.mkdtemp(prefix="truezero-postgres-"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        self._operator: psycopg.Connection[tuple[Any, ...]] | None = None
        self._clean: list[str] = []  # prepared databases that were used, and are as new
        self._shape: tuple[Any, ...] = ()  # of the template
        self._months: set[str] = set()  # that the template has partitions of
        if os.geteuid() == 0:  # which PostgreSQL refuses to run as
            user = _unprivileged()
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
        self._folder.chmod(0o755)

    def create(self, *, settled: bool = True) -> None:
        """Make its data folder, and start it; it is up for long, unless told otherwise."""
        command = ("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8")
        self._run(*command, "--locale=C.UTF-8", "--no-sync")
        self.start()
        if settled:
            self.settle()

    def settle(self) -> None:
        """Wait until it has been up for so long that services keep verdicts."""
        while (missing_s := 2 * RESTART_GRACE_S - self._uptime_s()) > 0:
            time.sleep(missing_s)

    def _uptime_s(self) -> float:
        """As the service reads it, which begins when the server is ready to start, not before."""
        with self.connect() as connection:
            row = connection.execute(
                "SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8"
            ).fetchone()
        assert row is not None
        return float(row[0])

    def start(self) -> None:
        """Start, and return when it answers."""
        settings = [word for setting in self._settings for word in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self._folder, *settings],
                cwd="/", stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + 300
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """The process that all its others descend from."""
        assert self._process is not None
        return self._process.pid

    def said(self) -> str:
        """Its log so far."""
        return (self._folder / "log").read_text()

    def stop(self) -> None:
        """End it and every connection to it, as an operator would."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it without a goodbye; it recovers at its next start."""
        self._end(signal.SIGQUIT)

    def freeze(self) -> None:
        """Have it say nothing more, on any connection, without closing one."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, how: signal.Signals) -> None:
        assert self._process is not None
        pid = self._process.pid
        self._process.send_signal(how)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), how)

    def destroy(self) -> None:
        """Stop it and remove its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """How the service reaches one of its databases, however long a busy machine needs."""
        place = f"postgresql+psycopg://postgres@/{database}?host={self._folder}"
        return f"{place}&connect_timeout={CONNECT_S}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection beside the service: each statement its own transaction, none logged."""
        dsn = f"postgresql://postgres@/{database}?host={self._folder}"
        return psycopg.connect(dsn, autocommit=True, options="-c log_statement=none")

    @contextlib.contextmanager
    def database(self, *, prepared: bool = True, language: str | None = None) -> Iterator[str]:
        """The URL of a database as new, with the schema unless told otherwise.

        A prepared one is emptied in the end and lent again under another name, where all but its
        rows is as it was: a new one costs the server 0.3 s of CPU. Any other is dropped.
        """
        reusable = prepared and language is None
        name = self._clean.pop() if reusable and self._clean else self._new(prepared, language)
        try:
            yield self.url(name)
        finally:
            spare = f"t{next(_numbers)}"
            if reusable and self._emptied(name, spare):
                self._clean.append(spare)

    def _new(self, prepared: bool, language: str | None) -> str:
        name = f"t{next(_numbers)}"
        template = self._template() if prepared else "template0"
        if language is not None:
            template += f" LOCALE_PROVIDER icu ICU_LOCALE '{language}'"
        self._operating().execute(
            f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode()
        )
        return name

    def _operating(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection that stays open: the server's process for another takes 4 ms of CPU."""
        if self._operator is None or self._operator.closed:
            self._operator = self.connect()
        return self._operator

    def _emptied(self, name: str, spare: str) -> bool:
        """Make a used database a spare one; False, and it is gone, where it is not as new."""
        operator = self._operating()
        try:
            operator.execute(_LEAVE, (name,))
            operator.execute(f"ALTER DATABASE {name} RENAME TO {spare}".encode())
            name = spare  # whoever is still out there does not find it
            with self.connect(name) as connection:
                connection.execute(_EMPTY)
                for month in _months_of(connection) - self._months:
                    connection.execute(f"DROP TABLE {month}".encode())
                if _shape_of(connection) == self._shape:
                    return True
        except psycopg.Error:
            pass  # whatever a test did to it, it is not lent again
        self._operating().execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        return False

    def _template(self) -> str:
        with self.connect() as connection:
            known = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (_TEMPLATE,)
            ).fetchone()
            if known is None:
                connection.execute(f"CREATE DATABASE {_TEMPLATE}".encode())
                database = Database(self.url(_TEMPLATE))
                database.prepare()
                database.close()
                with self.connect(_TEMPLATE) as prepared:
                    prepared.execute(_EMPTY)  # as one that is lent again
                    self._shape, self._months = _shape_of(prepared), _months_of(prepared)
        return _TEMPLATE

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), self.connect():
            return True
        return False

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, cwd="/", capture_output=True, check=False, **self._as)
        assert done.returncode == 0, done.stderr.decode()

    def _end(self, how: signal.Signals) -> None:
        if self._operator is not None:
            self._operator.close()
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


def _unprivileged() -> pwd.struct_passwd:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def _shape_of(connection: psycopg.Connection[tuple[Any, ...]]) -> tuple[Any, ...]:
    """All of a database but its rows."""
    (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    return (size // _GROWN_BYTES, *connection.execute(_SHAPE).fetchall())


def _months_of(connection: psycopg.Connection[tuple[Any, ...]]) -> set[str]:
    """The partitions of exchanges; a test gets one for each month that its clock shows."""
    found = connection.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'exchanges'::regclass"
    )
    return {name for (name,) in found}


_LEAVE = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"

_EMPTY = """
DO $$
DECLARE
    one record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR one IN
        SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
          AND NOT relispartition AND relname <> 'alembic_version'
    LOOP
        EXECUTE format('DELETE FROM %s', one.name);
    END LOOP;
    FOR one IN
        SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
    LOOP
        PERFORM setval(one.name, 1, false);
    END LOOP;
END
$$
"""

# Rows of the catalogs as they are named and last written: the template's, in each copy of it.
_SHAPE = """
SELECT concat_ws(' ', relname, relkind, oid, xmin, reltuples) AS line
FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL
SELECT concat_ws(' ', attrelid, attnum, pg_attribute.xmin)
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = 'public'::regnamespace AND attnum > 0
UNION ALL
SELECT concat_ws(' ', oid, xmin) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT concat_ws(' ', oid, xmin, tgenabled) FROM pg_trigger
UNION ALL
SELECT concat_ws(' ', oid, xmin) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL
SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'
UNION ALL
SELECT setconfig::text FROM pg_db_role_setting
UNION ALL
SELECT version_num FROM alembic_version
ORDER BY line
"""
