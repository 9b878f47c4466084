"""The limits that kept rollouts' agents from calls, on which their verdicts depend."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection, select, update

from classifier.codec import decode_limit_reached, encode_limit_reached
from classifier.records import LimitReached
from proxy.store.connections import Connections
from proxy.store.tables import as_json, rollouts, verdicts
from proxy.store.verdicts import dequeue_judged, queue_for_judging


def note_limits_reached(connections: Connections, reached: Mapping[str, LimitReached]) -> None:
    """Note which limit kept each rollout's agent from a call.

    One is stored per rollout: the first that was spent. A spent limit replaces one of which calls
    in flight had reserved the rest. Any limit replaces one of the proxy's own, which itself
    replaces only one of its kind.
    """
    with connections.writing() as connection:
        for rollout_id in sorted(reached):
            _note(connection, rollout_id, reached[rollout_id])


def _note(connection: Connection, rollout_id: str, reached: LimitReached) -> None:
    own = rollouts.c.id == rollout_id
    before = connection.scalar(select(rollouts.c.limit_reached).where(own).with_for_update())
    if before is not None and not _stands_before(reached, decode_limit_reached(json.loads(before))):
        return
    noted = update(rollouts).where(own).values(limit_reached=as_json(encode_limit_reached(reached)))
    if connection.execute(noted).rowcount:
        provisional = (verdicts.c.rollout_id == rollout_id) & verdicts.c.provisional
        connection.execute(update(verdicts).where(provisional).values(calls=-1))
        queue_for_judging(connection, [rollout_id])
        dequeue_judged(connection, [rollout_id])


def _stands_before(reached: LimitReached, earlier: LimitReached) -> bool:
    if reached.is_of_proxy:
        return earlier.is_of_proxy
    return earlier.is_of_proxy or (reached.is_spent and not earlier.is_spent)
