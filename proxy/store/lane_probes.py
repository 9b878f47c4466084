"""The table `lane_probes`: when each lane that is down was last tried by one that waits for it."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select

from classifier.fingerprints import plain
from classifier.lane import PENDING_S, Silence, State, TurnTaken
from proxy.store.connections import Connections, Lock, hold
from proxy.store.lane_minutes import ANSWERING
from proxy.store.tables import insert_into, lane_probes, open_calls


class LaneProbes:
    """Notes the probe of a lane, so that of all that wait in all processes only one is it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def take(
        self,
        upstream: str | None,
        model: str | None,
        decide: Callable[[float | None], TurnTaken],
        *,
        now: float,
    ) -> TurnTaken:
        """Decide whether one that asks may start, and note it if it is the probe.

        Arguments:
            decide: decides by when the last probe of the lane was let go.
            now: seconds since the epoch.

        Raises:
            StoreError: the database is unavailable.
        """
        key = {"upstream": upstream or "", "model": plain(model) or ""}
        each = lane_probes.c
        query = select(each.at).where(each.upstream == key["upstream"], each.model == key["model"])
        with self._connections.reading() as connection:
            turn = decide(connection.scalar(query))
        if turn.state is not State.PROBING:
            return turn
        with self._connections.writing() as connection:
            hold(connection, Lock.PROBES)
            turn = decide(connection.scalar(query))
            if turn.state is State.PROBING:
                statement = insert_into(connection.dialect.name, lane_probes)
                connection.execute(
                    statement.values(**key, at=now).on_conflict_do_update(
                        index_elements=[*key], set_={"at": now}
                    )
                )
        return turn

    def pending(
        self, upstream: str | None, model: str | None, silent: Silence, *, now: float
    ) -> int:
        """Count the rollouts with calls in flight that began since a lane fails.

        Calls that have taken too long are left out.

        Raises:
            StoreError: the database is unavailable.
        """
        each = open_calls.c
        query = (
            select(each.rollout_id, each.model)
            .distinct()
            .where(each.kind.in_(ANSWERING), each.started_at > max(silent.since, now - PENDING_S))
        )
        if upstream is not None:
            query = query.where(each.upstream == upstream)
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        return len({row[0] for row in rows if model is None or plain(row[1]) == plain(model)})
