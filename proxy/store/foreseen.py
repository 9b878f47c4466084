"""What a verdict will change of its batch, worked out before the transaction that stores it.

The one writer of SQLite, behind which agents wait, has nothing to read then, and nothing to add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select

from classifier.groups import Group
from proxy.store.batch_changes import changes
from proxy.store.derived import batches, unjudged
from proxy.store.groups import OVER_AT, settled_by
from proxy.store.tables import batch_runs, rollouts, verdicts
from proxy.store.types import Write
from proxy.store.units import Unit, attempts_of, with_verdict


class RolloutState(NamedTuple):
    """What of a rollout and its batch decides what its verdict changes.

    ``version`` and ``first_at`` are its batch's, ``over_at`` is when that was declared over,
    ``change`` is its last one that was not judged, ``provisional`` whether the verdict before is;
    None where there is none.
    """

    batch: str | None
    outcome_at: float | None
    version: int | None
    first_at: float | None
    over_at: float | None
    change: int | None
    provisional: bool | None

    @property
    def first(self) -> bool:
        """Whether a final verdict would be its first one."""
        return self.provisional is None or bool(self.provisional)

    @property
    def read(self) -> tuple[Any, ...]:
        """What has to be the same for what was foreseen: nothing else happened in the batch."""
        return self[:5]


class Foreseen(NamedTuple):
    """What is to be written beside a verdict, of a rollout in this state.

    ``settled`` is the group that it settles.
    """

    state: RolloutState
    writes: Sequence[Write]
    settled: Group | None


def state_of(connection: Connection, rollout_id: str) -> RolloutState:
    """Return the state of a rollout."""
    return RolloutState._make(connection.execute(_STATE, {"of": rollout_id}).one())


def foresee(connection: Connection, row: Mapping[str, Any]) -> Foreseen | None:
    """Return what is to be written beside a verdict; None where that shows only as it is stored.

    Arguments:
        row: columns of `verdicts`.
    """
    # First: what is read below is either of this state, or the state is another by then.
    now = state_of(connection, row["rollout_id"])
    keeps_final = row["provisional"] and not now.first
    if now.batch is None or now.batch != row["batch"] or now.version is None or keeps_final:
        return None
    place = connection.execute(_PLACE, {"of": row["rollout_id"]}).mappings().one_or_none()
    if place is None or place["counts"] is None:
        return None
    before = attempts_of(connection, now.batch, {Unit.of(dict(place))})
    if before is None:
        return None
    after = [
        with_verdict(each, row, place["outcome"])
        if each.entry.rollout_id == row["rollout_id"]
        else each
        for each in before
    ]
    writes = list(changes(connection, now.batch, before, after))
    return Foreseen(now, writes, None if row["provisional"] else settled_by(connection, row))


_OWN = rollouts.c.id == bindparam("of")
_OF_BATCH = batches.c.batch == select(rollouts.c.batch).where(_OWN).scalar_subquery()
_OF_RUNS = batch_runs.c.batch == select(rollouts.c.batch).where(_OWN).scalar_subquery()
_STATE = select(
    select(rollouts.c.batch).where(_OWN).scalar_subquery(),
    select(rollouts.c.outcome_at).where(_OWN).scalar_subquery(),
    select(batches.c.version).where(_OF_BATCH).scalar_subquery(),
    select(batches.c.first_at).where(_OF_BATCH).scalar_subquery(),
    select(OVER_AT).where(_OF_RUNS).scalar_subquery(),
    select(unjudged.c.change).where(unjudged.c.rollout_id == bindparam("of")).scalar_subquery(),
    select(verdicts.c.provisional)
    .where(verdicts.c.rollout_id == bindparam("of"))
    .scalar_subquery(),
)
_PLACE = (
    select(rollouts, batches.c.counts)
    .join(batches, batches.c.batch == rollouts.c.batch)
    .where(_OWN)
)
