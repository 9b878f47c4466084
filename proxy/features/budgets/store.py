"""Budgets: the limits of rollouts and batches, what is spent of them, and reservations.

A call reserves in one transaction before it is sent, and settles in another once it is on record,
so that all processes count together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Connection,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from classifier.records import LimitReached
from proxy.features.budgets.amounts import (
    LIMITS,
    Amounts,
    BudgetKey,
    BudgetLimits,
    InTheWay,
    Made,
    Reservation,
    limit_in_the_way,
)
from proxy.features.budgets.tables import BATCH, ROLLOUT, budgets, reservations, waiting_calls
from proxy.store.connections import Connections
from proxy.store.limits_reached import note_limits_reached
from proxy.store.tables import Row, add, rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBudget:
    """A rollout's or batch's limits, what is spent of them, and the number of calls in flight.

    ``reached_at``: since when one is spent, in epoch seconds.
    """

    limits: BudgetLimits | None
    spent: Amounts
    in_flight: int
    reached_at: float | None


# --- reading, reserving and settling -----------------------------------------------------------


class Budgets:
    """Reads and writes the tables `budgets` and `reservations`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def state(self, kind: str, name: str) -> StoredBudget | None:
        """Return a rollout's or batch's budget; None if nothing is counted of it."""
        query = select(budgets).where(budgets.c.kind == kind, budgets.c.name == name)
        with self._connections.reading() as connection:
            row = connection.execute(query).mappings().first()
            if row is None:
                return None
            return StoredBudget(
                limits=_limits(row),
                spent=_spent(row),
                in_flight=_in_flight(connection, row).calls,
                reached_at=row["reached_at"],
            )

    def change(self, kind: str, name: str, limits: BudgetLimits) -> bool:
        """Change limits that a registration stated; returns whether there are any."""
        own = (budgets.c.kind == kind) & (budgets.c.name == name) & budgets.c.declared.is_not(None)
        with self._connections.writing() as connection:
            changed = update(budgets).where(own).values(**limits._asdict(), reached_at=None)
            return connection.execute(changed).rowcount == 1

    def limited(self) -> frozenset[str]:
        """Return the rollouts without an outcome whose calls are counted."""
        query = (
            select(budgets.c.name)
            .join(rollouts, rollouts.c.id == budgets.c.name)
            .where(budgets.c.kind == ROLLOUT, rollouts.c.outcome_at.is_(None))
        )
        with self._connections.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def is_limited(self, rollout_id: str) -> bool:
        """Return True if a rollout's calls are counted."""
        own = (budgets.c.kind == ROLLOUT) & (budgets.c.name == rollout_id)
        with self._connections.reading() as connection:
            return connection.execute(select(budgets.c.name).where(own)).first() is not None

    def reserve(
        self, reservation: Reservation, *, worker: str, now: float
    ) -> Made | InTheWay | None:
        """Reserve what a call may spend of its rollout's and its batch's limits.

        `limit_in_the_way` says whether it may begin.

        Returns:
            What was reserved, or what is in the way; None if no limit counts the call.
        """
        with self._connections.writing() as connection:
            by_kind = _rows(connection, reservation.rollout_id)
            own, of_batch = by_kind.get(ROLLOUT), by_kind.get(BATCH)
            if own is None:
                return None
            rows = [own] if of_batch is None else [own, of_batch]
            amounts, left = _amounts(rows, reservation.amounts), math.inf
            for row in rows if reservation.is_agents else ():
                in_flight = _in_flight(connection, row)
                reached = _reached(connection, row, own, in_flight, amounts, reservation, now)
                if reached is not None:
                    if not reached.is_spent:
                        _wait(connection, reservation, row, worker)
                    return InTheWay(reached, _key(row))
                if row["cost_usd"] is not None:
                    left = min(left, row["cost_usd"] - row["spent_cost_usd"] - in_flight.cost_usd)
            if math.isinf(amounts.cost_usd):  # it may take all that is left
                amounts = amounts._replace(cost_usd=0.0 if math.isinf(left) else left)
            stored = amounts._asdict() | {
                "id": reservation.id,
                "rollout_id": reservation.rollout_id if reservation.is_agents else None,
                "batch": None if of_batch is None else of_batch["name"],
                "worker": worker,
            }
            del stored["calls"]
            add(connection, reservations, stored)
            _end_wait(connection, reservation.id)
        return Made(amounts, tuple(map(_key, rows)))

    def end_wait(self, call_id: str) -> None:
        """Forget a call that waits no longer, and has reserved nothing."""
        with self._connections.writing() as connection:
            _end_wait(connection, call_id)

    def settle(self, spent: Mapping[str, Amounts]) -> None:
        """Turn the reservations of calls into what they spent; those that have none add nothing."""
        with self._connections.writing() as connection:
            settle(connection, reservations.c.id.in_(spent), spent)

    def refused(self, rollout_id: str, reached: LimitReached) -> None:
        """Note which limit refused a rollout's agent; its verdict depends on it."""
        note_limits_reached(self._connections, {rollout_id: reached})

    def spent_ones(self) -> list[Row]:
        """Return the rows of `budgets` whose limits are spent while rollouts of theirs run."""
        running = select(rollouts.c.id).where(
            rollouts.c.outcome_at.is_(None),
            or_(
                and_(budgets.c.kind == BATCH, rollouts.c.batch == budgets.c.name),
                and_(budgets.c.kind == ROLLOUT, rollouts.c.id == budgets.c.name),
            ),
        )
        query = select(budgets).where(budgets.c.reached_at.is_not(None), running.exists())
        with self._connections.reading() as connection:
            return list(connection.execute(query).mappings())


