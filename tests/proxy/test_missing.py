"""A verdict while what was kept beside the database is being written into it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from classifier.policy import Policy
from proxy.control.pricing import PriceTable
from proxy.control.rollouts import RolloutService
from proxy.routing.rollout_keys import Keyring
from proxy.store.database import CommitBatch, Database
from tests.builders import exchange


class Kept:
    """A recorder that keeps calls beside the database, until it writes them."""

    failing = False
    gaps_counted = 0
    waiting = 0

    def __init__(self) -> None:
        self.owed = 1

    def missing(self, rollout_id: str) -> int:
        return self.owed


class Mended(Database):
    """What was kept is written just when a rollout has been read, or could not be."""

    def __init__(self, url: str, kept: Kept, *, away: bool) -> None:
        super().__init__(url)
        self._kept = kept
        self._away = away
        self.mended = False

    def rollout(self, rollout_id: str) -> Any:
        away = self._away and not self.mended
        found = None if away else super().rollout(rollout_id)
        self._kept.owed = 0
        if away:
            raise OperationalError("", None, Exception())
        return found


def desk_of(database: Database, recorder: Kept) -> RolloutService:
    return RolloutService(
        database=database, recorder=recorder, keyring=Keyring(b"secret"), upstreams={},
        prices=PriceTable({}), policy=Policy(), proof_required=False, new_id=str, wall=time.time,
    )  # fmt: skip


@pytest.mark.parametrize("away", [False, True], ids=["it was read before", "it was away"])
def test_a_call_written_while_its_verdict_is_asked_is_missed_and_its_rollout_known(
    tmp_path: Path, away: bool
) -> None:
    kept = Kept()
    database = Mended(str(tmp_path / "t.db"), kept, away=away)
    database.prepare()
    call = exchange(200)
    database.write(CommitBatch(recorded=[call]), worker="w")
    desk = desk_of(database, kept)
    first = asyncio.run(desk.verdict(call.rollout_id))
    assert first["health"] == "undecided"
    database.mended = True
    assert asyncio.run(desk.verdict(call.rollout_id))["health"] == "healthy"
    database.close()
