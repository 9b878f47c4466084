"""Reads and writes the tables: the only place with SQL.

It decides nothing: nouns in, nouns out, and a rollback where a write fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    RowMapping,
    Select,
    Table,
    and_,
    case,
    column,
    create_engine,
    delete,
    event,
    func,
    insert,
    or_,
    select,
    tuple_,
    type_coerce,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.pool import QueuePool
from sqlalchemy.types import NULLTYPE

from classifier.batches import Entry
from classifier.breakers import Admission, BreakerState, Phase
from classifier.breakers import at as breaker_at
from classifier.records import Exchange, RolloutRecord
from proxy.store import migrations, partitions
from proxy.store.commit import (
    EVENTS_CHANNEL,
    Commit,
    Engines,
    NotificationSource,
    SqliteCommitWriter,
)
from proxy.store.locks import Lock, hold
from proxy.store.migrations import UnfitError
from proxy.store.tables import (
    EXCHANGE_COLUMNS,
    breakers,
    events,
    exchange_of,
    exchange_row,
    exchanges,
    lost_row,
    open_calls,
    open_exchange_of,
    open_row,
    rollouts,
    server,
    verdicts,
    workers,
)

StorageError = DBAPIError
# The row's own fault; all else that a driver raises is the database's trouble (locked, full,
# read-only, broken), and passes.
BadRowError = (
    DataError, IntegrityError, ProgrammingError, ValueError, TypeError, OverflowError,
)  # fmt: skip
AwayError = DBAPIError
Row = RowMapping
T = TypeVar("T")

_BUSY_MS = 5000  # how long a writer waits for another process on the same file
_RECORDING_BUSY_MS = 500  # the same for the recorder, behind which agents wait
_ENDED = "ended."  # before the name of a session, in the table of what the deployment knows
_KNOWN_S = 3600.0  # a rollout known to be there is written anew after it: it may have been pruned
LATELY_S = 5.0  # services may hold calls so long after PostgreSQL came up: they try twice a second
_WORKER_STALE_S = 30.0  # a worker unseen for so long is dead
_AWAKE_S = 15.0  # who was not seen for so long knows nothing of others


class UrlError(ValueError):
    """Why a database's URL cannot be used, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Calls of one rollout that were served but not recorded; ``since`` in epoch seconds."""

    count: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatch:
    """What one commit takes: calls begun, calls ended, gaps by rollout."""

    opened: Sequence[Exchange] = ()
    recorded: Sequence[Exchange] = ()
    gaps: Mapping[str, Gap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A rollout as its runner announces it; ``metadata`` and ``fault`` are JSON text."""

    id: str
    batch: str | None = None
    task: str | None = None
    attempt: int | None = None
    model: str | None = None
    upstream: str | None = None
    usage_channel: str = "proxy"
    metadata: str | None = None
    fault: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """All but the id, as columns of `rollouts`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What came of a registration: a conflict, or the sentence that says why it is skipped."""

    conflict: bool = False
    skipped: str | None = None


Admit = Callable[[list[BreakerState]], Admission]
Feed = Callable[[list[BreakerState]], list[BreakerState]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCounts:
    """Everything counted at once: rollouts by health, open and half-open breakers by phase."""

    verdicts: Mapping[str, int]
    breakers: Mapping[str, int]


class Database:
    """One database, shared by every worker and replica.

    Arguments:
        url: an SQLAlchemy URL; ``sqlite:///file.db`` or a path is SQLite.
    """

    def __init__(self, url: str) -> None:
        self._url = url_of(url)
        self.url = self._url.render_as_string(hide_password=False)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._engines = _sqlite(self._url) if self.is_sqlite else _postgres(self._url)
        self._reading, self._writing = self._engines.reading, self._engines.writing
        self._known: set[str] = set()
        self._known_since = 0.0
        self._open_ids: set[str] = set()
        self._months: set[partitions.Month] = set()
        self._secrets: dict[str, str] = {}  # as handed out, for a file that takes this one's place

    def spill_place(self, folder: Path | None) -> Path | None:
        """Where processes keep what it does not take: the beginning of a path, for each database.

        Arguments:
            folder: None takes the one of a file, or `truezero-spill` in the working directory.
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

    @property
    def file(self) -> Path | None:
        """Where it is, if it is a file."""
        name = self._url.database if self.is_sqlite else None
        return Path(name) if name and name != ":memory:" else None

    def prepare(self) -> tuple[str | None, str | None]:
        """Bring the schema up to date; returns the versions before and now.

        Raises:
            StorageError: the database cannot be opened or written.
            UnfitError: a later version wrote it, or a copy into it did not end.
        """
        with self._engines.preparing.connect() as connection:
            versions = migrations.upgrade(connection)
            with connection.begin():
                migrations.refuse_unfinished(connection)
        with contextlib.suppress(DBAPIError):  # a heartbeat tries again
            self._add_months(time.time())
        return versions

    def close(self) -> None:
        """Let every connection go."""
        self._engines.close()

    def secret(self, name: str) -> bytes:
        """A random value of this deployment, made once: the same in every process."""
        with self._writing.begin() as connection:
            found = _secret(connection, name)
            if found is None:
                value = self._secrets.get(name) or secrets.token_hex(32)
                _add(connection, server, {"name": name, "value": value})
                found = _secret(connection, name)
        self._secrets[name] = found or ""
        return bytes.fromhex(found or "")

    def end_session(self, name: str, *, ends: int, now: float) -> None:
        """Note a session that was ended before its end (epoch seconds); forget those long over."""
        with self._writing.begin() as connection:
            over = [one for one, end in _ended_sessions(connection).items() if end <= now]
            named = [_ENDED + one for one in over]
            connection.execute(delete(server).where(server.c.name.in_(named)))
            _add(connection, server, {"name": _ENDED + name, "value": str(ends)})

    def ended_sessions(self) -> set[str]:
        """The names of sessions that were ended before their end."""
        with self._reading.connect() as connection:
            return set(_ended_sessions(connection))

    def read(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Put a question of `proxy.store.dashboard`, which takes the connection first."""
        with self._reading.connect() as connection:
            return question(connection, *args, **kwargs)

    def change(self, work: Callable[..., T], *args: Any) -> T:
        """Do a piece of an operator's work as one transaction, which may take its time."""
        with self._engines.preparing.begin() as connection:
            return work(connection, *args)

    # the recorder's side: one commit for all that is queued

    def write(self, batch: CommitBatch, *, worker: str) -> None:
        """Commit one batch; all of it is durable when this returns.

        Raises:
            BadRowError: a row of it no database would take; nothing was written.
            AwayError: the database does not take it now; nothing was written.
        """
        with self._noticing():
            self._write(batch, worker)

    def _write(self, batch: CommitBatch, worker: str) -> None:
        recorded = {exchange.id: exchange for exchange in batch.recorded}  # the last one stands
        begun = [exchange for exchange in batch.opened if exchange.id not in recorded]
        new = self._unknown(batch, begun)
        self._engines.ledger.commit(
            Commit(
                rollouts=[*new.items()],
                gaps=[(rollout, gap.since, gap.count) for rollout, gap in batch.gaps.items()],
                opened=[open_row(exchange, worker) for exchange in begun],
                recorded=list(map(exchange_row, recorded.values())),
                told=[_failure(exchange) for exchange in recorded.values() if exchange.cause],
                closed=[(exchange_id,) for exchange_id in recorded.keys() & self._open_ids],
            )
        )
        self._known.update(new)
        self._open_ids -= recorded.keys()
        self._open_ids.update(exchange.id for exchange in begun)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except BadRowError:
            raise
        except AwayError as error:
            self._look_again(error)
            raise

    def _look_again(self, error: DBAPIError) -> None:
        """Let go of what is open: by the next attempt another file may stand in its place."""
        self._known.clear()
        self._engines.let_go()
        if _is_new(error):
            with contextlib.suppress(DBAPIError, UnfitError):
                self.prepare()
                for name in tuple(self._secrets):
                    self.secret(name)

    def _unknown(self, batch: CommitBatch, begun: Iterable[Exchange]) -> dict[str, float]:
        """Rollouts this process has not yet written, with the time they were first seen."""
        if len(self._known) > 100_000:  # a bound, not a cache policy: asking again is cheap
            self._known.clear()
        new = {each.rollout_id: each.timing.started_at for each in (*batch.recorded, *begun)}
        return {
            rollout: seen
            for rollout, seen in new.items()
            if rollout not in self._known and rollout not in batch.gaps  # which make it themselves
        }

    def heartbeat(self, worker: str, *, host: str, now: float) -> None:
        """Say that a worker lives; calls left open by dead ones become `lost`.

        Who was away itself, with the database perhaps, takes nobody's silence for death yet.
        """
        me = {"id": worker, "host": host, "pid": os.getpid(), "seen_at": now}
        with self._noticing(), self._writing.begin() as connection:
            known = {row["id"]: row for row in connection.execute(select(workers)).mappings()}
            mine = known.pop(worker, None)
            if mine is None:
                _add(connection, workers, me)
            else:
                same = workers.c.id == worker
                connection.execute(update(workers).where(same).values(seen_at=now))
            awake = mine is not None and now - mine["seen_at"] < _AWAKE_S
            silent_at = now - _WORKER_STALE_S if awake else -math.inf
            dead = [name for name, row in known.items() if _is_dead(row, host, silent_at)]
            if dead:
                _bury(connection, _nobody_elses(connection, dead))
        self._add_months(now)
        if now - self._known_since > _KNOWN_S:
            self._known.clear()
            self._known_since = now

    def _add_months(self, now: float) -> None:
        """Have the partitions ready in which the next calls are written."""
        wanted = [] if self.is_sqlite else partitions.wanted(now)
        if self._months.issuperset(wanted):
            return
        with self._writing.begin() as connection:
            partitions.add(connection, wanted)
        self._months = set(wanted)

    def retire(self, worker: str) -> None:
        """Take a worker's leave: what it still had open is lost."""
        with self._writing.begin() as connection:
            _bury(connection, [worker])

    # the desk's side

    def register(
        self, registration: Registration, *, now: float, admit: Admit | None = None
    ) -> Registered:
        """Announce a rollout; one that its own traffic created is filled in.

        Arguments:
            admit: asked with the breakers of its batch, in the same transaction, so that
                no two processes let a canary in.
        """
        facts = registration.facts
        with self._writing.begin() as connection:
            if registration.batch is not None:
                hold(connection, Lock.BREAKERS, registration.batch)
            fresh = {"id": registration.id, "registered": True, "created_at": now, **facts}
            added = _add(connection, rollouts, fresh)
            row = _rollout_row(connection, registration.id, changing=True)
            assert row is not None
            if row["registered"]:
                if not added and any(row[name] != value for name, value in facts.items()):
                    return Registered(conflict=True)
            else:
                _update_rollout(connection, registration.id, registered=True, **facts)
                connection.execute(  # what it was judged by is another now
                    update(verdicts)
                    .where(verdicts.c.rollout_id == registration.id)
                    .values(calls=-1)
                )
            skipped = _admission(connection, registration, admit)
            _update_rollout(connection, registration.id, skipped=skipped)
        return Registered(skipped=skipped)

    def report(self, rollout_id: str, outcome: str, *, now: float) -> str | None:
        """Keep what the runner saw, once.

        Returns:
            The outcome that stands now (JSON text), or None where no such rollout is known.
        """
        with self._writing.begin() as connection:
            row = _rollout_row(connection, rollout_id, changing=True)
            if row is None:
                return None
            if row["outcome"] is not None:
                return str(row["outcome"])
            _update_rollout(connection, rollout_id, outcome=outcome, outcome_at=now)
        return outcome

    def registered(self, rollout_id: str) -> bool:
        """Whether a runner announced this rollout."""
        with self._reading.connect() as connection:
            row = _rollout_row(connection, rollout_id)
        return row is not None and bool(row["registered"])

    def rollout_row(self, rollout_id: str) -> Row | None:
        """One rollout's facts, without its exchanges."""
        with self._reading.connect() as connection:
            return _rollout_row(connection, rollout_id)

    def revoke(self, rollout_id: str, *, at: float) -> None:
        """Make a rollout's key and secret open nothing from then on; never later than before."""
        earlier = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > at)
        with self._writing.begin() as connection:
            connection.execute(
                update(rollouts).where(rollouts.c.id == rollout_id, earlier).values(revoked_at=at)
            )

    def aliased(self, alias: str, *, now: float) -> list[str]:
        """Rollouts minted under an alias whose keys still open something, oldest first."""
        named = (rollouts.c.id == alias) | (
            (rollouts.c.task == alias) & rollouts.c.id.startswith(f"{alias}.", autoescape=True)
        )
        alive = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > now)
        query = select(rollouts.c.id).where(named, alive, rollouts.c.outcome_at.is_(None))
        with self._reading.connect() as connection:
            found = connection.execute(query.order_by(rollouts.c.created_at))
            return [row[0] for row in found]

    def drilled(self) -> frozenset[str]:
        """Rollouts without an outcome whose agents are to be drilled."""
        query = select(rollouts.c.id).where(
            rollouts.c.fault.is_not(None), rollouts.c.outcome_at.is_(None)
        )
        with self._reading.connect() as connection:
            return frozenset(row[0] for row in connection.execute(query))

    def next_drilled_call(self, rollout_id: str) -> int:
        """Count one more call of a drilled rollout: its number, from 1, in every process."""
        counted = (
            update(rollouts)
            .where(rollouts.c.id == rollout_id)
            .values(fault_calls=rollouts.c.fault_calls + 1)
            .returning(rollouts.c.fault_calls)
        )
        with self._writing.begin() as connection:
            return int(connection.execute(counted).scalar_one())

    def rollout(self, rollout_id: str) -> tuple[Row, RolloutRecord] | None:
        """One rollout's row and the noun with its exchanges, calls in flight included."""
        with self._reading.connect() as connection:
            row = _rollout_row(connection, rollout_id)
            if row is None:
                return None
            done = connection.execute(_EXCHANGES.where(exchanges.c.rollout_id == rollout_id))
            seen = {found.id: found for found in map(exchange_of, done.all())}
            for found in _open_rows(connection, rollout_id):
                seen.setdefault(found["id"], open_exchange_of(found))
        ordered = sorted(seen.values(), key=lambda e: (e.timing.started_at, e.id))
        return row, _rollout_of(row, tuple(ordered))

    def up_s(self) -> float | None:
        """For how many seconds PostgreSQL has been up; None for SQLite.

        By the server's clock, so that services' own do not matter.
        """
        if self.is_sqlite:
            return None
        up_for = func.extract("epoch", func.now() - func.pg_postmaster_start_time())
        with self._reading.connect() as connection:
            return float(connection.scalar(select(up_for)) or 0)

    def in_flight(self, rollout_id: str) -> int:
        """How many of a rollout's calls are open in any process."""
        with self._reading.connect() as connection:
            return len(_open_rows(connection, rollout_id))

    def exchanges_page(
        self, rollout_id: str, *, after: str | None, limit: int
    ) -> list[Exchange] | None:
        """Up to ``limit`` exchanges of a rollout by id, oldest first; None where unknown."""
        with self._reading.connect() as connection:
            if _rollout_row(connection, rollout_id) is None:
                return None
            query = _EXCHANGES.where(
                exchanges.c.rollout_id == rollout_id, exchanges.c.id > (after or "")
            )
            done = connection.execute(query.order_by(exchanges.c.id).limit(limit)).all()
            waiting = [r for r in _open_rows(connection, rollout_id) if r["id"] > (after or "")]
        seen = {found.id: found for found in map(exchange_of, done)}
        for row in waiting:
            seen.setdefault(row["id"], open_exchange_of(row))
        return [seen[key] for key in sorted(seen)][:limit]

    def store_verdict(self, row: Mapping[str, Any], feed: Feed | None = None) -> None:
        """Keep a verdict in place of the one before; columns as in `verdicts`.

        Arguments:
            feed: the breakers of the batch as they are after a final verdict, asked once a
                rollout, in the order in which verdicts were given.
        """
        with self._writing.begin() as connection:
            if row["batch"] is not None and not row["provisional"]:
                hold(connection, Lock.BREAKERS, row["batch"])
            hold(connection, Lock.VERDICT, row["rollout_id"])
            if row["provisional"]:
                connection.execute(_provisional(connection.dialect.name), row)
                return
            key = verdicts.c.rollout_id == row["rollout_id"]
            before = connection.execute(select(verdicts).where(key)).mappings().one_or_none()
            connection.execute(delete(verdicts).where(key))
            connection.execute(insert(verdicts), row)
            if before is not None and not before["provisional"]:
                return
            told = {name: row[name] for name in ("health", "subcategory", "fingerprint")}
            _tell(connection, "verdict_given", row["given_at"], told, row)
            if feed is not None and row["batch"] is not None:
                changed = feed(_breakers(connection, row["batch"]))
                _store_breakers(connection, changed)
                for state in changed:
                    if state.opened_at == row["given_at"]:
                        _tell(connection, "breaker_opened", row["given_at"], _opening(state), row)

    def breakers(self, batch: str) -> list[BreakerState]:
        """The breakers of a batch, by lane."""
        with self._reading.connect() as connection:
            return _breakers(connection, batch)

    def reset_breakers(
        self, batch: str, reset: Callable[[BreakerState], BreakerState], *, lane: str | None
    ) -> list[BreakerState]:
        """Reset one lane's breaker or all of a batch; returns them as they are now."""
        with self._writing.begin() as connection:
            hold(connection, Lock.BREAKERS, batch)
            states = _breakers(connection, batch)
            changed = [reset(state) for state in states if lane in (None, state.lane)]
            _store_breakers(connection, changed)
        return self.breakers(batch)

    def batch(self, batch: str) -> Sequence[Any]:
        """Every rollout of a batch, oldest first.

        Returns:
            Rows of ``ENTRY_COLUMNS``, None from ``health`` on where it was not judged; then
            why it was not admitted, and an unhealthy one's verdict as JSON text.
        """
        told = case((verdicts.c.health != "healthy", verdicts.c.verdict))
        columns = (*ENTRY_COLUMNS, rollouts.c.skipped, told)
        query = (
            # As the driver gives them: a summary only asks of a flag whether it is set.
            select(*(type_coerce(each, NULLTYPE) for each in columns))
            .select_from(rollouts.outerjoin(verdicts, verdicts.c.rollout_id == rollouts.c.id))
            .where(rollouts.c.batch == batch)
        )
        with self._reading.connect() as connection:
            found = connection.execute(query.order_by(rollouts.c.created_at, rollouts.c.id))
            return found.all()

    def earlier_causes(self, batch: str | None, task: str, attempt: int) -> list[str]:
        """The causes of a task's attempts before this one, oldest first."""
        query = (
            select(verdicts.c.cause)
            .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
            .where(rollouts.c.batch == batch, rollouts.c.task == task)
            .where(rollouts.c.attempt < attempt, verdicts.c.cause.is_not(None))
        )
        with self._reading.connect() as connection:
            return [row[0] for row in connection.execute(query.order_by(rollouts.c.attempt))]

    def fingerprints(self) -> list[Row]:
        """Which causes strike how many rollouts, across batches; the most frequent first."""
        struck = func.count().label("rollouts")
        query = (
            select(
                verdicts.c.fingerprint,
                verdicts.c.subcategory,
                struck,
                func.count(verdicts.c.batch.distinct()).label("batches"),
                func.min(verdicts.c.given_at).label("first_seen"),
                func.max(verdicts.c.given_at).label("last_seen"),
            )
            .where(verdicts.c.fingerprint.is_not(None))
            .group_by(verdicts.c.fingerprint, verdicts.c.subcategory)
            .order_by(struck.desc(), verdicts.c.fingerprint)
        )
        with self._reading.connect() as connection:
            return list(connection.execute(query).mappings())

    def census(self, now: float) -> StoreCounts:
        """How many rollouts were judged how, and how many breakers hold a lane."""
        judged = select(verdicts.c.health, func.count()).group_by(verdicts.c.health)
        held = select(breakers.c.state).where(breakers.c.state.like('%"phase":"%open"%'))
        with self._reading.connect() as connection:
            healths = {row[0]: row[1] for row in connection.execute(judged)}
            states = [_breaker(json.loads(row[0])) for row in connection.execute(held)]
        phases = Counter(breaker_at(state, now).phase for state in states)
        return StoreCounts(
            verdicts=healths,
            breakers={phase.value: phases[phase] for phase in (Phase.OPEN, Phase.HALF_OPEN)},
        )

    def telling(self, ring: Callable[[], object]) -> AbstractContextManager[bool]:
        """Have ``ring`` called, in another thread, when there may be new events.

        Returns:
            A context, whose value is False where nobody will call: look by and by.
        """
        bell = self._engines.bell
        return contextlib.nullcontext(False) if bell is None else _heard(bell, ring)

    def last_event(self) -> int:
        """The newest event's number; 0 where there is none."""
        with self._reading.connect() as connection:
            return connection.scalar(select(func.max(events.c.id))) or 0

    def events(self, batch: str, *, after: int, limit: int = 500) -> tuple[list[Row], int]:
        """A batch's events after a number, and the number up to which was looked."""
        owner = func.coalesce(events.c.batch, rollouts.c.batch)
        query = (
            select(events, owner.label("owner"))
            .select_from(events.outerjoin(rollouts, rollouts.c.id == events.c.rollout_id))
            .where(events.c.id > after)
            .order_by(events.c.id)
            .limit(limit)
        )
        with self._reading.connect() as connection:
            found = connection.execute(query).mappings().all()
        newest = found[-1]["id"] if found else after
        return [row for row in found if row["owner"] == batch], newest

    def unjudged(
        self, *, batch: str | None = None, among: Sequence[str] | None = None, limit: int
    ) -> list[str]:
        """Rollouts whose standing may have changed since they were judged, oldest first.

        Those without a verdict, and those with a provisional one whose calls are not all in it;
        of one batch, among these ids, or of all.
        """
        joined = rollouts.outerjoin(verdicts, verdicts.c.rollout_id == rollouts.c.id)
        unseen = and_(verdicts.c.provisional.is_(True), _not_all_seen())
        query = select(rollouts.c.id).select_from(joined)
        query = query.where(verdicts.c.rollout_id.is_(None) | unseen)
        if batch is not None:
            query = query.where(rollouts.c.batch == batch)
        if among is not None:
            query = query.where(rollouts.c.id.in_(among))
        with self._reading.connect() as connection:
            found = connection.execute(query.order_by(rollouts.c.created_at).limit(limit))
            return [row[0] for row in found]

    def rollouts_page(
        self, filters: Mapping[str, str], *, after: tuple[float, str] | None, limit: int
    ) -> list[Row]:
        """Rollouts with the verdict they have, oldest first; filters by contract §2's names."""
        joined = rollouts.outerjoin(verdicts, verdicts.c.rollout_id == rollouts.c.id)
        query = select(
            rollouts,
            verdicts.c.health,
            verdicts.c.subcategory,
            verdicts.c.fingerprint,
            verdicts.c.provisional,
        ).select_from(joined)
        for name, value in filters.items():
            query = query.where(_FILTERS[name] == value)
        if after is not None:
            query = query.where(tuple_(rollouts.c.created_at, rollouts.c.id) > after)
        query = query.order_by(rollouts.c.created_at, rollouts.c.id).limit(limit)
        with self._reading.connect() as connection:
            return list(connection.execute(query).mappings())

    def answers(self) -> bool:
        """Whether the database can be read now."""
        try:
            with self._noticing(), self._reading.connect() as connection:
                connection.execute(select(func.count()).select_from(server))
        except AwayError:
            return False
        return True


