"""Where counts are stated: which place is believed where several state the same one."""

from __future__ import annotations

import math
from itertools import permutations

from proxy.wire import usage
from proxy.wire.dialect import ResponseFacts
from tests.tables import each

# Places of one count, the best first, each with a number of its own.
CACHED = {
    "prompt_tokens_details": {"cached_tokens": 1},
    "input_tokens_details": {"cached_tokens": 2},
    "prompt_cache_hit_tokens": 3,
    "cached_tokens": 4,
    "cache_read_input_tokens": 5,
}


def cached(stated: dict[str, object]) -> int | None:
    reading = ResponseFacts()
    usage.take(reading, usage.OPENAI, stated)
    return reading.cached_input_tokens


@each("left_out", range(len(CACHED)))
def test_the_best_place_is_believed_in_whatever_order_they_stand(left_out: int) -> None:
    places = list(CACHED.items())[left_out:]
    for order in permutations(places):
        assert cached(dict(order)) == left_out + 1


@each(
    "nothing", [None, "", "7k", "-7", "0.5", -1, 0.5, True, 2**53, [], {}, {"cached_tokens": None}]
)
def test_a_place_that_states_no_count_gives_way_to_the_next(nothing: object) -> None:
    assert cached({**CACHED, "prompt_tokens_details": nothing}) == 2
    assert cached({"prompt_cache_hit_tokens": nothing, "cached_tokens": 4}) == 4


def test_a_count_that_is_not_stated_stays_as_it_was() -> None:
    reading = ResponseFacts()
    reading.input_tokens, reading.output_tokens = 7, 8
    usage.take(reading, usage.OPENAI, {"prompt_tokens": None, "else": 9})
    assert (reading.input_tokens, reading.output_tokens, reading.total_tokens) == (7, 8, None)


@each("zero", [0, 0.0, "0", "0.0"])
def test_a_zero_takes_no_count_back_and_is_one_by_itself(zero: object) -> None:
    reading = ResponseFacts()
    usage.take(reading, usage.OPENAI, {"prompt_tokens": 15, "completion_tokens": zero})
    usage.take(reading, usage.OPENAI, {"prompt_tokens": zero, "completion_tokens": 4})
    usage.take(reading, usage.OPENAI, {"prompt_tokens": zero, "completion_tokens": zero})
    usage.take(reading, usage.OPENAI, {"total_tokens": zero})
    assert (reading.input_tokens, reading.output_tokens, reading.total_tokens) == (15, 4, 0)


@each("text, number", [("15", 15), ("15.0", 15), (" 15", 15), ("007", 7)])
def test_a_count_may_be_written_as_a_text(text: str, number: int) -> None:
    assert cached({"prompt_tokens_details": {"cached_tokens": text}}) == number


@each("claimed", ["1000000001", "9" * 18, "1000000001.5"])
def test_a_text_that_no_call_can_have_counted_is_unreadable(claimed: str) -> None:
    reading = ResponseFacts()
    usage.take(reading, usage.OPENAI, {"prompt_tokens": claimed})
    assert reading.input_tokens is None
    assert reading.unreadable == {"input_tokens"}


UNREADABLE = (10**9 + 1, 2**53 - 1, 2**63, 10**400, 1e10, math.inf, math.nan)


@each("claimed", UNREADABLE)
def test_a_count_that_no_call_can_have_is_unreadable(claimed: float) -> None:
    reading = ResponseFacts()
    details = {"cached_tokens": claimed}
    stated = {
        "prompt_tokens": 10**9,
        "completion_tokens": claimed,
        "prompt_tokens_details": details,
    }
    usage.take(reading, usage.OPENAI, stated)
    assert reading.input_tokens == 10**9
    assert reading.unreadable == {"output_tokens", "cached_input_tokens"}
    reading.output_tokens = 1  # of an earlier event, which says no more either
    assert usage.readable(reading).output_tokens is None
    assert usage.readable(reading).input_tokens == 10**9


@each("claimed", [1e6 + 1, 10**400, math.inf, math.nan])
def test_a_cost_that_no_call_can_have_is_unreadable(claimed: float) -> None:
    for stated in (
        {"cost": claimed},
        {"cost": {"total_cost": claimed}},
        {"cost_in_usd_ticks": 10**20},
    ):
        reading = ResponseFacts()
        usage.cost(reading, stated)
        assert reading.cost_usd is None
        assert reading.unreadable == {"cost_usd"}
    reading = ResponseFacts()
    usage.cost(reading, {"cost": 1e6})
    assert (reading.cost_usd, reading.unreadable) == (1e6, frozenset())


@each("claimed", [b"1000000001", b"9" * 30, b"1e400", b"inf"])
def test_headers_are_believed_no_more_than_bodies(claimed: bytes) -> None:
    names = {b"x-amzn-bedrock-input-token-count": claimed, b"x-litellm-response-cost": claimed}
    stated = usage.in_headers({**names, b"x-amzn-bedrock-output-token-count": b"7"})
    reading = ResponseFacts()
    usage.fill(reading, stated)
    assert (reading.input_tokens, reading.output_tokens, reading.cost_usd) == (None, 7, None)
    assert not usage.plausible(stated)
    assert usage.in_headers({b"x-litellm-response-cost": b"nan"}) == {}
