"""The rollouts that an alias names."""

from __future__ import annotations

from proxy.features.virtual_keys.store import aliased
from proxy.store.database import Database
from proxy.store.tables import Registration


def test_an_alias_names_its_rollouts_until_they_are_revoked_or_reported(
    database: Database,
) -> None:
    for number, name in enumerate(("a", "a.1", "a.2", "a.3", "b.1")):
        database.rollouts.register(Registration(id=name, task="a"), now=float(number))
    database.rollouts.expire("a.1", at=50.0)
    database.rollouts.report("a.2", "{}", now=50.0)
    assert database.read(aliased, "a", now=100.0) == ["a", "a.3"]
    assert database.read(aliased, "a", now=49.0) == ["a", "a.1", "a.3"]
