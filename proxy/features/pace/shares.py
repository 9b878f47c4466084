"""Shares of rate limits: which process may use how much of a lane's limits, by leases.

A process renews its leases in the background, each second; no call asks the database. What it is
granted is never more than the others have left, so that together they stay within the limit, and a
lease that is not renewed ends: the share of a process that was killed comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import delete, func, select

from proxy.features.pace.tables import pace_shares
from proxy.store.connections import Connections, Lock, hold
from proxy.store.tables import insert_into, rollouts

LEASE_S = 5.0
_LEAST = 0.5  # rollouts, as which a process without a call counts while its lease lasts
_SWEPT_S = 3_600.0  # after its end a row is deleted

PaceLane = tuple[str, str, str]
"""Upstream, model and digest of the key; empty where unknown."""


class PaceDemand(NamedTuple):
    """A process's need of a lane: ``rollouts`` that called or wait, and calls that wait now.

    ``longest_s`` is how long one of them has waited at most. ``blocked_until``: no call before, as
    the provider says. ``in_flight`` calls are under way, and ``answered`` are each second. 429s
    taught a ``rate`` of the whole lane's, in calls a second, and a number of calls ``at_once``.
    Times are seconds since the epoch.
    """

    rollouts: float
    waiting: int = 0
    longest_s: float = 0.0
    blocked_until: float = 0.0
    in_flight: float = 0.0
    answered: float = 0.0
    rate: float | None = None
    rate_at: float | None = None
    at_once: float | None = None
    at_once_at: float | None = None


class PaceShare(NamedTuple):
    """A process's share of a lane, from 0 to 1, and what the other processes reported.

    ``blocked_until``: until when the provider wants no call, as it told any of them.
    """

    share: float
    blocked_until: float
    others: tuple[PaceDemand, ...] = ()


class WaitingCalls(NamedTuple):
    """The calls that wait on a lane in all processes, and how long one has at most, in seconds."""

    upstream: str
    model: str
    key: str
    waiting: int
    longest_s: float


def granted(own: float, others: Iterable[tuple[float, float]]) -> float:
    """Return the share that a process may have of a lane.

    In proportion to the rollouts that need it, and no more than the others have left: who is to
    have less gives it back first.

    Arguments:
        own: its rollouts.
        others: rollouts and share of each other process whose lease has not ended.
    """
    others = list(others)
    demands = [max(rollouts, _LEAST) for rollouts, _ in others]
    wanted = max(own, _LEAST) / (max(own, _LEAST) + sum(demands))
    return max(0.0, min(wanted, 1.0 - sum(share for _, share in others)))


class PaceShares:
    """Reads and writes the table `pace_shares`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def renew(
        self, worker: str, demands: Mapping[PaceLane, PaceDemand], *, now: float
    ) -> dict[PaceLane, PaceShare]:
        """Renew a process's leases in one transaction, and return its shares of those lanes."""
        shares = {}
        with self._connections.writing() as connection:
            hold(connection, Lock.PACE)
            alive = pace_shares.c.expires_at > now
            rows = connection.execute(select(pace_shares).where(alive)).mappings().all()
            connection.execute(delete(pace_shares).where(pace_shares.c.expires_at < now - _SWEPT_S))
            for lane, demand in demands.items():
                others = [
                    row
                    for row in rows
                    if (row["upstream"], row["model"], row["key_digest"]) == lane
                    and row["worker"] != worker
                ]
                share = granted(demand.rollouts, [(r["rollouts"], r["share"]) for r in others])
                blocked = max([demand.blocked_until, *(r["blocked_until"] for r in others)])
                reported = [PaceDemand(*(r[name] for name in PaceDemand._fields)) for r in others]
                shares[lane] = PaceShare(share, blocked, tuple(reported))
                values = {
                    **demand._asdict(), "share": share, "expires_at": now + LEASE_S,
                }  # fmt: skip
                key = dict(zip(("upstream", "model", "key_digest"), lane, strict=True))
                statement = insert_into(connection.dialect.name, pace_shares)
                statement = statement.values(**key, worker=worker, **values)
                connection.execute(
                    statement.on_conflict_do_update(index_elements=[*key, "worker"], set_=values)
                )
        return shares

    def give_back(self, worker: str) -> None:
        """End the leases of a process that stops."""
        with self._connections.writing() as connection:
            connection.execute(delete(pace_shares).where(pace_shares.c.worker == worker))

    def batches_of(self, rollout_ids: Collection[str]) -> dict[str, str | None]:
        """Return the batches of rollouts; those that are not known are left out."""
        query = select(rollouts.c.id, rollouts.c.batch).where(rollouts.c.id.in_(rollout_ids))
        with self._connections.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def waiting(self, *, now: float) -> list[WaitingCalls]:
        """List the lanes on which calls wait, those of the longest wait first."""
        longest = func.max(pace_shares.c.longest_s)
        lane = (pace_shares.c.upstream, pace_shares.c.model, pace_shares.c.key_digest)
        query = (
            select(*lane, func.sum(pace_shares.c.waiting), longest)
            .where(pace_shares.c.expires_at > now, pace_shares.c.waiting > 0)
            .group_by(*lane)
            .order_by(longest.desc(), *lane)
        )
        with self._connections.reading() as connection:
            return [
                WaitingCalls(upstream, model, key, int(waiting), longest_s)
                for upstream, model, key, waiting, longest_s in connection.execute(query)
            ]
