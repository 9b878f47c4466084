"""The table of rollouts: registered, reported and revoked."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, Protocol

from sqlalchemy import Connection, Float, bindparam, cast, exists, func, null, select, update

from classifier.codec import decode_limit_reached
from classifier.declarations import declared
from classifier.records import Exchange, Kind, RolloutRecord
from proxy.feature import modules
from proxy.store.batch_counts import forget_kinds
from proxy.store.batch_versions import changing
from proxy.store.calls import calls_of
from proxy.store.closings import add_closing, closing_of
from proxy.store.connections import Connections
from proxy.store.deployment import OUTAGE_UNTIL
from proxy.store.events import write_event
from proxy.store.open_places import PLACE, OpenPlaces, leaves_open
from proxy.store.tables import (
    BATCH_FACTS,
    JOINED,
    TERMS,
    OfIds,
    PolicyTerms,
    Registered,
    Registration,
    Reported,
    Row,
    add,
    exchanges,
    insert_into,
    open_calls,
    rollouts,
    unjudged,
    verdicts,
    workers,
)
from proxy.store.verdicts import adds_rewards, final_parts, state_of

# --- registrations -----------------------------------------------------------------------------
# Any number of them in one transaction and a few statements.


Columns = dict[str, Any]
_NONE: Mapping[str, bool] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRegistration:
    """A registration, and what decides about it.

    ``policy`` is how it is to be judged; its batch's first registration decides. ``asked``: what it
    asks for of features, by their names.
    """

    registration: Registration
    policy: PolicyTerms = field(default_factory=PolicyTerms)
    asked: Mapping[str, Any] = field(default_factory=dict)


class RegistrationPart(Protocol):
    """The part of a feature in registrations, within their transaction.

    It is the result of ``begin(connection, registrations, now)`` of the module ``registration`` of
    a feature. That has ``FIELDS``, those of a request that it takes, too, and ``prepare(request)``:
    what this returns is in ``asked``, by the feature's name.
    """

    def refuses(self, prepared: PreparedRegistration) -> str | None:
        """Return the sentence why its batch cannot have what a registration asks for."""
        ...

    def differs(self, prepared: PreparedRegistration) -> bool:
        """Return True if a rollout was registered with something else before."""
        ...

    def take(self, prepared: PreparedRegistration) -> None:
        """Have the next `write` store what a registration asks for."""
        ...

    def write(self) -> None:
        """Write what was taken."""
        ...

    def rules(self, rollout_id: str) -> bool:
        """Return True if a rollout's calls are under a rule of the feature."""
        ...

    def skips(self, prepared: PreparedRegistration) -> str | None:
        """Return the sentence why a rollout is not to run; None admits it.

        It is asked after `write`, in the order of registrations, and stores what follows for the
        next ones. The lock of the batch is held, so that no two processes admit one too many.
        """
        ...


def register(
    connection: Connection,
    registrations: Sequence[PreparedRegistration],
    *,
    now: float,
    measured: Mapping[str, bool] = _NONE,
) -> list[Registered]:
    """Register rollouts in their order; those that their own traffic created are filled in.

    Arguments:
        measured: whether rollouts are that `NotJudged` named.

    Raises:
        NotJudged: a place depends on ended rollouts without a verdict.
    """
    into = {each.registration.batch for each in registrations}
    with changing(connection, set(map(_id, registrations)), into=into):
        work = _Work(connection, registrations, now, measured)
        results = [work.take(each) for each in registrations]
        lost = work.write()
        return [
            refused or (Registered(conflict=True) if _id(each) in lost else work.admit(each))
            for each, refused in zip(registrations, results, strict=True)
        ]


def _id(prepared: PreparedRegistration) -> str:
    return prepared.registration.id


