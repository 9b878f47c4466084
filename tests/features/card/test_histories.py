"""A card shows its batch's summary, and the export makes the same card, after any history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from classifier.canonical_json import rounded
from classifier.card import Roots, Stated, card_of, differences
from classifier.exported_batch import ExportedBatch
from proxy.control import batches, judge
from proxy.control.queries import Service
from proxy.features.card.card import make_card
from proxy.features.exports import control as exports
from proxy.routing.errors import Refusal
from proxy.store.batch_counts import all_of
from proxy.store.database import Database
from proxy.store.tables import CommitBatch, PolicyTerms, Registration, as_json
from tests.builders import calls
from tests.fakes.control import control_over
from tests.proxy.store import test_batch_counts as histories
from tests.proxy.store.test_batch_counts import NAMES, STEPS, History
from truezero.models import ListParameters

# By the name of a figure in REST's summary, its place on a card.
PLACES = {
    "rollouts": "rollouts",
    "total": "score.repeats",
    "scoreable": "score.scoreable",
    "scored": "score.measured",
    "own_failures": "score.own_failures",
    "coverage": "score.coverage",
    "score_effective": "score.score",
    "score_ci": "score.interval",
    "score_worst": "score.least",
    "score_best": "score.most",
    "score_all": "score.failures_as_0",
    "score_first": "score.first_attempts",
    "score_reported": "score.reported",
    "no_score": "score.no_score",
    "parts": "score.parts",
    "ones": "ones",
    "zeros": "zeros",
    "exclusion_bias": "exclusion.bias",
    "exclusion_p": "exclusion.p",
    "exclusion_fisher_p": "exclusion.fisher_p",
    "retried_after_score": "retried_after_score",
    "retried_after_score_total": "retried_after_score_total",
    "valid": "valid",
    "validity": "validity",
    "validity_checks": "validity_checks",
    "calls": "calls.total",
    "tokens_known_calls": "calls.tokens_known_calls",
    "cost_known_calls": "calls.cost_known_calls",
    "input_tokens": "tokens.input_tokens",
    "output_tokens": "tokens.output_tokens",
    "total_tokens": "tokens.total_tokens",
    "cost_usd": "cost.cost_usd",
}
LIVES = ("200*2", "401*2", "200+tool 503*2", "429*2 200", "200+garbled", "503 200", "200+empty*2")
REWARDS: tuple[dict[str, float], ...] = (
    {"reward": 0.0}, {"reward": 1.0}, {"reward": -1.5}, {"correctness": 0.0, "style": 1.0},
    {"correctness": 0.25}, {},
)  # fmt: skip
TERMS = {
    "b": PolicyTerms(stated={"agents": "untrusted"}),
    "c": PolicyTerms(stated={"reward_range": "[-2, 2]"}),
}


def run_of(of: History, draw: Any) -> None:
    """A rollout of either batch is registered, calls, reports, and may call once more."""
    name, batch = draw(st.sampled_from(NAMES)), draw(st.sampled_from(("b", "c")))
    placed = Registration(
        id=name, batch=batch, task=draw(st.sampled_from((None, "t", "u"))), repeat=0, repeats=2,
        attempt=draw(st.sampled_from((0, 1))), model="gpt-5",
        fallbacks=draw(st.sampled_from((None, "m\nn"))),
    )  # fmt: skip
    of.database.rollouts.register(placed, now=of.tick(), policy=TERMS[batch])
    began = of.tick()
    _record(of, name, draw(st.sampled_from(LIVES)), began)
    if draw(st.integers(0, 4)):
        outcome = {"status": "success", "prompts_executed": 1}
        rewards = draw(st.sampled_from(REWARDS))
        of.now += 300
        of.database.rollouts.report(name, as_json(outcome | {"rewards": rewards}), now=of.tick())
        of.database.closings.closed(name, now=of.now, gaps=0)
        asyncio.run(judge.verdict(service_of(of), name))
    if draw(st.booleans()):  # late, within the time that two clocks may be apart
        _record(of, name, draw(st.sampled_from(LIVES)), of.now)


def _record(of: History, name: str, life: str, began: float) -> None:
    played = calls(life)
    first = played[0].timing.started_at
    recorded = [
        replace(
            x, id=f"{name}-{of.now:.0f}-{x.id}"[-32:], rollout_id=name,
            timing=replace(x.timing, started_at=began + x.timing.started_at - first),
        )
        for x in played
    ]  # fmt: skip
    of.database.calls.write(CommitBatch(recorded=recorded), worker="w")


def service_of(of: History) -> Service:
    return control_over(of.database, now=lambda: of.now)


_ON_ONE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    opened.prepare()
    yield opened
    opened.close()


@pytest.fixture
def history(database: Database, tmp_path: Path) -> History:
    return History(database, tmp_path)


@settings(max_examples=3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_a_card_shows_the_summary_and_its_export_makes_it_again(
    history: History, data: Any
) -> None:
    _after_any_history(history, data.draw, 8)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_a_card_shows_the_summary_after_long_histories(history: History, data: Any) -> None:
    _after_any_history(history, data.draw, 20)


@settings(max_examples=3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_the_calls_of_an_export_give_the_verdicts_that_stand(history: History, data: Any) -> None:
    """Late calls are not among them, whatever the time between an outcome and them."""
    histories.begin_anew(history)
    for _ in range(6):
        run_of(history, data.draw)
    history.now += 3600
    service = service_of(history)
    for batch in ("b", "c"):
        if (records := asyncio.run(_exported(service, batch))) is not None:
            policy = service.policy
            assert ExportedBatch.of(records, policy, judged_anew=True).changed == []


def _after_any_history(of: History, draw: Any, steps: int) -> None:
    histories.begin_anew(of)
    known: list[Callable[[History, Any], None]] = [*STEPS, *[run_of] * len(STEPS)]
    for step in [run_of, run_of, *draw(st.permutations(known))[:steps]]:
        step(of, draw)
    of.now += 3600  # what ends after an outcome has ended
    for batch in ("b", "c"):
        replicas = [asyncio.run(_figures(service_of(of), batch)) for _ in range(2)]
        assert replicas[0] == replicas[1]


async def _figures(service: Service, batch: str) -> dict[str, Any] | None:
    """Return a batch's card, once it is known to show what its summary and its export do."""
    await judge.refresh(service, batch)  # else each look judges some that run
    try:
        summary = await batches.summary(service, batch)
    except Refusal as refused:
        assert refused.code == "unknown_batch"
        return None
    card = await make_card(service, batch)
    exported = await _exported(service, batch)
    assert exported is not None
    assert shown(card["measured"]) == expected(rounded(summary))
    again = card_of(exported, Stated.decode(card["stated"]))
    assert again["roots"]["export"] is not None
    assert differences(card, {**again, "roots": Roots().encode()}) == []
    rollouts = service.database.read(all_of, batch)
    assert card["measured"]["rollouts"] == len(rollouts)
    registered = card["measured"]["models"]["registered"]
    assert sum(each["rollouts"] for each in registered) == len(rollouts)
    assert sum(card["measured"]["agents"].values()) == len(rollouts)
    return card


async def _exported(service: Service, batch: str) -> list[dict[str, Any]] | None:
    try:
        parts = await exports.export(service, ListParameters(batch=[batch]))
    except Refusal as refused:
        assert refused.code == "unknown_batch"
        return None
    return [json.loads(json.dumps(record)) async for part in parts for record in part]


def shown(measured: dict[str, Any]) -> dict[str, Any]:
    """Return a card's figures under the names of a batch's summary."""
    return {name: _at(measured, place.split(".")) for name, place in PLACES.items()}


def _at(value: Any, place: list[str]) -> Any:
    return value if not place else _at(value[place[0]], place[1:])


def expected(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in PLACES}
