"""A rollout is loaded while the backlog of its calls is being written to the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from classifier.records import RolloutRecord
from proxy.control import judge
from proxy.store.connections import Connections
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable
from proxy.store.rollouts import Rollouts
from proxy.store.tables import CommitBatch, Row
from tests.builders import exchange
from tests.fakes.control import control_over


class Kept:
    """A recorder with a backlog of calls, until it is written."""

    failing = False
    gaps_counted = 0
    waiting = 0

    def __init__(self) -> None:
        self.owed = 1

    def missing(self, rollout_id: str) -> int:
        return self.owed


class Mended(Database):
    """The backlog is written just when a rollout has been read, or could not be."""

    def __init__(self, url: str, kept: Kept, *, away: bool) -> None:
        super().__init__(url)
        self.rollouts = self._mended = MendedRollouts(self._connections, kept, away=away)

    def mend(self) -> None:
        self._mended.mended = True


class MendedRollouts(Rollouts):
    def __init__(self, connections: Connections, kept: Kept, *, away: bool) -> None:
        super().__init__(connections)
        self._kept = kept
        self._away = away
        self.mended = False

    def load(self, rollout_id: str) -> tuple[Row, RolloutRecord] | None:
        away = self._away and not self.mended
        found = None if away else super().load(rollout_id)
        self._kept.owed = 0
        if away:
            raise DatabaseUnavailable("database is locked")
        return found


@pytest.mark.parametrize("away", [False, True], ids=["it was read before", "it was away"])
def test_a_call_written_while_its_verdict_is_asked_is_missed_and_its_rollout_known(
    tmp_path: Path, away: bool
) -> None:
    kept = Kept()
    database = Mended(str(tmp_path / "t.db"), kept, away=away)
    database.prepare()
    call = exchange(200)
    database.calls.write(CommitBatch(recorded=[call]), worker="w")
    service = control_over(database, recorder=kept)
    first = asyncio.run(judge.verdict(service, call.rollout_id))
    assert first["health"] == "undecided"
    database.mend()
    assert asyncio.run(judge.verdict(service, call.rollout_id))["health"] == "healthy"
    database.close()