class _Work:
    """The rows that one transaction found, and those that it has to write."""

    def __init__(
        self,
        connection: Connection,
        registrations: Sequence[PreparedRegistration],
        now: float,
        measured: Mapping[str, bool],
    ) -> None:
        self._connection = connection
        self._now = now
        self._rows = _rows(connection, map(_id, registrations))
        known = [each.registration for each in registrations]
        self._places = OpenPlaces(connection, known, measured)
        self._standing: dict[str | None, Mapping[str, str | None]] = {}
        self._parts: list[RegistrationPart] = [
            module.begin(connection, registrations, now) for _, module in modules("registration")
        ]
        self._fresh: dict[str, Columns] = {}
        self._filled: dict[str, Columns] = {}
        self._asked: dict[str, str | None] = {}

    def take(self, prepared: PreparedRegistration) -> Registered | None:
        """Decide about a registration; None if it is to be written."""
        registration, attributes = prepared.registration, prepared.registration.attributes
        row = self._rows.get(registration.id)
        terms = self._terms(prepared, row)
        differing = {
            name: terms[name] for name, _ in prepared.policy.stated.items() - terms.items()
        }
        if differing:
            return Registered(differing=differing)
        for part in self._parts:
            if (refused := part.refuses(prepared)) is not None:
                return Registered(refused=refused)
        placed = self._placed(prepared, row)
        if isinstance(placed, Registered):
            return placed
        attributes |= placed
        again = row is not None and row["registered"]
        if row is None:
            row = {"id": registration.id, "registered": True, "created_at": self._now}
            self._fresh[registration.id] = row | attributes | terms
        elif row["registered"]:
            if _differs(row, attributes) or any(part.differs(prepared) for part in self._parts):
                return Registered(conflict=True)
            if row.get("outcome") is not None:  # this transaction's own rows have none
                return Registered(ended=True)
        elif row["outcome"] is not None and _differs(row, attributes):
            return Registered(conflict=True)  # its verdict may be final
        else:
            self._filled[registration.id] = attributes | terms
        self._rows[registration.id] = {**row, "registered": True, **attributes, **terms}
        if not again:
            self._places.taken(registration, attributes)
        self._standing[registration.batch] = terms
        for part in self._parts:
            part.take(prepared)
        return None

    def _placed(self, prepared: PreparedRegistration, row: Columns | None) -> Registered | Columns:
        """Return the place that a registration leaves open, or why it is not written."""
        registration = prepared.registration
        if not leaves_open(registration):
            return {}
        if row is not None and row["registered"]:
            return _place_of(row)
        place = self._places.of(registration)
        if place is None:
            return Registered(measured=True)
        if row is None and _is_unplanned(registration, place):
            skipped = self._skipped(prepared)
            if skipped is not None:
                return Registered(skipped=skipped, place=place)
        return place

    def write(self) -> set[str]:
        """Write all that was taken; returns ids that another process registered otherwise."""
        lost = set()
        if self._fresh:
            missing = _insert_missing(self._connection.dialect.name)
            added = self._connection.execute(missing, list(self._fresh.values())).rowcount
            there = _rows(self._connection, self._fresh) if added < len(self._fresh) else {}
            for name, row in there.items():
                given = {key: self._fresh[name][key] for key in (*_ATTRIBUTES, *TERMS)}
                if not row["registered"]:  # its first call was recorded meanwhile
                    self._filled[name] = given
                elif _differs(row, {key: given[key] for key in _ATTRIBUTES}):
                    lost.add(name)
        if self._filled:
            fill_in(self._connection, self._filled)
        move(self._connection, self._places.moved())
        for part in self._parts:
            part.write()
        return lost

    def admit(self, prepared: PreparedRegistration) -> Registered:
        """Store why a rollout is skipped, or that it is not; returns its whole result."""
        row = self._rows[_id(prepared)]
        skipped = self._skipped(prepared)
        if skipped != row.get("skipped"):
            note_skipped(self._connection, row["id"], skipped)
        if skipped is not None:
            announce_skipped(self._connection, prepared.registration, self._now)
        return Registered(
            skipped=skipped,
            policy={name: row.get(name) for name in TERMS},
            place=_place_of(row),
            ruled=any(part.rules(row["id"]) for part in self._parts),
        )

    def _skipped(self, prepared: PreparedRegistration) -> str | None:
        """Return why a rollout is not to run; no feature is asked twice."""
        name = _id(prepared)
        if name not in self._asked:
            said = (part.skips(prepared) for part in self._parts)
            self._asked[name] = next(filter(None, said), None)
        return self._asked[name]

    def _terms(self, prepared: PreparedRegistration, row: Columns | None) -> dict[str, str | None]:
        """Return the columns that say how a rollout is judged: as its batch, else as stated."""
        batch = prepared.registration.batch
        if batch is None:
            standing: Mapping[str, str | None] = row if row and row["registered"] else {}
        else:
            if batch not in self._standing:
                self._standing[batch] = policy_of(self._connection, batch)
            standing = self._standing[batch]
        return terms(standing, prepared.policy)


