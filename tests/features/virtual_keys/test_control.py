"""Virtual keys on a control plane over one database, without HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.features.virtual_keys import control as virtual_keys
from proxy.store.database import Database
from tests.fakes.control import control_over
from tests.proxy.control.test_queries import Asked, asked
from truezero import models

__all__ = ["asked"]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(str(tmp_path / "t.db"))
    opened.prepare()
    yield opened
    opened.close()


async def test_a_key_that_is_deleted_is_announced_and_one_that_is_made_is_not(
    database: Database,
) -> None:
    changed: list[str] = []

    async def close(rollout_id: str, _number: int) -> bool:
        changed.append(rollout_id)
        return True

    control = control_over(
        database, new_id=lambda: "id-1", access_changed=changed.append, close_here=close
    )
    minted = await virtual_keys.generate(control, models.KeyRequest(), public_url="http://proxy")
    assert changed == []
    await virtual_keys.delete(control, models.KeyDeletion(keys=[minted.key]))
    assert changed == [minted.rollout_id] == ["id-1"]


async def test_nothing_of_a_key_is_read_or_written_on_the_event_loop(
    database: Database, asked: Asked
) -> None:
    control = control_over(database)
    request = models.KeyRequest(key_alias="k")
    minted = await virtual_keys.generate(control, request, public_url="http://proxy")
    await virtual_keys.info(control, minted.key)
    await virtual_keys.delete(control, models.KeyDeletion(keys=[minted.key]))
    assert any(said.startswith("INSERT INTO rollouts") for said, _, _ in asked.statements)
    assert [said for said, _, on_loop in asked.statements if on_loop] == []