def _not_all_seen() -> ColumnElement[bool]:
    """Whether a rollout has calls that its verdict does not know, or may know wrongly."""
    ended = (
        select(func.count())
        .where(exchanges.c.rollout_id == rollouts.c.id)
        .correlate(rollouts)
        .scalar_subquery()
    )
    in_flight = select(open_calls.c.id).where(open_calls.c.rollout_id == rollouts.c.id)
    unreported = rollouts.c.outcome_at.is_not(None)  # its final verdict was not stored
    missing = rollouts.c.gaps > 0
    return or_(ended != verdicts.c.calls, in_flight.exists(), unreported, missing)


# As the driver gives them: `exchange_of` knows their types.
_EXCHANGES = cast(Select[Any], select(*map(column, EXCHANGE_COLUMNS))).select_from(exchanges)

# Under the names that `classifier.batches.Entry` has, in its order.
ENTRY_COLUMNS = (
    rollouts.c.id,
    rollouts.c.task,
    rollouts.c.attempt,
    *(verdicts.c[name] for name in Entry._fields[3:-1]),
)

_FILTERS: dict[str, ColumnElement[Any]] = {
    "batch": rollouts.c.batch,
    "task": rollouts.c.task,
    "health": verdicts.c.health,
    "subcategory": verdicts.c.subcategory,
    "fingerprint": verdicts.c.fingerprint,
}


