"""Calls that named no rollout while one ran that seems to have made none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from classifier.records import UNATTRIBUTED, Exchange, Kind, RolloutRecord
from proxy.routing.keys import AGENT
from proxy.store.database import Database

# A rollout that its outcome alone registers may have run as long as this before it, in seconds.
LONGEST_S = 86_400.0
_OWN = frozenset((Kind.INFERENCE, Kind.CONTINUATION, Kind.ACTIVITY))


def with_unattributed(
    rollout: RolloutRecord, database: Database, missing: Callable[[str], int]
) -> RolloutRecord:
    """Return a rollout that made no call with the number of calls that may be its own.

    It stays what it was for its final verdict: judging an export gives the same.

    Arguments:
        missing: counts the calls of a rollout that were served but are not in the database.
    """
    began_at, until = rollout.began_at, rollout.ended_at
    if rollout.outcome is None or began_at is None or until is None:
        return rollout
    if any(map(_is_own, rollout.exchanges)):
        return rollout
    kept = database.verdicts.unattributed_calls(rollout.id)
    if kept is None:
        since = began_at if began_at < until else until - LONGEST_S
        kept = database.calls.unattributed(since=since, until=until) + missing(UNATTRIBUTED)
    return replace(rollout, unattributed_calls=kept)


def _is_own(exchange: Exchange) -> bool:
    return exchange.role == AGENT and exchange.kind in _OWN
