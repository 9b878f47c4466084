"""Groups that settle: each is announced by the rollout that is judged, or not admitted, last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from classifier.batches import Entry
from classifier.groups import Group, Member, group
from proxy.store.events import NewEvent
from proxy.store.runs import OVER_AT
from proxy.store.tables import ENTRY_FIELDS, WITHOUT_DETAILS, batch_runs, rollouts
from proxy.store.tasks import advised, by_task_of
from proxy.store.verdicts import Judged


class SettledGroup:
    """The group that a rollout settles, if it settles one, as `proxy.store.verdicts.FinalPart`."""

    reads = True

    def __init__(self) -> None:
        self._settled: Group | None = None

    def read(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Find the group."""
        self._settled = settled_by(connection, row)

    def write(self, connection: Connection, row: Mapping[str, Any]) -> Iterable[NewEvent]:
        """Store that the rollout has settled it; the event is that of the group."""
        if self._settled is None:
            return ()
        note_settled(connection, self._settled, row["rollout_id"])
        return (group_settled(self._settled),)


def begin(judged: Judged | None) -> SettledGroup | None:
    """Return the part in a rollout of a group whose size is known, and in one not admitted."""
    return SettledGroup() if judged is None or judged.rollout["repeats"] is not None else None


def group_settled(group: Group) -> NewEvent:
    """Return the event of a group whose last rollout was judged, or not admitted."""
    data = {
        "task": group.task,
        "wanted": group.wanted,
        "valid": sum(group.valid),
        "resample": group.resample,
        "drop": group.drop,
        "revision": group.revision,
        "final": group.final,
    }
    return NewEvent("group_settled", data)


def note_settled(connection: Connection, now: Group, rollout_id: str) -> None:
    """Store that a rollout has settled its group; before the lock of events is taken."""
    own = update(rollouts).where(rollouts.c.id == rollout_id)
    connection.execute(own.values(group_revision=now.revision))


def settled_by(connection: Connection, row: Mapping[str, Any]) -> Group | None:
    """Return the group that a rollout settles, the last to be judged; None if it settles none.

    A group settles by itself only where registrations say how many repeats are wanted; a rollout
    whose own does not costs one look. In a batch that is over it settles again with each outcome
    that was not expected any more.

    Arguments:
        row: ``rollout_id`` and ``batch`` of one that is not admitted, or the columns of a final
            verdict, which need not be stored yet.
    """
    found = connection.execute(_IN_GROUP, {"of": row["rollout_id"]}).one_or_none()
    if found is None or found.batch is None or found.task is None:
        return None
    batch, task, created_at, outcome_at, over_at = found
    members = by_task_of(connection, batch, [task], over_at).members[task]
    over = over_at is not None
    given_up = over_at is not None and bool(
        created_at <= over_at and (outcome_at is None or outcome_at > over_at)
    )
    now = group(task, [_with_verdict(m, row) for m in members], ended=over)
    as_running = [_running(member, row["rollout_id"], given_up=given_up) for member in members]
    before = group(task, as_running, ended=over)
    known = (now.rollout_ids, now.rewards) == (before.rollout_ids, before.rewards)
    if not now.settled or (before.settled and known):
        return None
    return replace(now, revision=before.revision + 1)


_OVER_AT = select(OVER_AT).where(batch_runs.c.batch == rollouts.c.batch).scalar_subquery()
_IN_GROUP = select(
    rollouts.c.batch, rollouts.c.task, rollouts.c.created_at, rollouts.c.outcome_at, _OVER_AT
).where(rollouts.c.id == bindparam("of"), rollouts.c.repeats.is_not(None))


def _with_verdict(member: Member, row: Mapping[str, Any]) -> Member:
    """Return the member with the verdict, if it is of that rollout."""
    if member.entry.rollout_id != row["rollout_id"] or "verdict" not in row:
        return member
    judged = map(row.get, ENTRY_FIELDS)
    retry = row["scoreable"] != "yes" and advised(row["verdict"])
    entry = Entry._make((*member.entry[:4], *judged, *WITHOUT_DETAILS))
    return member._replace(entry=entry, retry=retry)


def _running(member: Member, rollout_id: str, *, given_up: bool) -> Member:
    """Return the member as it was before its verdict, if it is that rollout."""
    if member.entry.rollout_id != rollout_id:
        return member
    entry = member.entry._replace(provisional=True)
    return member._replace(entry=entry, skipped=False, given_up=given_up)