def url_of(named: str) -> URL:
    """A file's name or an SQLAlchemy URL as a URL that names its driver.

    Raises:
        UrlError: it is neither, or names a database that is neither SQLite nor PostgreSQL.
    """
    if "://" not in named:
        return URL.create("sqlite", database=named)
    try:
        url = make_url(named)
    except (ArgumentError, ValueError):
        raise UrlError("it is no URL of SQLAlchemy's") from None
    if url.get_backend_name() == "sqlite":
        return url
    if url.drivername.partition("+")[0] not in ("postgres", "postgresql"):
        raise UrlError("only SQLite and PostgreSQL are known here")
    return url.set(drivername="postgresql+psycopg")


def _postgres(url: URL) -> Engines:
    try:
        from proxy.store import postgres  # noqa: PLC0415  an extra, and nothing for SQLite
    except ModuleNotFoundError:
        raise UrlError("PostgreSQL takes the extra: pip install 'truezero[postgres]'") from None
    return postgres.engines(url)


def _sqlite(url: URL) -> Engines:
    writing = _sqlite_engine(url, "BEGIN IMMEDIATE", busy_ms=_BUSY_MS)
    recording = _sqlite_engine(url, "BEGIN IMMEDIATE", busy_ms=_RECORDING_BUSY_MS)
    return Engines(
        reading=_sqlite_engine(url, "BEGIN", busy_ms=_BUSY_MS),
        writing=writing,
        preparing=writing,
        ledger=SqliteCommitWriter(recording),
    )


