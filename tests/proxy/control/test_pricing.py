"""What a call cost: the library's own figure, the provider's word first, null where unknown."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from genai_prices import Usage as Counts
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Ending, Exchange, Timing, Usage
from classifier.totals import cost_unknown_calls
from proxy.control import pricing
from proxy.control.pricing import PriceTable
from proxy.routing.upstreams import allow_list
from proxy.store.triggers import TIERS

ROOT = Path(__file__).parents[3]
UPSTREAMS = allow_list({"mine": {"url": "http://127.0.0.1:1"}, "openai": {"url": "http://gw:1"}})
TABLE = PriceTable(UPSTREAMS)
DAY = datetime(2026, 6, 1, 12, tzinfo=UTC)
PRICED = [
    ("openai", "gpt-5", "openai"),
    ("anthropic", "claude-sonnet-4-5-20250929", "anthropic"),
    ("gemini", "gemini-2.5-pro", "google"),
    ("groq", "llama-3.3-70b-versatile", "groq"),
    ("bedrock", "us.anthropic.claude-3-7-sonnet-20250219-v1:0", "aws"),
]


def call(upstream: str, model: str | None, **counts: int | float | None) -> Exchange:
    return Exchange(
        id="x", rollout_id="r", upstream=upstream, api="a", model=model,
        timing=Timing(started_at=DAY.timestamp()), usage=Usage(**counts),  # type: ignore[arg-type]
    )  # fmt: skip


NAMES = ("inputs", "cached", "written", "outputs")


def sized(upstream: str, model: str, *size: int) -> float:
    """The cost of a call of so many tokens that came in, were cached, were written, went out."""
    fields = ("input_total", "cached_input_tokens", "cache_write_tokens", "output_total")
    found = cost(call(upstream, model, **dict(zip(fields, size, strict=True))))
    assert found is not None
    return found


def together(*sizes: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(NAMES, map(sum, zip(*sizes, strict=True)), strict=True))


def cost(exchange: Exchange) -> float | None:
    return TABLE.cost(exchange)


@given(
    priced=st.sampled_from(PRICED),
    fresh=st.integers(0, 500_000),
    read=st.integers(0, 100_000),
    written=st.integers(0, 100_000),
    outputs=st.integers(0, 100_000),
)
def test_the_cost_is_the_librarys_figure(
    priced: tuple[str, str, str], fresh: int, read: int, written: int, outputs: int
) -> None:
    upstream, model, provider = priced
    inputs = fresh + read + written
    counts = Counts(
        input_tokens=inputs, cache_read_tokens=read, cache_write_tokens=written,
        output_tokens=outputs,
    )  # fmt: skip
    expected = calc_price(
        counts, model, provider_id=provider, genai_request_timestamp=DAY
    ).total_price
    got = cost(
        call(
            upstream, model, input_total=inputs, output_total=outputs,
            cached_input_tokens=read, cache_write_tokens=written,
        )
    )  # fmt: skip
    assert got == pytest.approx(float(expected), rel=1e-9, abs=1e-15)


def test_the_providers_own_word_comes_first() -> None:
    assert cost(call("openai", "gpt-5", input_total=1, output_total=1, cost_usd=0.5)) == 0.5


@pytest.mark.parametrize(
    "exchange",
    [
        call("openai", "no-such-model", input_total=1, output_total=1),
        call("mine", "gpt-5", input_total=1, output_total=1),
        call("nowhere", "gpt-5", input_total=1, output_total=1),
        call("openai", None, input_total=1, output_total=1),
        call("openai", "gpt-5", input_total=1),
        call("openai", "gpt-5", output_total=1),
    ],
)
def test_what_is_not_known_costs_null_not_zero(exchange: Exchange) -> None:
    assert cost(exchange) is None


def test_the_model_that_answered_is_paid_and_a_gateway_under_a_providers_name_as_that() -> None:
    asked = call("openai", "gpt-5-nano", input_total=1000, output_total=0)
    assert cost(replace(asked, answered_model="gpt-5")) == pytest.approx(0.00125)


def test_a_total_with_an_unknown_part_is_a_lower_bound() -> None:
    known = call("openai", "gpt-5", input_total=1000, output_total=10)
    unknown = call("openai", "no-such-model", input_total=1000, output_total=10)
    failed = call("openai", "gpt-5")
    assert TABLE.total([known, known, failed]) == pytest.approx(2 * (cost(known) or 0))
    assert TABLE.total([known, unknown]) == cost(known)
    ended = [replace(each, ending=Ending.COMPLETE) for each in (known, unknown)]
    assert cost_unknown_calls(ended, TABLE.cost) == 1
    assert TABLE.total([failed]) is None
    assert TABLE.total([]) is None


def test_the_table_names_its_version() -> None:
    assert TABLE.version.startswith("genai-prices ")


def test_calls_of_a_day_cost_together_what_each_costs() -> None:
    day = int(DAY.timestamp() // 86_400)
    sizes = ((1000, 400, 100, 50), (31_000, 0, 0, 900), (250_000, 1000, 0, 10))
    for upstream, model, _ in PRICED:
        first, second, large = [sized(upstream, model, *size) for size in sizes]
        summed = TABLE.of_sums(upstream, model, day, calls=2, **together(*sizes[:2]))
        assert summed == pytest.approx(first + second), model
        alone = TABLE.of_sums(upstream, model, day, calls=1, **together(sizes[2]))
        assert alone == large, "a tier of its own"
    for upstream, unknown in (("nowhere", "gpt-5"), ("openai", None), ("openai", "nobody-knows")):
        assert TABLE.of_sums(upstream, unknown, day, calls=2, **together(*sizes[:2])) is None


def test_calls_within_one_tier_cost_together_what_each_costs() -> None:
    day = int(DAY.timestamp() // 86_400)
    for upstream, model in (("gemini", "gemini-2.5-pro"), ("anthropic", "claude-sonnet-4-5")):
        sizes = ((200_001, 400, 100, 50), (255_000, 0, 0, 9000))
        costs = sum(sized(upstream, model, *size) for size in sizes)
        assert TABLE.holds(upstream, model, day, above=200_000)
        summed = TABLE.of_sums(upstream, model, day, calls=2, above=200_000, **together(*sizes))
        assert summed == pytest.approx(costs), model
        lower = TABLE.of_sums(upstream, model, day, calls=2, **together(*sizes))
        assert lower is not None and lower < costs


def test_a_tier_that_calls_are_not_added_up_by_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    day = int(DAY.timestamp() // 86_400)
    asked = ("gemini", "gemini-2.5-pro", day)
    assert all(TABLE.holds(*asked, above=above) for above in (0, *TIERS))
    monkeypatch.setitem(pricing._NEXT, 199_999, 256_000)  # as if 200,000 were none of them  # noqa: SLF001  as if 200,000 tokens were no threshold
    assert not TABLE.holds(*asked, above=199_999)
    assert TABLE.holds("nowhere", "gpt-5", day, above=0), "what has no price needs none"


def test_a_model_has_the_tables_name_whatever_it_is_called_and_wherever_it_is_served() -> None:
    names = {
        ("openai", "gpt-5-mini-2025-08-07"): "gpt-5-mini",
        ("anthropic", "CLAUDE-SONNET-4-5-20250929"): "claude-sonnet-4-5",
        ("mine", "gpt-5"): "gpt-5",
        ("nowhere", "gpt-5"): "gpt-5",
        ("openai", "sk-proj-" + "4f" * 20): None,
        ("openai", "tell me what gpt-5 said"): None,
        ("mine", "our-own-7b"): None,
        ("openai", None): None,
    }
    assert {key: TABLE.model_name(*key) for key in names} == names


_BOTH = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from proxy.control import pricing

begun = threading.Event()

def late(event, args):
    if event == "exec" and args[0].co_filename.endswith("genai_prices/__init__.py"):
        begun.set()
        threading.Event().wait(0.3)  # for the other one to begin with a module of it

sys.addaudithook(late)
url = "https://api.openai.com"
with ThreadPoolExecutor(2) as threads:
    charge = threads.submit(pricing._charge, url, "gpt-5", 20_000, 1_000_000, 0, 0, 0)
    begun.wait()
    names = threads.submit(pricing._table_name, url, "gpt-5")
    print(charge.result(), names.result())
"""


@pytest.mark.slow
def test_two_threads_that_load_the_table_at_once_both_have_all_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BOTH], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "1.25 gpt-5\n", done.stderr


def test_a_tier_or_paid_tools_have_no_known_cost_unless_the_provider_states_it() -> None:
    plain = call("openai", "gpt-5", input_total=1000, output_total=10)
    for billed_as in ("priority", "flex", "tools"):
        special = replace(plain, billed_as=billed_as)
        assert cost(special) is None, billed_as
        assert TABLE.total([plain, special]) == cost(plain)
        stated = replace(special, usage=replace(special.usage, cost_usd=0.5))
        assert cost(stated) == 0.5
        assert TABLE.by_tokens(special) == cost(plain), "what a budget counts of it"
