"""Figures of a card are those of its batch, wherever they are shown."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from classifier.canonical_json import rounded
from classifier.figures import FIGURES
from tests.fakes import replies
from tests.fakes.answers import Api
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import play
from tests.proxy.web.test_figures import by_name, check_values, counted_anew, live
from tests.proxy.web.test_one_number import play_biased, play_five, printed, says_one_p
from tests.proxy.web.test_pages import page, words

EMPTY = replies.answer(
    Api.CHAT, replies.Reply(model="gpt-5", input_tokens=9000, output_tokens=0, text=()),
    streams=False,
)  # fmt: skip


def card(service: Service) -> Iterator[tuple[str, Any]]:
    """The card's fields by the names of REST."""
    measured = service.get("/batches/b/card")["measured"]
    for name, place in _ON_CARD.items():
        value = measured
        for step in place.split("."):
            value = value[step]
        yield name, value


_OF_SCORE = {
    "total": "repeats", "repeats_planned": "repeats", "scored": "measured",
    "score_effective": "score", "score_ci": "interval", "score_worst": "least",
    "score_best": "most", "score_all": "failures_as_0", "score_reported": "reported",
    "score_first": "first_attempts",
    **{name: name for name in ("scoreable", "own_failures", "coverage")},
    **{name: name for name in FIGURES if name.startswith("parts.")},
}  # fmt: skip
_ON_CARD: Mapping[str, str] = {
    **{name: f"score.{place}" for name, place in _OF_SCORE.items()},
    **{name: name for name in FIGURES if name.startswith(("zeros.", "ones."))},
    **{name: name for name in (
        "rollouts", "validity", "validity_checks", "retried_after_score_total",
    )},
    "calls": "calls.total",
    **{name: f"calls.{name}" for name in ("tokens_known_calls", "cost_known_calls")},
    **{name: f"tokens.{name}" for name in ("input_tokens", "output_tokens", "total_tokens")},
    "cost_usd": "cost.cost_usd",
}  # fmt: skip


def check(service: Service) -> None:
    check_values(service, rounded(dict(by_name(counted_anew(service)))), [card])


def test_each_figure_is_as_its_function_counts_it(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="3")
    live(service, random.Random(2), 14)
    check(service)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 105))
def test_each_figure_is_so_after_longer_lives(on_both: Callable[..., Service], seed: int) -> None:
    service = on_both(BREAKER_THRESHOLD="3")
    live(service, random.Random(seed), 30)
    check(service)


def test_the_page_and_the_command_say_what_the_card_does(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="50")
    play_five(service)
    measured = service.get("/batches/b/card")["measured"]
    assert measured["zeros"]["by_cause"] == {"auth": 2, "provider_error": 1}
    score = measured["score"]
    assert (score["measured"], score["repeats"], score["score"]) == (2, 5, 0.5)
    html = service.http.get("/batches/b/card", headers={"accept": "text/html"}).text
    for text in (words(html), printed(service, "card", "b")):
        assert "3 of 4 reported zeros are not measurements" in text
        assert "2 of 5 measured (40%)" in text


@pytest.mark.slow
def test_an_empty_answer_costs_its_input(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="50")
    play(service, "full", task="full", reward=1.0)
    play(service, "empty", EMPTY, task="empty")
    cost = service.get("/batches/b/usage")["sum"]["cost_usd"]
    assert service.get("/batches/b/card")["measured"]["cost"]["cost_usd"] == round(cost, 6)


@pytest.mark.slow
def test_what_is_excluded_has_one_p(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="50")
    play_biased(service)
    html = service.http.get("/batches/p/card", headers={"accept": "text/html"}).text
    says_one_p(words(html), "page")
    says_one_p(printed(service, "card", "p"), "command")


def test_the_page_of_a_batch_leads_to_its_card(services: Services) -> None:
    service = services()
    play(service, "won", reward=1.0, task="won")
    html = page(service, "/ui/batches/b")
    assert '<a href="/ui/batches/b/card">Measurement card</a>' in html
    shown = words(page(service, "/ui/batches/b/card"))
    assert "Measurement card b 1.000" in shown