_ATTRIBUTES = tuple(Registration(id="").attributes)
_NAMED = frozenset({"batch", "task", *PLACE})  # of an attribute, as answers state it


def _is_unplanned(registration: Registration, place: Mapping[str, int | None]) -> bool:
    """Return True for a further repeat of a task that nobody said is to have it.

    If it is skipped it is not stored: a batch lacks no repeat that was not planned.
    """
    return registration.repeats is None and place["attempt"] == 0


def _place_of(row: Mapping[str, Any]) -> dict[str, int | None]:
    return {name: row[name] for name in PLACE}


def _rows(connection: Connection, ids: Iterable[str]) -> dict[str, Columns]:
    """Read rows by id, and block other writers of them until the transaction ends."""
    locked = _LOCKED.execute(connection, set(ids)).mappings()
    return {row["id"]: dict(row) for row in locked}


_LOCKED = OfIds(
    lambda among: (
        select(rollouts)
        .where(among(rollouts.c.id))
        .order_by(rollouts.c.id)
        .with_for_update(key_share=True)
    )
)


@cache
def _insert_missing(dialect: str) -> Any:
    missing = insert_into(dialect, rollouts).on_conflict_do_nothing()
    return missing.execution_options(preserve_rowcount=True)


def _differs(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    return any(row[name] != value for name, value in attributes.items())


def policy_of(connection: Connection, batch: str) -> Mapping[str, str | None]:
    """Return the policy of a batch, which is its first rollout's; empty without one."""
    return dict(connection.execute(_FIRST_TERMS, {"of": batch}).mappings().one_or_none() or {})


_FIRST_TERMS = (
    select(*(rollouts.c[name] for name in TERMS))
    .where(rollouts.c.batch == bindparam("of"))
    .order_by(rollouts.c.created_at, rollouts.c.id)
    .limit(1)
)


def terms(standing: Mapping[str, str | None], policy: PolicyTerms) -> dict[str, str | None]:
    """Return the columns that say how a rollout is judged: as it stands, else as stated.

    A batch that was begun without a fact stays without it.
    """
    fixed = BATCH_FACTS if standing else ()
    return {
        name: standing.get(name)
        or (None if name in fixed else policy.stated.get(name) or policy.default.get(name))
        for name in TERMS
    }


def fill_in(connection: Connection, attributes: Mapping[str, Mapping[str, Any]]) -> None:
    """Register rollouts that exist, with attributes by id; what is not final is then outdated."""
    rows = [{**row, "registered": True, "of": name} for name, row in attributes.items()]
    connection.execute(_UPDATE, rows)
    outdated = verdicts.c.rollout_id.in_(list(attributes)), verdicts.c.provisional
    connection.execute(update(verdicts).where(*outdated).values(calls=-1))
    forget_kinds(connection, attributes)
    _place_verdicts(connection, attributes)


def move(connection: Connection, places: Mapping[str, Mapping[str, int | None]]) -> None:
    """Give rollouts that had no numbers in their task the ones that later tries go by."""
    if places:
        connection.execute(_UPDATE, [{**place, "of": name} for name, place in places.items()])
        _place_verdicts(connection, places)


def _place_verdicts(connection: Connection, attributes: Mapping[str, Mapping[str, Any]]) -> None:
    """Put stored verdicts where their rollouts are now: a final one is not judged again."""
    columns = verdicts.c.rollout_id, verdicts.c.batch, verdicts.c.verdict, verdicts.c.result
    stored = select(*columns).where(verdicts.c.rollout_id.in_(list(attributes)))
    for row in connection.execute(stored).mappings().all():
        given = attributes[row["rollout_id"]]
        placed = {"batch": given.get("batch", row["batch"])}
        for name in ("verdict", "result"):
            placed[name] = row[name] and _with_place(row[name], given)
        own = verdicts.c.rollout_id == row["rollout_id"]
        connection.execute(update(verdicts).where(own).values(placed))


def _with_place(text: str, given: Mapping[str, Any]) -> str:
    document = json.loads(text)
    document |= {name: given[name] for name in _NAMED & given.keys() & document.keys()}
    return json.dumps(document, separators=(",", ":"))


def note_skipped(connection: Connection, rollout_id: str, why: str | None) -> None:
    """Store why a rollout is skipped, or None: that it is not."""
    _update(connection, rollout_id, skipped=why)
    forget_kinds(connection, [rollout_id])


def announce_skipped(connection: Connection, registration: Registration, now: float) -> None:
    """Write what follows for who waits for a rollout's verdict, as it will not run.

    The lock of the batch is held, so that no two rollouts are both the last one.
    """
    row = {"rollout_id": registration.id, "batch": registration.batch, "given_at": now}
    for part in final_parts(None):
        part.read(connection, row)
        for event in part.write(connection, row):
            write_event(connection, event, row)


# --- rollouts ----------------------------------------------------------------------------------


_UNSAID = PolicyTerms()


class Rollouts:
    """Reads and writes the table `rollouts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def register(
        self,
        registration: Registration,
        *,
        now: float,
        policy: PolicyTerms = _UNSAID,
    ) -> Registered:
        """Register a rollout; one that its own traffic created is filled in.

        Arguments:
            policy: as in `PreparedRegistration`.
        """
        prepared = PreparedRegistration(registration=registration, policy=policy)
        return self.register_all([prepared], now=now)[0]

    def register_all(
        self,
        registrations: Sequence[PreparedRegistration],
        *,
        now: float,
        measured: Mapping[str, bool] = _NONE,
    ) -> list[Registered]:
        """Register rollouts in one transaction, as `register` does."""
        with self._connections.writing() as connection:
            return register(connection, registrations, now=now, measured=measured)

    def report(
        self,
        rollout_id: str,
        outcome: str,
        *,
        now: float,
        attributes: Mapping[str, Any] | None = None,
        registers: bool = False,
        policy: PolicyTerms = _UNSAID,
        measured: Mapping[str, bool] = _NONE,
        worker: str = "",
    ) -> Reported:
        """Store a rollout's outcome, once; one without rewards may be given them once, later.

        Where a final verdict stands on it, `Verdicts.add_rewards` stores them, with what they
        change in it.

        Arguments:
            attributes: those of its registration that the report states, as columns; they fill
                in a rollout that only its own traffic created.
            registers: register a rollout that is unknown.
            policy, measured: as in `register`.
            worker: who reports it.

        Raises:
            NotJudged: as `register`.
        """
        attributes = attributes or {}
        with (
            self._connections.writing() as connection,
            changing(connection, [rollout_id], into=[attributes.get("batch")]),
        ):
            row = _reported(connection, rollout_id, worker)
            if row is None and registers:
                attributes = {**attributes, **_open_place(connection, attributes, measured)}
                fresh = {"id": rollout_id, "registered": True, "created_at": now, **attributes}
                fresh |= _terms(connection, None, attributes.get("batch"), policy)
                add(connection, rollouts, fresh)  # or its first call does, in another process
                row = _reported(connection, rollout_id, worker)
            if row is None:
                return Reported()
            standing = row["outcome"]
            if any(row[name] != value for name, value in attributes.items()):
                if row["registered"] or standing is not None:
                    return Reported(outcome=standing or outcome, conflict=True)
                judged = _terms(connection, row, attributes.get("batch"), policy)
                placed = _open_place(connection, attributes, measured)
                fill_in(connection, {rollout_id: {**attributes, **placed, **judged}})
            closing, rewarded = None, adds_rewards(standing, outcome)
            if rewarded:
                if not state_of(connection, rollout_id).stands:
                    _update(connection, rollout_id, outcome=outcome)
                standing = outcome
            if standing is None:
                gaps = row["gaps"] + _cut_off(connection, row)
                if row["skipped"]:  # judged before as one that did not run
                    early = update(verdicts).where(verdicts.c.rollout_id == rollout_id)
                    connection.execute(early.values(provisional=True, calls=-1))
                _update(connection, rollout_id, outcome=outcome, outcome_at=now, gaps=gaps)
                if row["judged"]:
                    forget_kinds(connection, [rollout_id])
                closing = add_closing(connection, rollout_id, now=now)
            elif row["closed_at"] is None:  # whoever was to end its calls did not come back
                closing = closing_of(connection, rollout_id)
        return Reported(
            outcome=standing or outcome,
            closing=closing,
            rewarded=rewarded,
            others=bool(row["others"]),
        )

    def is_registered(self, rollout_id: str) -> bool:
        """Return True if a runner registered this rollout."""
        row = self.row(rollout_id)
        return row is not None and bool(row["registered"])

    def row(self, rollout_id: str) -> Row | None:
        """Return one rollout's columns, without its exchanges."""
        with self._connections.reading() as connection:
            return _row(connection, rollout_id)

    def registered_alike(self, rollout: RolloutRecord, among: Collection[str]) -> set[str]:
        """Return those of the rollouts ``among`` that have another one's registration.

        That is its batch, its models and its upstream; a rollout of no batch has it to itself.
        """
        if rollout.batch is None:
            return set()
        query = select(rollouts.c.id).where(
            rollouts.c.id.in_(among),
            rollouts.c.batch == rollout.batch,
            rollouts.c.model == rollout.model,
            rollouts.c.upstream == rollout.upstream,
            func.coalesce(rollouts.c.fallbacks, "") == "\n".join(rollout.fallbacks),
        )
        with self._connections.reading() as connection:
            return set(connection.execute(query).scalars())

    def failing_attempts(
        self, batch: str | None, task: str | None, attempt: int, *, repeat: int | None
    ) -> list[float]:
        """Return when a task's attempts up to this one began to fail, oldest first.

        That is the begin of the first failed call after the last answered one, or of the attempt.
        """
        answered, failed = exchanges.alias(), exchanges.alias()
        last = (
            select(func.max(answered.c.started_at))
            .where(answered.c.rollout_id == rollouts.c.id, answered.c.subcategory.is_(None))
            .scalar_subquery()
        )
        began = (
            select(func.min(failed.c.started_at))
            .where(failed.c.rollout_id == rollouts.c.id, failed.c.subcategory.is_not(None))
            .where(failed.c.started_at > func.coalesce(last, 0.0))
            .scalar_subquery()
        )
        at = func.coalesce(began, rollouts.c.created_at)
        query = (
            select(at)
            .where(rollouts.c.batch.is_not_distinct_from(batch), rollouts.c.task == task)
            .where(rollouts.c.repeat.is_not_distinct_from(repeat), rollouts.c.attempt <= attempt)
            .order_by(at)
        )
        with self._connections.reading() as connection:
            return list(connection.scalars(query))

    def load(self, rollout_id: str) -> tuple[Row, RolloutRecord] | None:
        """Return one rollout as `load_some` does; None if it is unknown."""
        return self.load_some([rollout_id]).get(rollout_id)

    def load_some(self, rollout_ids: Collection[str]) -> dict[str, tuple[Row, RolloutRecord]]:
        """Return the columns of rollouts, and their records with exchanges, by id.

        Calls in flight are included. Beside the columns there are ``change``, the last one that was
        not judged yet, ``final``, whether it has a final verdict, what that ``stands_on``, and
        ``up_s``, for how many seconds PostgreSQL has been up by its own clock, None for SQLite. Of
        however many rollouts it makes two queries, and a third if any has a call in flight.
        """
        with self._connections.reading() as connection:
            found = _to_judge(connection.dialect.name).execute(connection, rollout_ids)
            rows = {row["id"]: row for row in found.mappings()}
            in_flight = [name for name, row in rows.items() if row["in_flight"]]
            calls = calls_of(connection, rows, in_flight=in_flight) if rows else {}
        return {name: (row, record_of(row, calls[name])) for name, row in rows.items()}

    def expire(self, rollout_id: str, *, at: float) -> None:
        """Make a rollout's key and secret invalid from then on; never later than before."""
        with self._connections.writing() as connection:
            _revoke(connection, rollout_id, at)

    def revoke(self, rollout_id: str, *, now: float) -> int:
        """Make them invalid now; returns the number with which its calls are to be ended."""
        with self._connections.writing() as connection:
            _revoke(connection, rollout_id, now)
            return add_closing(connection, rollout_id, now=now)


def _row(connection: Connection, rollout_id: str) -> Row | None:
    return connection.execute(_OWN, {"of": rollout_id}).mappings().one_or_none()


def _reported(connection: Connection, rollout_id: str, worker: str) -> Row | None:
    """Read a rollout's row, and block other writers of it until the transaction ends.

    Beside the columns there are ``judged``, whether it has a verdict, ``others``, whether there are
    other workers than this one, and ``outage_until``.
    """
    named = {"of": rollout_id, "worker": worker}
    return connection.execute(_REPORTED, named).mappings().one_or_none()


_OWN = select(rollouts).where(rollouts.c.id == bindparam("of"))
_REPORTED = _OWN.add_columns(
    exists().where(verdicts.c.rollout_id == rollouts.c.id).label("judged"),
    exists().where(workers.c.id != bindparam("worker")).label("others"),
    OUTAGE_UNTIL.label("outage_until"),
).with_for_update(of=rollouts, key_share=True)
_LAST_CHANGE = select(unjudged.c.change).where(unjudged.c.rollout_id == rollouts.c.id)


@cache
def _to_judge(dialect: str) -> OfIds:
    up_for = func.extract("epoch", func.now() - func.pg_postmaster_start_time())
    columns = (
        rollouts,
        _LAST_CHANGE.scalar_subquery().label("change"),
        verdicts.c.provisional.is_(False).label("final"),
        verdicts.c.stands_on,
        exists().where(open_calls.c.rollout_id == rollouts.c.id).label("in_flight"),
        (null() if dialect == "sqlite" else cast(up_for, Float)).label("up_s"),
    )
    joined = select(*columns).select_from(JOINED)
    return OfIds(lambda among: joined.where(among(rollouts.c.id)))


_UPDATE = update(rollouts).where(rollouts.c.id == bindparam("of"))


def _open_place(
    connection: Connection, attributes: Mapping[str, Any], measured: Mapping[str, bool]
) -> dict[str, int | None]:
    """Return the place in its task of a rollout that its report registers and leaves open."""
    known: dict[str, Any] = {name: attributes.get(name) for name in ("batch", "task", *PLACE)}
    registration = Registration(**known, id="")
    if not leaves_open(registration):
        return {}
    places = OpenPlaces(connection, [registration], measured)
    place = places.of(registration) or {}  # an outcome names no `repeats`: a place is left
    move(connection, places.moved())
    return place


def _terms(
    connection: Connection, row: Row | None, batch: str | None, policy: PolicyTerms
) -> dict[str, str | None]:
    standing = policy_of(connection, batch) if batch is not None else row or {}
    return terms({name: standing[name] for name in TERMS if name in standing}, policy)


def _update(connection: Connection, rollout_id: str, **values: Any) -> None:
    connection.execute(_UPDATE, {"of": rollout_id, **values})


def _revoke(connection: Connection, rollout_id: str, at: float) -> None:
    earlier = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > at)
    connection.execute(
        update(rollouts).where(rollouts.c.id == rollout_id, earlier).values(revoked_at=at)
    )


