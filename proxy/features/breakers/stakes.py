"""The stake of a batch in one verdict: whether a breaker hangs on it.

Before it opens, the model is asked whose failure it was (`proxy.control.judge`).
"""

from __future__ import annotations

from classifier import breakers
from proxy.features.breakers.store import Breakers
from proxy.store.verdicts import Judged


def is_at(judged: Judged) -> bool:
    """Return True if a verdict opens a breaker, or would but for a reference call."""
    database, verdict, policy, now, _ = judged
    if verdict.batch is None or verdict.fingerprint is None:  # which no breaker counts
        return False
    states = Breakers(database.connections).of_batch(verdict.batch)
    after = breakers.feed(states, verdict, now=now, policy=policy, seen=was_called(judged))
    return any(now in (state.opened_at, state.answered_at) for state in after)


def was_called(judged: Judged) -> bool:
    """Return True if the batch called the lane that a suspicion needs to open a breaker."""
    lane = breakers.lane_to_prove(judged.verdict)
    if lane is None or judged.verdict.batch is None:
        return False
    seen: bool = judged.database.calls.seen_on(judged.verdict.batch, lane)
    return seen
