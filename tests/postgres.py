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

from proxy.store.database import LATELY_S, Database

_SETTINGS = (
    "listen_addresses=", "shared_buffers=64MB", "max_connections=200", "autovacuum=off",
    "log_min_messages=warning",
)  # fmt: skip
_UNSYNCED = ("fsync=off", "full_page_writes=off")  # a machine that stops is no test's subject
_TEMPLATE = "prepared"
_numbers = itertools.count(1)


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are, the newest of Debian's; None where they are not."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    named = shutil.which("initdb")
    newest = max(found, key=lambda path: float(path.parent.name), default=None)
    return newest or (Path(named).parent if named else None)


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
        self._started = 0.0
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # which PostgreSQL refuses to run as
            user = _unprivileged()
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
        self._folder.chmod(0o755)

    def create(self) -> None:
        """Make its data folder, and start it."""
        command = ("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8")
        self._run(*command, "--locale=C.UTF-8", "--no-sync")
        self.start()
        self.settle()

    def settle(self) -> None:
        """Wait until it has been up for so long that services keep verdicts."""
        time.sleep(max(0.0, self._started + 2 * LATELY_S - time.monotonic()))

    def start(self) -> None:
        """Start, and return when it answers."""
        self._started = time.monotonic()
        settings = [word for setting in self._settings for word in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self._folder, *settings],
                cwd="/", stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + 30
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
        """How the service reaches one of its databases."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._folder}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection beside the service, each statement its own transaction."""
        dsn = f"postgresql://postgres@/{database}?host={self._folder}"
        return psycopg.connect(dsn, autocommit=True)

    @contextlib.contextmanager
    def database(self, *, prepared: bool = True, language: str | None = None) -> Iterator[str]:
        """The URL of a new database, with the schema unless told otherwise; dropped in the end."""
        name = f"t{next(_numbers)}"
        template = self._template() if prepared else "template0"
        if language is not None:
            template += f" LOCALE_PROVIDER icu ICU_LOCALE '{language}'"
        with self.connect() as connection:
            connection.execute(
                f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode()
            )
        try:
            yield self.url(name)
        finally:
            with self.connect() as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

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
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None


def _unprivileged() -> pwd.struct_passwd:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")
