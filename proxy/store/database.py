"""One database: its connections, and its contents by subject."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import func, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from proxy.feature import modules
from proxy.store import migrations, sqlite
from proxy.store.batch_counts import store_next_kinds
from proxy.store.calls import Calls
from proxy.store.closings import Closings
from proxy.store.connections import Connections, Place
from proxy.store.deployment import Deployment, Workers
from proxy.store.errors import (
    BadUrl,
    DatabaseUnavailable,
    StoreError,
    refuse_foreign,
    refuse_missing,
)
from proxy.store.events import EventLog
from proxy.store.lane_minutes import LaneMinutes
from proxy.store.lane_probes import LaneProbes
from proxy.store.partitions import Partitions
from proxy.store.references import References
from proxy.store.rollouts import Rollouts
from proxy.store.runs import Runs
from proxy.store.tables import server
from proxy.store.tasks import Tasks
from proxy.store.verdicts import Verdicts

T = TypeVar("T")

_ = [*modules("tables")]  # on the one metadata, like those of `proxy.store.tables`

log = logging.getLogger("truezero")

# After PostgreSQL comes up, services may hold unwritten calls for this long: they retry twice a
# second.
RESTART_GRACE_S = 5.0


class Database:
    """One database, shared by every worker and replica.

    Its contents are attributes: ``calls``, ``rollouts``, ``closings``,
    ``references``, ``verdicts``, ``runs``, ``tasks``, ``events``,
    ``lane_minutes``, ``lane_probes``, ``workers`` and ``deployment``.

    Arguments:
        url: an SQLAlchemy URL; ``sqlite:///file.db`` or a path is SQLite.

    Raises:
        BadUrl: the URL names no database that can be used.
    """

    def __init__(self, url: str) -> None:
        self._url = url_of(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        connections = sqlite.connections(self._url) if self.is_sqlite else _postgres(self._url)
        self.connections = connections
        self._partitions = None if self.is_sqlite else Partitions(connections)
        self.calls = Calls(connections, self._reconnect)
        self.rollouts = Rollouts(connections)
        self.closings = Closings(connections)
        self.references = References(connections)
        self.verdicts = Verdicts(connections)
        self.runs = Runs(connections)
        self.tasks = Tasks(connections)
        self.events = EventLog(connections)
        self.workers = Workers(connections)
        self.deployment = Deployment(connections)
        self.lane_minutes = LaneMinutes(connections)
        self.lane_probes = LaneProbes(connections)

    @property
    def url(self) -> str:
        """Its URL, password included."""
        return self._url.render_as_string(hide_password=False)

    @property
    def file(self) -> Path | None:
        """The database's file; None if it is not a file."""
        name = self._url.database if self.is_sqlite else None
        return Path(name) if name and name != ":memory:" else None

    def spill_place(self, folder: Path | None) -> Path | None:
        """Return the path prefix of this database's spill files.

        Arguments:
            folder: None takes that of a file, or `truezero-spill` in the working directory.
        """
        if self.is_sqlite:
            if self.file is None or folder is None:
                return self.file
            name, where = self.file.name, str(self.file.resolve())
        else:
            name = (self._url.database or "").replace("/", "-")
            where = f"{self._url.host}:{self._url.port}:{self._url.query.get('host')}"
        digest = hashlib.blake2b(where.encode(), digest_size=4).hexdigest()
        return (folder or Path("truezero-spill")) / f"{name}-{digest}"

    def require(self) -> None:
        """Refuse to go on without a truezero database; none is made, and no other one changed.

        Raises:
            DatabaseUnavailable: the database cannot be read.
            UnusableDatabase: there is none.
        """
        file = None if "uri" in self._url.query else self.file
        if file is not None:
            if not file.is_file():
                refuse_missing(file)
            found = sqlite.has_tables(file)
        else:
            with self.connections.reading() as connection:
                found = migrations.current(connection) is not None
        if not found:
            refuse_foreign(self._url.render_as_string() if file is None else str(file))

    def prepare(self) -> tuple[str | None, str | None]:
        """Bring the schema up to date, of a new database too; returns the versions before and now.

        Raises:
            DatabaseUnavailable: the database cannot be opened or written.
            UnusableDatabase: a later version wrote it, or a copy into it did not finish.
        """
        with self.connections.maintaining() as connection:
            versions = migrations.upgrade(connection)
            with connection.begin():
                migrations.refuse_unfinished(connection)
        if versions[0] is None:
            self.deployment.note_created(time.time())
        elif versions[0] != versions[1]:
            after: str | None = ""
            while after is not None:  # of verdicts from before they had one
                after = self.change(store_next_kinds, after)
        with contextlib.suppress(StoreError):  # a heartbeat tries again
            self._add_partitions(time.time())
        return versions

    def close(self) -> None:
        """Close every connection."""
        self.connections.close()

    def read(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function of `proxy.store.statistics` with a connection as first argument."""
        with self.connections.reading() as connection:
            return question(connection, *args, **kwargs)

    def change(self, work: Callable[..., T], *args: Any) -> T:
        """Call a maintenance function in one transaction, which may take minutes."""
        with self.connections.maintaining() as connection, connection.begin():
            return work(connection, *args)

    def heartbeat(self, worker: str, *, host: str, now: float) -> None:
        """Record that a worker lives, bury dead ones, and keep partitions ready."""
        with self._reconnecting():
            self.workers.heartbeat(worker, host=host, now=now)
        self._add_partitions(now)
        self.calls.expire_rollouts(now)

    def checkpoint(self) -> None:
        """Move what SQLite's commits wrote to the WAL into the file; PostgreSQL does by itself.

        Raises:
            StoreError: the file cannot be written now.
        """
        if self.connections.checkpoints is not None:
            self.connections.checkpoints.run()

    def is_reachable(self) -> bool:
        """Return True if the database can be read now, from its file and not from a cache."""
        try:
            with self._reconnecting(), self.connections.reading() as connection:
                if self.is_sqlite:  # https://www.sqlite.org/pragma.html#pragma_shrink_memory
                    connection.execute(text("PRAGMA shrink_memory"))
                connection.execute(select(func.count()).select_from(server))
        except StoreError:
            return False
        return True

    def _add_partitions(self, now: float) -> None:
        if self._partitions is not None:
            self._partitions.add_ahead(now)

    @contextlib.contextmanager
    def _reconnecting(self) -> Iterator[None]:
        try:
            yield
        except DatabaseUnavailable as error:
            self._reconnect(error)
            raise

    def _reconnect(self, error: DatabaseUnavailable) -> None:
        """Close what is open: by the next attempt another file may stand in its place.

        A file that was deleted is kept open, and no other is made: who deleted it can still get it
        back. One that was found broken may be moved away.
        """
        if _locked(error):
            return
        place = self.connections.place
        if place is not None and place.gone:
            self._report_deleted()
            return
        self.calls.forget_rollouts()
        self.connections.let_go()
        if place is not None and (_broken(error) or _replaced(place)):
            place.forget()
        if _tables_missing(error):
            with contextlib.suppress(StoreError):
                self.prepare()
                self.deployment.restore_secrets()
                log.error("the database is new: it holds nothing of the one before")

    def _report_deleted(self) -> None:
        """Leave a note for the next start, which finds no database."""
        note = self.deletion_note
        if note is None or note.exists():
            return
        log.error("the database file was deleted: calls are kept in the spill file")
        with contextlib.suppress(OSError):
            note.write_text(datetime.now(UTC).isoformat(timespec="seconds") + "\n", "utf-8")

    @property
    def deletion_note(self) -> Path | None:
        """The file that says when a running service found the database deleted."""
        return None if self.file is None else self.file.with_name(self.file.name + ".deleted")


def url_of(named: str) -> URL:
    """Parse a file's name or an SQLAlchemy URL as a URL that names its driver.

    Raises:
        BadUrl: it is neither, or names a database that is neither SQLite nor PostgreSQL.
    """
    if "://" not in named:
        return URL.create("sqlite", database=named)
    try:
        url = make_url(named)
    except (ArgumentError, ValueError):
        raise BadUrl("not a valid SQLAlchemy URL") from None
    if url.get_backend_name() == "sqlite":
        return url
    if url.drivername.partition("+")[0] not in ("postgres", "postgresql"):
        raise BadUrl("only SQLite and PostgreSQL are supported")
    return url.set(drivername="postgresql+psycopg")


def _postgres(url: URL) -> Connections:
    try:
        from proxy.store import postgres  # noqa: PLC0415  an extra, and nothing for SQLite
    except ModuleNotFoundError:
        raise BadUrl("PostgreSQL needs an extra: pip install 'truezero[postgres]'") from None
    return postgres.connections(url)


def _broken(error: DatabaseUnavailable) -> bool:
    driver = str(_driver_error(error))
    return "malformed" in driver or "not a database" in driver


def _replaced(place: Place) -> bool:
    try:
        place.check()
    except DatabaseUnavailable:
        return True
    return False


def _locked(error: DatabaseUnavailable) -> bool:
    """Return True if PostgreSQL is well and another session only held a lock for too long."""
    return getattr(_driver_error(error), "sqlstate", None) == "55P03"


def _tables_missing(error: DatabaseUnavailable) -> bool:
    """Return True if a database without tables stands in the place of ours."""
    driver = _driver_error(error)
    return getattr(driver, "sqlstate", None) == "42P01" or "no such table" in str(driver)


def _driver_error(error: DatabaseUnavailable) -> BaseException | None:
    return getattr(error.__cause__, "orig", error.__cause__)
