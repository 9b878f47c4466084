"""Many registrations at once do what they do one after another, in a few statements."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, select

from classifier.breakers import Admission, BreakerState, Phase
from proxy.store.database import Database
from proxy.store.events import store_states
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import CommitBatch, PolicyTerms, Registered, Registration, batches
from tests.proxy.store.records import FULL

HALF_OPEN = BreakerState(
    batch="b", lane="one", phase=Phase.HALF_OPEN, fingerprint="auth:401", streak=2, threshold=2,
    opened_at=5.0, tripped_by=("a",),
)  # fmt: skip


def enrolment(name: str, **facts: Any) -> PreparedRegistration:
    policy = PolicyTerms(stated=facts.pop("policy", {}), default={"agents": "trusted"})
    admit = facts.pop("admit", None)
    return PreparedRegistration(
        registration=Registration(id=name, **facts), policy=policy, admit=admit
    )


def one_probe(name: str) -> Callable[[list[BreakerState]], Admission]:
    def admit(states: list[BreakerState]) -> Admission:
        (state,) = states
        if state.canary not in (None, name):
            return Admission(error=f"skipped: waiting for {state.canary}")
        return Admission(changed=(replace(state, canary=name),))

    return admit


HISTORY = [
    [enrolment("seen", batch="b", task="t"), enrolment("new", batch="b", model="m")],
    [enrolment("new", batch="b", model="m"), enrolment("new", batch="c"), enrolment("alone")],
    [enrolment("twice", task="t"), enrolment("twice", task="t"), enrolment("twice", task="u")],
    [enrolment("new", batch="p", policy={"agents": "untrusted"}),  # another batch: a conflict
     enrolment("p1", batch="p", policy={"agents": "trusted"}),
     enrolment("p2", batch="p", policy={"agents": "untrusted"}), enrolment("p3", batch="p")],
    [enrolment("own", policy={"agents": "untrusted"}), enrolment("own")],
    [enrolment(n, batch="b", repeats=2, task="t", admit=one_probe(n)) for n in ("x", "y", "x")],
]  # fmt: skip


def state(database: Database) -> list[tuple[Any, ...]]:
    names = ("seen", "new", "alone", "twice", "p1", "p2", "p3", "own", "x", "y")
    rows = [database.rollouts.row(name) for name in names]
    return [tuple(row.values()) if row else () for row in rows]


def prepared(database: Database) -> Database:
    database.prepare()
    database.calls.write(CommitBatch(recorded=[replace(FULL, rollout_id="seen")]), worker="w")
    database.change(store_states, [HALF_OPEN])
    return database


def test_many_at_once_are_as_one_after_another(database: Database, tmp_path: Path) -> None:
    other = prepared(Database(str(tmp_path / "other.db")))
    alone = [
        [other.rollouts.register_all([each], now=float(n))[0] for each in asked]
        for n, asked in enumerate(HISTORY)
    ]
    assert alone == [
        [Registered(), Registered()],
        [Registered(), Registered(conflict=True), Registered()],
        [Registered(), Registered(), Registered(conflict=True)],
        [Registered(conflict=True), Registered(), Registered(differing={"agents": "trusted"}),
         Registered()],
        [Registered(), Registered()],
        [Registered(), Registered(skipped="skipped: waiting for x"), Registered()],
    ]  # fmt: skip
    prepared(database)
    together = [database.rollouts.register_all(a, now=float(n)) for n, a in enumerate(HISTORY)]
    assert together == alone
    assert state(database) == state(other)
    assert database.breakers.of_batch("b") == other.breakers.of_batch("b")
    other.close()


@pytest.fixture
def counted() -> Iterator[dict[str, int]]:
    counts = {"statements": 0, "commits": 0}
    own = threading.get_ident()  # what a service of another test still does is not counted

    def spoke(*_: Any) -> None:
        counts["statements"] += threading.get_ident() == own

    def committed(*_: Any) -> None:
        counts["commits"] += threading.get_ident() == own

    event.listen(Engine, "before_cursor_execute", spoke)
    event.listen(Engine, "commit", committed)
    yield counts
    event.remove(Engine, "before_cursor_execute", spoke)
    event.remove(Engine, "commit", committed)


def test_five_hundred_take_one_transaction_and_as_many_statements_as_one(
    database: Database, counted: dict[str, int]
) -> None:
    def admit(_states: list[BreakerState]) -> Admission:
        return Admission()

    costs = []
    for many in (1, 500):
        asked = [enrolment(f"{many}-{n}", batch=f"b{many}", admit=admit) for n in range(many)]
        counted.update(statements=0, commits=0)
        assert database.rollouts.register_all(asked, now=1.0) == [Registered()] * many
        costs.append(dict(counted))
    assert costs[0] == costs[1]
    assert costs[1]["commits"] == 1
    kept = database.read(lambda connection: connection.execute(select(batches.c.counts)).all())
    assert [json.loads(row.counts) for row in kept] == [
        {"rollouts": many, "standing::0": many} for many in (1, 500)
    ]