def _sqlite_engine(url: URL, begin: str, *, busy_ms: int) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        connect_args={"check_same_thread": False, "timeout": busy_ms / 1000},
    )
    event.listen(engine, "connect", _sqlite_connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _sqlite_connected(connection: Any, _record: object) -> None:
    # Transactions are begun by the `begin` listener, not by the driver's own guess.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # A killed process loses nothing with NORMAL; only a power cut could lose the last commits.
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _ended_sessions(connection: Connection) -> dict[str, int]:
    query = select(server).where(server.c.name.startswith(_ENDED))
    return {row.name.removeprefix(_ENDED): int(row.value) for row in connection.execute(query)}


def _secret(connection: Connection, name: str) -> str | None:
    found: str | None = connection.scalar(select(server.c.value).where(server.c.name == name))
    return found


def _add(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row where none stands under its key; whether it was inserted."""
    adding = _insert(connection.dialect.name)(table).values(**row).on_conflict_do_nothing()
    added: bool = connection.execute(adding).rowcount == 1
    return added


@cache
def _insert(dialect: str) -> Callable[[Table], Any]:
    """The dialect's own insert: its engine has loaded it; another would take 15 ms of a start."""
    made: Callable[[Table], Any] = import_module(f"sqlalchemy.dialects.{dialect}").insert
    return made


@cache
def _provisional(dialect: str) -> Any:
    """Keeps a verdict; a final one stands, for this was read before the outcome came."""
    adding = _insert(dialect)(verdicts)
    return adding.on_conflict_do_update(
        index_elements=["rollout_id"],
        set_={name: adding.excluded[name] for name in verdicts.columns.keys()},  # noqa: SIM118
        where=verdicts.c.provisional.is_(True),
    )


def _rollout_row(connection: Connection, rollout_id: str, *, changing: bool = False) -> Row | None:
    """A rollout's row; ``changing`` holds other writers of it up until the transaction ends."""
    query = select(rollouts).where(rollouts.c.id == rollout_id)
    if changing:
        query = query.with_for_update(key_share=True)
    return connection.execute(query).mappings().one_or_none()


def _update_rollout(connection: Connection, rollout_id: str, **values: Any) -> None:
    connection.execute(update(rollouts).where(rollouts.c.id == rollout_id).values(**values))


def _admission(
    connection: Connection, registration: Registration, admit: Admit | None
) -> str | None:
    if admit is None or registration.batch is None:
        return None
    decision = admit(_breakers(connection, registration.batch))
    _store_breakers(connection, decision.changed)
    return decision.error


def _breakers(connection: Connection, batch: str) -> list[BreakerState]:
    query = select(breakers.c.state).where(breakers.c.batch == batch).order_by(breakers.c.lane)
    return [_breaker(json.loads(row[0])) for row in connection.execute(query)]


def _breaker(stored: dict[str, Any]) -> BreakerState:
    tripped_by = tuple(stored.pop("tripped_by"))
    return BreakerState(phase=Phase(stored.pop("phase")), tripped_by=tripped_by, **stored)


def _store_breakers(connection: Connection, states: Iterable[BreakerState]) -> None:
    for state in states:
        key = (breakers.c.batch == state.batch) & (breakers.c.lane == state.lane)
        connection.execute(delete(breakers).where(key))
        connection.execute(
            insert(breakers).values(
                batch=state.batch, lane=state.lane, state=as_json(asdict(state))
            )
        )


@contextlib.contextmanager
def _heard(bell: NotificationSource, ring: Callable[[], object]) -> Iterator[bool]:
    with bell.heard_by(ring):
        yield True


def _tell(
    connection: Connection, kind: str, at: float, data: Mapping[str, Any], row: Mapping[str, Any]
) -> None:
    hold(connection, Lock.EVENTS)
    connection.execute(
        insert(events).values(
            kind=kind, rollout_id=row["rollout_id"], batch=row["batch"], at=at, data=as_json(data)
        )
    )
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_notify(EVENTS_CHANNEL, "")))


