"""Ending a rollout's calls: here, then everywhere, then on record."""

from __future__ import annotations

import time

import pytest

from proxy.control import rollouts
from proxy.control.queries import Service
from proxy.store.database import Database
from tests.fakes.control import control_over
from tests.proxy.store.records import row_of
from truezero.models import OutcomeRequest


@pytest.fixture
def database(database: Database) -> Database:
    database.workers.heartbeat("other", host="far", now=time.time())
    return database


def worker(database: Database, *, here: bool = True) -> Service:
    async def close_here(rollout_id: str, number: int) -> bool:
        assert (rollout_id, number) == ("r", 1)
        return here

    return control_over(database, worker="me", close_here=close_here)


def stored(database: Database) -> tuple[bool, int]:
    """Whether the rollout is closed, and its gaps."""
    row = row_of(database, "r")
    return row["closed_at"] is not None, row["gaps"]


async def report(service: Service) -> None:
    outcome = OutcomeRequest(status="success", prompts_executed=1, rewards={"reward": 1.0})
    await rollouts.report(service, "r", outcome)


async def test_a_rollout_is_closed_when_the_others_have_confirmed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    unconfirmed = database.closings.unconfirmed

    def asks(*given: object, **named: object) -> list[str]:
        asked.append(stored(database))
        if len(asked) == 3:
            database.closings.confirm("other", up_to=1, but=[])
        return unconfirmed(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(database.closings, "unconfirmed", asks)
    await report(worker(database))
    assert asked == [(False, 0)] * 3
    assert stored(database) == (True, 0)


@pytest.mark.parametrize(
    ("confirmed", "here", "gaps"), [(0, True, 1), (1, False, 1), (0, False, 2)]
)
async def test_each_process_that_does_not_confirm_is_a_gap(
    database: Database, monkeypatch: pytest.MonkeyPatch, confirmed: int, here: bool, gaps: int
) -> None:
    monkeypatch.setattr(rollouts, "_CONFIRMED_WITHIN_S", 0.0)
    database.closings.confirm("other", up_to=confirmed, but=[])
    await report(worker(database, here=here))
    assert stored(database) == (True, gaps)