def _cut_off(connection: Connection, row: Row) -> bool:
    """Return True if the agent was to call again when an outage came, and has not since.

    Its last answer asked for tools; the call with their results may have met no service.
    """
    until = row["outage_until"]
    if until is None or row["created_at"] >= until:
        return False
    theirs = exchanges.c.rollout_id == row["id"]
    own = (exchanges.c.role == "agent") & (exchanges.c.kind == Kind.INFERENCE)
    last = connection.execute(
        select(exchanges.c.started_at, exchanges.c.tool_calls)
        .where(theirs, own)
        .order_by(exchanges.c.started_at.desc())
        .limit(1)
    ).one_or_none()
    if last is None or not last.tool_calls or last.started_at >= until:
        return False
    calling = select(open_calls.c.id).where(open_calls.c.rollout_id == row["id"]).limit(1)
    return connection.scalar(calling) is None


_RENAMED = {"began_at": "created_at", "ended_at": "outcome_at"}
_RECORDED = {each.name: _RENAMED.get(each.name, each.name) for each in declared(RolloutRecord)}
_OF_ROW = {name: column for name, column in _RECORDED.items() if column in rollouts.columns}
_IN_ORDER = itemgetter(*_OF_ROW.values())


def record_of(row: Row | Mapping[str, Any], calls: Iterable[Exchange]) -> RolloutRecord:
    """Return the record of a rollout's columns and its calls, without its outcome.

    Each field of `RolloutRecord` that has a column is read.
    """
    values: dict[str, Any] = dict(zip(_OF_ROW, _IN_ORDER(row), strict=True))
    fallbacks = tuple(row["fallbacks"].split("\n")) if row["fallbacks"] else ()
    reached, rewarded = row["limit_reached"], row["reward_range"]
    apart = {
        "exchanges": tuple(calls),
        "fallbacks": fallbacks,
        "limit_reached": decode_limit_reached(json.loads(reached)) if reached else None,
        "reward_range": tuple(json.loads(rewarded)) if rewarded else None,
        "outcome": None,
    }
    return RolloutRecord(**(values | apart))