def settle(connection: Connection, which: Any, spent: Mapping[str, Amounts]) -> None:
    """Settle reservations: those of whose calls it is not said what they spent as reserved.

    Arguments:
        which: the condition that selects them.
        spent: by the call's id.
    """
    rows = connection.execute(select(reservations).where(which).with_for_update()).mappings().all()
    added: dict[tuple[str, str], list[Amounts]] = {}
    for row in rows:
        reserved = Amounts(1, row["tokens"], row["cost_usd"], row["seconds"])
        amounts = spent.get(row["id"], reserved)
        for kind, name in ((BATCH, row["batch"]), (ROLLOUT, row["rollout_id"])):
            if name is not None:
                added.setdefault((kind, name), []).append(amounts)
    for (kind, name), each in sorted(added.items()):
        own = (budgets.c.kind == kind) & (budgets.c.name == name)
        connection.execute(update(budgets).where(own).values(**_sums(each), **_largest(each)))
    connection.execute(delete(reservations).where(reservations.c.id.in_([r["id"] for r in rows])))


def _rows(connection: Connection, rollout_id: str) -> dict[str, Row]:
    """Return the rows of a rollout and its batch, by kind; nobody else changes them meanwhile."""
    batch = select(budgets.c.batch).where(
        budgets.c.kind == ROLLOUT, budgets.c.name == rollout_id
    ).scalar_subquery()  # fmt: skip
    mine = or_(
        and_(budgets.c.kind == ROLLOUT, budgets.c.name == rollout_id),
        and_(budgets.c.kind == BATCH, budgets.c.name == batch),
    )
    rows = select(budgets).where(mine).order_by(budgets.c.kind).with_for_update()
    return {row["kind"]: row for row in connection.execute(rows).mappings()}


def _limits(row: Row) -> BudgetLimits | None:
    return None if row["declared"] is None else BudgetLimits(*(row[name] for name in LIMITS))


def _spent(row: Row) -> Amounts:
    return Amounts(*(row[f"spent_{name}"] for name in LIMITS))


def _in_flight(connection: Connection, budget: Row) -> Amounts:
    """Return what calls in flight have reserved, and their number."""
    column = reservations.c.batch if budget["kind"] == BATCH else reservations.c.rollout_id
    sums = [func.coalesce(func.sum(reservations.c[name]), 0) for name in LIMITS[1:]]
    query = select(func.count(), *sums).where(column == budget["name"])
    calls, tokens, cost, seconds = connection.execute(query).one()
    return Amounts(calls, int(tokens), float(cost), float(seconds))


def _amounts(rows: Sequence[Row], stated: Amounts) -> Amounts:
    """Return what a call reserves: the tokens that its request states, and their price.

    No request states how long it takes: as long as the longest call so far. So does a call
    without a price reserve as much as the dearest.
    """
    row = next((row for row in rows if row["spent_calls"]), None)
    if row is None:
        return stated
    unpriced = math.isinf(stated.cost_usd)
    return stated._replace(
        cost_usd=row["largest_cost_usd"] if unpriced else stated.cost_usd,
        seconds=row["largest_seconds"],
    )


