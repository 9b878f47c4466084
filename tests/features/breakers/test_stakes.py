"""A breaker that one more rollout would open hangs on the reference calls to its lane."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from classifier.breakers import Phase
from classifier.verdicts import Policy
from proxy.control import judge, rollouts
from proxy.features.breakers.store import Breakers
from proxy.store.database import Database
from proxy.store.references import ReferenceLane
from proxy.store.tables import CommitBatch, Registration
from tests.builders import STARTED, calls
from tests.fakes.control import control_over
from truezero.models.rollouts import OutcomeRequest


async def _asked_already(_failures: object, _within_s: float) -> None:
    """The series is in the database."""


@pytest.mark.parametrize(
    ("answered", "phase"), [(False, "open"), (True, "closed")], ids=["fails alike", "is answered"]
)
def test_a_series_that_runs_on_after_the_outcome_is_no_answer_until_it_ends(
    tmp_path: Path, answered: bool, phase: str
) -> None:
    at = STARTED + 10.0
    database = Database(str(tmp_path / "t.db"))
    database.prepare()
    service = control_over(
        database,
        policy=Policy(breaker_threshold=2),
        now=lambda: at,
        ask_references=_asked_already,
    )
    for name in ("r0", "r1"):
        database.rollouts.register(Registration(id=name, batch="b", model="m"), now=STARTED)
        failed = replace(calls("401[1-2]")[0], id=f"x-{name}", rollout_id=name)
        database.calls.write(CommitBatch(recorded=[failed]), worker="w")
    asyncio.run(
        rollouts.report(service, "r0", OutcomeRequest(status="success", prompts_executed=1))
    )
    lane = ReferenceLane("openai", "m")
    database.references.begin("s1", lane, api="openai.chat", worker="w", at=at)
    database.references.share("s1", [("r1", "x-r1")])
    asyncio.run(
        rollouts.report(service, "r1", OutcomeRequest(status="success", prompts_executed=1))
    )
    at += 20.0
    waiting = asyncio.run(judge.verdict(service, "r1"))
    assert waiting["provisional"] is True
    (state,) = Breakers(database.connections).of_batch("b")
    assert (state.phase, state.streak, state.answered_at) == (Phase.CLOSED, 1, None)
    said = {"answered": answered, "subcategory": None if answered else "auth"}
    question = {"exchange_id": "q", "started_at": at, "ended_at": at, **said}
    database.references.end("s1", at=at, calls=json.dumps([question]))
    assert asyncio.run(judge.verdict(service, "r1"))["provisional"] is False
    (state,) = Breakers(database.connections).of_batch("b")
    assert (state.phase, state.streak) == (Phase(phase), 2)
    database.close()
