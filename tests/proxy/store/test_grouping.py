"""Rollouts of a list are counted by what they have in common."""

from __future__ import annotations

import pytest

from proxy.store.database import Database
from proxy.store.listing import GROUPS, RolloutQuery, grouped
from proxy.store.tables import Registration
from tests.proxy.store.test_verdicts import verdict


@pytest.fixture
def filled(database: Database) -> Database:
    for n, (batch, model) in enumerate((("x", "m"), ("x", "m"), ("x", None), ("y", "m"))):
        name = f"r{n}"
        database.rollouts.register(Registration(id=name, batch=batch, model=model), now=float(n))
        scored = {"scoreable": "yes", "health": "healthy", "reward": float(n), "cost_usd": 0.5}
        given = verdict(name, batch=batch, total_tokens=10, **(scored if n else {}))
        database.verdicts.store(given)
    return database


def test_groups_are_counted_with_what_they_stand_on(filled: Database) -> None:
    assert filled.read(grouped, RolloutQuery(), "batch", limit=9) == [
        {"value": "x", "rollouts": 3, "scoreable": 2, "reward": 1.5, "total_tokens": 30,
         "cost_usd": 1.0, "priced": 2},
        {"value": "y", "rollouts": 1, "scoreable": 1, "reward": 3.0, "total_tokens": 10,
         "cost_usd": 0.5, "priced": 1},
    ]  # fmt: skip
    (largest,) = filled.read(grouped, RolloutQuery(), "model", limit=1)
    assert (largest["value"], largest["rollouts"]) == ("m", 3)


def test_only_what_the_list_asks_for_is_counted(filled: Database) -> None:
    for query, counted in (
        (RolloutQuery(filters={"batch": ["x"], "health": ["healthy"]}), {"m": 1, None: 1}),
        (RolloutQuery(text="R3", sort="reward"), {"m": 1}),
        (RolloutQuery(since=2.0), {"m": 1, None: 1}),
        (RolloutQuery(filters={"batch": ["none"]}), {}),
    ):
        rows = filled.read(grouped, query, "model", limit=9)
        assert {row["value"]: row["rollouts"] for row in rows} == counted, query


def test_everything_can_be_grouped_by(filled: Database) -> None:
    for by in GROUPS:
        rows = filled.read(grouped, RolloutQuery(), by, limit=9)
        assert sum(row["rollouts"] for row in rows) == 4, by
