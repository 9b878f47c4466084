"""The score of a card, whichever of a rollout's rewards it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from classifier.card import Stated, card_of
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play
from tests.proxy.control.test_reported import SEVERAL, cli, judged_by_three
from tests.proxy.web.test_pages import words


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="50")


def exported_card(service: Service) -> dict[str, Any]:
    """The card made of a batch's export, as `truezero card verify` makes it."""
    lines = service.http.get("/rollouts/export?batch=b").text.splitlines()
    stated = Stated.decode(service.get("/batches/b/card")["stated"])
    return card_of(map(json.loads, lines), stated)


def test_a_card_of_several_rewards_says_that_there_is_no_score(service: Service) -> None:
    judged_by_three(service)
    play(service, "dead", DEAD, task="t3", reward={"correctness": 1.0, "style": 0.5})
    card = service.get("/batches/b/card")
    score = card["measured"]["score"]
    assert (score["score"], score["failures_as_0"], score["reported"]) == (None, None, None)
    assert score["no_score"] == f"no score: {SEVERAL}"
    assert card["measured"]["valid"] is False
    assert card["measured"]["ones"] == {"reported": 3, "not_measured": 1, "by_cause": {"auth": 1}}
    assert exported_card(service)["measured"] == card["measured"]
    shown = service.http.get("/batches/b/card", headers={"accept": "text/html"}).text
    assert f"No score: {SEVERAL}." in words(shown)
    assert f"no score: {SEVERAL}" in cli(service, "card", "b").stdout


def test_a_card_reads_the_registered_key_and_what_was_planned(service: Service) -> None:
    rewards = {"correctness": 1.0, "style": 0.5}
    play(service, "r0", task="t", repeat=0, repeats=2, score_key="style", reward=rewards)
    card = service.get("/batches/b/card")
    score = card["measured"]["score"]
    assert (score["score"], score["reported"], score["no_score"]) == (0.5, 0.5, None)
    assert (score["measured"], score["repeats"], score["coverage"]) == (1, 2, 0.5)
    assert score["parts"]["never_started"] == 1
    assert exported_card(service)["measured"] == card["measured"]


def test_rewards_beyond_any_range_bound_no_score(service: Service) -> None:
    for n, reward in enumerate((-1.5, 0.5, 2.0, 1e12)):
        play(service, f"r{n}", task=f"t{n}", reward=reward)
    play(service, "dead", DEAD, task="dead")
    card = service.get("/batches/b/card")["measured"]["score"]
    assert (card["least"], card["most"]) == (None, None)


def test_a_registered_range_of_rewards_bounds_the_score(service: Service) -> None:
    for name, reward, answer in (("low", -1.0, None), ("high", 3.0, None), ("dead", 0.0, DEAD)):
        play(service, name, answer, task=name, reward=reward, reward_range=[-1, 3])
    summary = service.get("/batches/b")
    bounds = (summary["score_worst"], summary["score_best"])
    card = service.get("/batches/b/card")["measured"]["score"]
    assert (card["least"], card["most"]) == pytest.approx(bounds, abs=1e-6)
