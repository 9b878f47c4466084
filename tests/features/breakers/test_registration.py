"""Open breakers skip rollouts as these are registered, and let one probe in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from classifier.breakers import BreakerState, Phase
from proxy.features.breakers.store import Breakers, store_states
from proxy.store.database import Database
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import Registered, Registration

NAMES = ("x", "y", "x", "z")
WAITS = (
    "skipped: breaker half open on auth:401 after 2 rollouts in a row, waiting for x; to admit "
    "another probe: truezero breaker reset b"
)


def state(**given: Any) -> BreakerState:
    streak = {"fingerprint": "auth:401", "streak": 2, "tripped_by": ("a", "b"), "opened_at": 5.0}
    facts: dict[str, Any] = streak | given
    return BreakerState(batch="b", lane="openai/gpt-5/key-0", threshold=2, **facts)


def prepared(database: Database, breaker: BreakerState) -> Database:
    database.prepare()
    database.change(store_states, [breaker])
    return database


def enrolment(name: str, **facts: str | None) -> PreparedRegistration:
    placed: dict[str, Any] = {"batch": "b", "task": name, "repeats": 2, **facts}
    return PreparedRegistration(registration=Registration(id=name, **placed))


def skipped(registered: list[Registered]) -> list[str | None]:
    return [each.skipped for each in registered]


def test_one_probe_is_admitted_of_many_at_once_as_one_after_another(
    database: Database, tmp_path: Path
) -> None:
    half_open = state(phase=Phase.HALF_OPEN)
    together = prepared(database, half_open)
    registered = together.rollouts.register_all([*map(enrolment, NAMES)], now=6.0)
    assert skipped(registered) == [None, WAITS, None, WAITS]
    other = prepared(Database(str(tmp_path / "other.db")), half_open)
    alone = [other.rollouts.register_all([enrolment(name)], now=6.0)[0] for name in NAMES]
    assert alone == registered
    (probed,) = Breakers(together.connections).of_batch("b")
    assert (probed.canary, probed.probed_at) == ("x", 6.0)
    assert Breakers(other.connections).of_batch("b") == [probed]
    for name in NAMES:
        rows = [dict(each.rollouts.row(name) or {}) for each in (together, other)]
        assert rows[0] == rows[1]
        assert rows[0]["skipped"] == (WAITS if name in ("y", "z") else None)
    other.close()


@pytest.mark.parametrize(
    ("facts", "admitted"), [({}, False), ({"batch": "c"}, True), ({"batch": None}, True),
                            ({"upstream": "anthropic"}, True), ({"upstream": "openai"}, False)],
)  # fmt: skip
def test_an_open_breaker_skips_its_batch_on_its_lane(
    database: Database, facts: dict[str, str | None], admitted: bool
) -> None:
    prepared(database, state(phase=Phase.OPEN, probes=False))
    (found,) = database.rollouts.register_all([enrolment("r", **facts)], now=6.0)
    assert (found.skipped is None) == admitted


def test_one_that_was_skipped_runs_once_its_breaker_is_closed(database: Database) -> None:
    prepared(database, state(phase=Phase.OPEN, probes=False))
    assert database.rollouts.register(Registration(id="r", batch="b"), now=6.0).skipped
    database.change(store_states, [state(streak=0, tripped_by=(), fingerprint=None)])
    assert database.rollouts.register(Registration(id="r", batch="b"), now=7.0).skipped is None
    row = database.rollouts.row("r")
    assert row is not None
    assert row["skipped"] is None