def _opening(state: BreakerState) -> dict[str, Any]:
    return {
        "lane": state.lane,
        "fingerprint": state.fingerprint,
        "streak": state.streak,
        "tripped_by": list(state.tripped_by),
    }


def _failure(exchange: Exchange) -> tuple[Any, ...]:
    """A failed call as an event: ids and counts, no word of the provider's."""
    cause, ended = exchange.cause, exchange.timing.duration_s or 0.0
    assert cause is not None
    data = {
        "exchange": exchange.id,
        "status": exchange.status,
        "subcategory": cause.subcategory.value,
        "transient": cause.transient,
    }
    at = exchange.timing.started_at + ended
    return ("exchange_failed", exchange.rollout_id, at, as_json(data))


def _open_rows(connection: Connection, rollout_id: str) -> Sequence[Row]:
    query = select(open_calls).where(open_calls.c.rollout_id == rollout_id)
    return connection.execute(query).mappings().all()


def _is_new(error: DBAPIError) -> bool:
    """Whether a database without tables stands where ours was."""
    missing = getattr(error.orig, "sqlstate", None) == "42P01"
    return missing or "no such table" in str(error.orig)


def _rollout_of(row: Row, seen: tuple[Exchange, ...]) -> RolloutRecord:
    return RolloutRecord(
        id=row["id"],
        batch=row["batch"],
        task=row["task"],
        attempt=row["attempt"],
        model=row["model"],
        upstream=row["upstream"],
        usage_channel=row["usage_channel"],
        exchanges=seen,
        gaps=row["gaps"],
    )


def _is_dead(worker: Row, host: str, silent_at: float) -> bool:
    if worker["seen_at"] < silent_at:
        return True
    if worker["host"] != host:
        return False
    return worker["pid"] == os.getpid() or not _alive(worker["pid"])


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _nobody_elses(connection: Connection, dead: Sequence[str]) -> list[str]:
    """Those of the dead that no other process is burying now, held until the transaction ends."""
    ours = select(workers.c.id).where(workers.c.id.in_(dead)).with_for_update(skip_locked=True)
    return list(connection.execute(ours).scalars())


def _bury(connection: Connection, dead: Sequence[str]) -> None:
    """Turn what dead workers left open into lost exchanges."""
    theirs = open_calls.c.worker.in_(dead)
    for row in connection.execute(select(open_calls).where(theirs)).mappings().all():
        _add(connection, exchanges, lost_row(row))
    connection.execute(delete(open_calls).where(theirs))
    connection.execute(delete(workers).where(workers.c.id.in_(dead)))


def as_json(value: object) -> str:
    """JSON text as it is stored: one spelling for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
