"""A service that dies at any statement of a report: what it answered stands, the rest goes on."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from proxy.control import judge, rollouts
from proxy.store.batch_counts import sum_up
from proxy.store.database import Database
from proxy.store.tables import CommitBatch, Registration
from tests.builders import STARTED, exchange
from tests.fakes.control import control_over
from tests.statements import hearing
from truezero.models import OutcomeRequest

ENDED = STARTED + 10.0
LATER = ENDED + 61.0  # when nobody is waited for who was to close it
OUTCOME = OutcomeRequest(status="success", prompts_executed=1, rewards={"reward": 0.0})


class Died(BaseException):
    """As a kill does: what was not committed is gone, and nobody is answered."""


class Process:
    """A service on a file, with the number of statements that it has made of a report."""

    def __init__(self, file: Path | str, *, now: float) -> None:
        self.database = Database(str(file))
        self._service = control_over(self.database, worker="w", now=lambda: now)
        self.statements = 0

    def report(self, *, dies_at: int | None = None) -> dict[str, Any] | None:
        """Return the answer, without the time; None if it dies at the statement of a number."""

        def speak(*_: Any) -> None:
            if self.statements == dies_at:
                raise Died
            self.statements += 1

        try:
            with hearing(self.database, speak):
                answer = asyncio.run(rollouts.report(self._service, "r", OUTCOME))
        except Died:
            return None
        return {**answer, "judged_at": None}

    def verdict(self) -> dict[str, Any]:
        verdict = asyncio.run(judge.verdict(self._service, "r"))
        assert not verdict["provisional"]
        return {**verdict, "judged_at": None}

    def seen(self) -> dict[str, Any]:
        """All that is known in the end."""
        events, _ = self.database.events.of_batch("b", after=0)
        return {
            "verdict": self.verdict(),
            "events": [each["kind"] for each in events],
            "counts": self.database.read(sum_up, "b"),
            "unjudged": self.database.verdicts.unjudged(limit=9).ids,
        }


def called(file: Path) -> Path:
    """A database with a rollout that is the only one of its group, and has made its call."""
    database = Database(str(file))
    database.prepare()
    placed = Registration(id="r", batch="b", task="t", repeat=0, repeats=1)
    database.rollouts.register(placed, now=STARTED)
    database.calls.write(CommitBatch(recorded=[exchange(rollout_id="r")]), worker="w")
    database.close()
    return file


@pytest.mark.slow
def test_whatever_statement_a_report_dies_at_it_is_judged_once_and_alike(tmp_path: Path) -> None:
    before = called(tmp_path / "before.db")
    alive = Process(shutil.copy(before, tmp_path / "alive.db"), now=ENDED)
    answer, expected = alive.report(), alive.seen()
    assert expected["events"] == ["verdict_given", "group_settled"]
    alive.database.close()
    stored = []
    for dies_at in range(alive.statements):
        file = shutil.copy(before, tmp_path / f"{dies_at}.db")
        dead = Process(file, now=ENDED)
        assert dead.report(dies_at=dies_at) is None
        row = dead.database.rollouts.row("r")
        dead.database.close()
        stored.append(row is not None and row["outcome"] is not None)
        next_one = Process(file, now=LATER if stored[-1] else ENDED)
        if stored[-1]:  # without its runner, too
            assert next_one.verdict() == expected["verdict"]
        assert next_one.report() == answer
        assert next_one.seen() == expected, dies_at
        next_one.database.close()
    assert stored == sorted(stored), "once it is stored, it stays"
    assert 0 < sum(stored) < alive.statements
