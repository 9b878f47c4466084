"""Which calls of a drilled rollout are failed, and counted for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.features.drills.rule import DrilledCalls
from proxy.features.drills.store import Drills
from proxy.routing.target import Addresses, Target
from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.fakes.relaying import KEYRING, Book, make_context
from truezero.models import Fault

CHAT = "/r/r1/openai/v1/chat/completions"


def target(path: str = CHAT) -> Target:
    context = make_context("http://provider", Book())
    return Addresses(context.upstreams, KEYRING).read(path.encode(), b"", [])


@pytest.fixture
def drills(database: Database) -> Drills:
    database.rollouts.register(
        Registration(id="r1", fault=Fault(kind="auth").model_dump_json()), now=1.0
    )
    return Drills(database.connections)


async def test_an_agents_questions_are_counted_and_failed_as_its_fault_says(drills: Drills) -> None:
    rule, fault = DrilledCalls(drills), Fault(kind="rate_limit", at_call=2)
    first = await rule.stand_in(fault, target(), "POST")
    second = await rule.stand_in(fault, target(), "POST")
    assert first is None
    assert second is not None
    assert not second.resets
    assert drills.next_call("r1") == 3


@pytest.mark.parametrize(
    "path",
    [
        "/r/r1/as/judge/openai/v1/chat/completions",
        "/r/r1/openai/v1/models",
        "/r/r1/openai/v1/embeddings",
    ],
)
async def test_no_other_call_is(drills: Drills, path: str) -> None:
    rule = DrilledCalls(drills)
    assert await rule.stand_in(Fault(kind="auth"), target(path), "POST") is None
    assert drills.next_call("r1") == 1


async def test_only_a_reset_resets_the_agents_connection(drills: Drills) -> None:
    rule = DrilledCalls(drills)
    reset = await rule.stand_in(Fault(kind="reset"), target(), "POST")
    assert reset is not None
    assert reset.resets


async def test_a_rollout_is_looked_up_by_its_row(drills: Drills) -> None:
    rule = DrilledCalls(drills)
    row: dict[str, Any] = {"fault": None}
    assert rule.look_up(row) is None
    found = rule.look_up({"fault": '{"kind": "auth"}'})
    assert found is not None
    assert found.kind == "auth"
    assert rule.watched() == {"r1"}


async def test_while_the_database_is_away_a_call_goes_to_its_provider(tmp_path: Path) -> None:
    away = Database(str(tmp_path / "missing" / "t.db"))
    rule = DrilledCalls(Drills(away.connections))
    assert await rule.stand_in(Fault(kind="auth"), target(), "POST") is None
    away.close()
