"""The subjects of the control plane on one context, over one database without HTTP."""

from __future__ import annotations

import itertools

import pytest

from proxy.control import listing, rollouts
from proxy.control.queries import Service, VersionedCache
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from tests.fakes.control import control_over
from truezero import models


@pytest.fixture
def changed() -> list[str]:
    return []


@pytest.fixture
def control(database: Database, changed: list[str]) -> Service:
    async def close(rollout_id: str, _number: int) -> bool:
        changed.append(rollout_id)
        return True

    ids, clock = itertools.count(1), itertools.count(1_700_000_000)
    return control_over(
        database, new_id=lambda: f"id-{next(ids)}", now=lambda: float(next(clock)),
        access_changed=changed.append, close_here=close,
    )  # fmt: skip


async def test_ids_come_from_the_source_that_was_handed_in(control: Service) -> None:
    request = models.RolloutRequest()
    registered = await rollouts.register(control, request, public_url="http://proxy")
    assert registered.id == "id-1"


async def test_what_a_key_opens_is_announced_where_it_changes(
    control: Service, changed: list[str]
) -> None:
    request = models.RolloutRequest(id="r1")
    await rollouts.register(control, request, public_url="http://proxy")
    assert changed == []
    await rollouts.revoke(control, "r1")
    assert changed == ["r1"]


async def test_a_database_that_is_away_is_a_refusal(control: Service, database: Database) -> None:
    database.change(lambda connection: connection.exec_driver_sql("DROP TABLE rollouts") and None)
    with pytest.raises(Refusal) as refused:
        await listing.rollout_page(control, models.ListParameters())
    assert (refused.value.status, refused.value.code) == (503, "storage_unavailable")


class Sums(VersionedCache[str, int, int]):
    def __init__(self) -> None:
        super().__init__(limit=1)


class Names(set[str]):
    pass


def test_a_feature_keeps_its_own_state_with_each_service(control: Service) -> None:
    control.state(Sums).store("b", 1, 7)
    control.state(Names).add("b")
    assert (control.state(Sums).current("b", 1), control.state(Names)) == (7, {"b"})
    assert control_over(control.database).state(Names) == set()