def _reached(
    connection: Connection,
    budget: Row,
    own: Row,
    in_flight: Amounts,
    asked: Amounts,
    reservation: Reservation,
    now: float,
) -> LimitReached | None:
    """Return the limit in the way of a call, noting since when it is spent; None if none is."""
    limits = BudgetLimits(*(budget[name] for name in LIMITS))
    behind = _is_behind(connection, budget, reservation)
    name = limit_in_the_way(limits, _spent(budget), in_flight, asked, behind=behind)
    if name is None:
        return None
    reached = _limit_reached(connection, budget, own, name, now)
    if reached.is_spent:
        if budget["reached_at"] is None:
            _mark_reached(connection, budget, now)
        return reached
    if budget["kind"] == ROLLOUT:
        return reached
    mine, place = _in_flight(connection, own), LIMITS.index(name)
    alone = mine.calls and reached.spent + mine[place] + asked[place] > reached.most
    return replace(reached, by_others=not alone)


def _limit_reached(
    connection: Connection, budget: Row, own: Row, name: str, now: float
) -> LimitReached:
    return LimitReached(
        scope=budget["kind"],
        limit=name,
        most=float(budget[name]),
        spent=float(budget[f"spent_{name}"]),
        own=float(own[f"spent_{name}"]),
        callers=_callers(connection, budget, own, name),
        at=now,
    )


def _key(budget: Row) -> BudgetKey:
    return BudgetKey(budget["kind"], budget["name"])


_ORDER = tuple_(waiting_calls.c.since, waiting_calls.c.id)
_ABANDONED_S = 300.0  # since a call came that is in line still; it waits a minute at most


def _is_behind(connection: Connection, budget: Row, reservation: Reservation) -> bool:
    """Return True if an older call waits for a budget."""
    older = select(waiting_calls.c.id).where(
        waiting_calls.c.kind == budget["kind"],
        waiting_calls.c.name == budget["name"],
        _ORDER < tuple_(literal(reservation.since), literal(reservation.id)),  # noqa: SIM300
        waiting_calls.c.since > reservation.since - _ABANDONED_S,
    )
    return connection.execute(older.limit(1)).first() is not None


def _wait(connection: Connection, reservation: Reservation, budget: Row, worker: str) -> None:
    """Note that a call waits for a budget, and for no other."""
    now_for = {"kind": budget["kind"], "name": budget["name"]}
    row = {"id": reservation.id, "since": reservation.since, "worker": worker, **now_for}
    if not add(connection, waiting_calls, row):
        own = waiting_calls.c.id == reservation.id
        connection.execute(update(waiting_calls).where(own).values(**now_for))


def _end_wait(connection: Connection, call_id: str) -> None:
    connection.execute(delete(waiting_calls).where(waiting_calls.c.id == call_id))


def _mark_reached(connection: Connection, budget: Row, now: float) -> None:
    own = (budgets.c.kind == budget["kind"]) & (budgets.c.name == budget["name"])
    connection.execute(update(budgets).where(own).values(reached_at=now))


def _callers(connection: Connection, budget: Row, own: Row, name: str) -> int:
    """Count the rollouts that spent of a limit, the one that asks among them."""
    if budget["kind"] == ROLLOUT:
        return 1
    others = select(func.count()).where(
        budgets.c.batch == budget["name"],
        budgets.c.name != own["name"],
        budgets.c[f"spent_{name}"] > 0,
    )
    return 1 + (connection.scalar(others) or 0)


def _sums(spent: Sequence[Amounts]) -> dict[str, Any]:
    return {
        f"spent_{name}": budgets.c[f"spent_{name}"] + sum(each[place] for each in spent)
        for place, name in enumerate(LIMITS)
    }


def _largest(spent: Sequence[Amounts]) -> dict[str, Any]:
    values = {}
    for place, name in enumerate(LIMITS[1:], 1):
        column, most = budgets.c[f"largest_{name}"], max(each[place] for each in spent)
        values[f"largest_{name}"] = case((column < most, most), else_=column)
    return values
