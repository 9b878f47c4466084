"""Calls, tokens and cost by model: names of the price table only, and unknown is never zero."""

from __future__ import annotations

from dataclasses import replace

import pytest

from classifier.records import Cause, Exchange, Kind, Usage
from classifier.verdicts import Subcategory
from proxy.recording.backlog import FlushResult
from proxy.store.tables import StoreCounts
from proxy.telemetry.metrics import _FRESH, MOST, OTHER, Metrics
from tests.builders import exchange
from tests.proxy.telemetry.test_metrics import PRICES, Quiet, after, told, value

CALLS, TOKENS = "truezero_model_calls_total", "truezero_model_tokens_total"
COST, COSTED = "truezero_cost_usd_total", "truezero_cost_calls_total"
USED = Usage(input_total=1_000_000, output_total=1000)
BUSY = Cause(subcategory=Subcategory.RATE_LIMIT, transient=True, rule="r")


def test_calls_are_counted_by_the_model_that_answered() -> None:
    samples = after(
        exchange(model="alias", answered_model="gpt-5-2025-08-07"),
        exchange(429, model="gpt-5"),
        exchange(kind=Kind.PROBE, model="gpt-5"),
        exchange(model="gpt-5", injected=True),
    )
    assert value(samples, CALLS, upstream="openai", model="gpt-5", subcategory="none") == 1
    assert value(samples, CALLS, model="gpt-5", subcategory="rate_limit") == 1
    assert value(samples, TOKENS, model="gpt-5", kind="output") == 20


def test_what_has_no_price_is_counted_and_adds_no_zero() -> None:
    samples = after(
        exchange(usage=USED),
        exchange(usage=Usage()),  # it answered, and nobody says how many tokens
        exchange(model="our-own-7b", usage=USED),
        exchange(429, usage=Usage()),
        exchange(cause=BUSY, usage=USED),  # failed inside a 200: it may have used tokens
    )
    assert value(samples, COSTED, model="gpt-5", cost="known") == 2
    assert value(samples, COSTED, model="gpt-5", cost="unknown") == 1
    assert value(samples, COSTED, model=OTHER, cost="unknown") == 1
    one = PRICES.cost(exchange(usage=USED))
    assert one is not None
    assert value(samples, COST, model="gpt-5") == pytest.approx(2 * one)
    assert value(samples, COST, model=OTHER) is None


def test_a_cost_that_the_provider_states_needs_no_known_model() -> None:
    stated = exchange(model="our-own-7b", usage=replace(USED, cost_usd=0.5))
    assert value(after(stated, stated), COST, model=OTHER) == 1.0


def test_counts_that_contradict_each_other_make_no_negative_cost() -> None:
    odd = Usage(input_total=1, output_total=0, cached_input_tokens=10**6)
    assert (PRICES.cost(exchange(usage=odd)) or 0) < 0
    samples = after(exchange(usage=odd))
    assert value(samples, COSTED, model="gpt-5", cost="unknown") == 1
    assert value(samples, COST) is None


@pytest.mark.parametrize(
    "written", ["sk-proj-4f4f4f4f4f4f4f4f4f4f", "gpt-5 say hello", "tz-9a8b7c6d5e4f", "x" * 200]
)
def test_what_a_caller_wrote_is_no_label(written: str) -> None:
    samples = after(exchange(model=written), exchange(model="gpt-5", answered_model=written))
    assert value(samples, CALLS, model=OTHER) == 2
    assert written not in str(samples)


class Everything:
    """A table that knows every model, as none does."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def model_name(self, _upstream: str, model: str | None) -> str | None:
        self.asked.append(model)
        return model

    def cost(self, _exchange: Exchange) -> float | None:
        return 1.0


def counting(prices: Everything) -> Metrics:
    nothing = StoreCounts(verdicts={}, breakers={})
    return Metrics(Quiet(), census=lambda: nothing, version="9.9", prices=prices)


def test_an_agent_that_invents_names_makes_no_more_labels() -> None:
    metrics, step = counting(Everything()), _FRESH // 2
    calls = [exchange(model=f"m-{n}") for n in range(3 * MOST)]
    for n in range(0, len(calls), step):
        metrics.observe(FlushResult(ended=calls[n : n + step], waited_s=[], took_s=0.0))
        metrics.sample()
    samples = told(metrics)
    counts = {dict(of)["model"]: count for (name, of), count in samples.items() if name == CALLS}
    assert len(counts) == MOST + 1
    assert counts[OTHER] == 2 * MOST
    assert value(samples, COST, model=OTHER) == 2 * MOST, "its cost is known all the same"


def test_an_agent_that_invents_names_makes_no_more_look_ups() -> None:
    prices = Everything()
    metrics = counting(prices)
    calls = [exchange(model=f"m-{n}") for n in range(5 * _FRESH)]
    metrics.observe(FlushResult(ended=calls, waited_s=[], took_s=0.0))
    assert value(metrics, CALLS, model=OTHER) == 4 * _FRESH
    assert len(prices.asked) == _FRESH + 1
