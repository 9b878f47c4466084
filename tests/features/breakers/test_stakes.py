"""A breaker that one more rollout would open hangs on the reference calls to its lane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from classifier.breakers import Phase
from classifier.verdicts import Policy
from proxy.control import judge, rollouts
from proxy.control.queries import Service
from proxy.features.breakers.store import Breakers
from proxy.store.database import Database
from proxy.store.references import ReferenceLane
from proxy.store.tables import CommitBatch, Registration
from tests.builders import STARTED, calls
from tests.fakes.control import control_over
from truezero.models.rollouts import OutcomeRequest


async def _asked_already(_failures: object, _within_s: float) -> None:
    """The series is in the database."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(str(tmp_path / "t.db"))) as database:
        database.prepare()
        yield database


def asking(database: Database, threshold: int, now: Callable[[], float]) -> Service:
    policy = Policy(breaker_threshold=threshold)
    return control_over(database, policy=policy, now=now, ask_references=_asked_already)


def reported(service: Service, name: str) -> None:
    """An agent whose key was refused, and that ended politely."""
    database = service.database
    database.rollouts.register(Registration(id=name, batch="b", model="m"), now=STARTED)
    failed = replace(calls("401[1-2]")[0], id=f"x-{name}", rollout_id=name)
    database.calls.write(CommitBatch(recorded=[failed]), worker="w")
    asyncio.run(
        rollouts.report(service, name, OutcomeRequest(status="success", prompts_executed=1))
    )


@pytest.mark.parametrize(("threshold", "waits"), [(2, True), (3, False)])
def test_who_looks_before_the_question_began_makes_no_verdict_final_that_opens_a_breaker(
    database: Database, threshold: int, waits: bool
) -> None:
    at = STARTED + 10.0
    service = asking(database, threshold, lambda: at)
    reported(service, "r0")
    reported(service, "r1")
    assert asyncio.run(judge.verdict(service, "r1"))["provisional"] is waits
    assert [each.streak for each in Breakers(database.connections).of_batch("b")] == [2 - waits]
    at += 6.0  # nobody asked
    assert asyncio.run(judge.verdict(service, "r1"))["provisional"] is False
    assert [each.streak for each in Breakers(database.connections).of_batch("b")] == [2]


@pytest.mark.parametrize(
    ("answered", "phase"), [(False, "open"), (True, "closed")], ids=["fails alike", "is answered"]
)
def test_a_series_that_runs_on_after_the_outcome_is_no_answer_until_it_ends(
    database: Database, answered: bool, phase: str
) -> None:
    at = STARTED + 10.0
    service = asking(database, 2, lambda: at)
    reported(service, "r0")
    lane = ReferenceLane("openai", "m")
    database.references.begin("s1", lane, api="openai.chat", worker="w", at=at)
    database.references.share("s1", [("r1", "x-r1")])
    reported(service, "r1")
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
