"""Failed calls that count as calls: those that are attributed to their agent."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from classifier.attribution import attribute
from classifier.evidence import Evidence
from classifier.records import Ending, Exchange
from classifier.verdicts import AttributedTo, Policy
from proxy.store.calls import some_of
from proxy.store.connections import Connections
from proxy.store.rollouts import record_of
from proxy.store.tables import exchanges, rollouts

_WAYS = 64  # combinations of the columns below under which a rollout was answered, at most
_WAY = (
    exchanges.c.upstream,
    exchanges.c.model,
    exchanges.c.answered_model,
    exchanges.c.key_digest,
    exchanges.c.selector_digest,
)


def provoked(
    connections: Connections, policy: Policy, failed: Sequence[Exchange]
) -> frozenset[str]:
    """Return which failed calls are attributed to their agent, by id, as far as is known now.

    Beside them, one answered call of the rollout is read per upstream, model, answering model and
    key. What only a reference call decides is not known yet.

    Arguments:
        policy: the service's.

    Raises:
        StoreError: the database is unavailable.
    """
    found: set[str] = set()
    with connections.reading() as connection:
        for rollout_id in {each.rollout_id for each in failed}:
            row = connection.execute(
                select(rollouts).where(rollouts.c.id == rollout_id)
            ).mappings().one_or_none()  # fmt: skip
            if row is None:
                continue
            theirs = [each for each in failed if each.rollout_id == rollout_id]
            record = record_of(row, (*_answers(connection, rollout_id), *theirs))
            attributed = attribute(Evidence.of(record, policy), asked=False)
            found.update(id for id, each in attributed.items() if each.to is AttributedTo.AGENT)
    return frozenset(found)


def _answers(connection: Connection, rollout_id: str) -> Sequence[Exchange]:
    """Return the first answered call of each combination of the columns of `_WAY`."""
    query = (
        select(func.min(exchanges.c.id))
        .where(
            exchanges.c.rollout_id == rollout_id,
            exchanges.c.role == "agent",
            exchanges.c.subcategory.is_(None),
            exchanges.c.ending == Ending.COMPLETE.value,
        )
        .group_by(*_WAY)
        .limit(_WAYS)
    )
    ids = connection.execute(query).scalars().all()
    return list(some_of(connection, rollout_id, ids).values())
