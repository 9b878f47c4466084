"""Where counts are stated: which place is believed where several state the same one."""

from __future__ import annotations

from itertools import permutations

import pytest

from proxy.wire import usage
from proxy.wire.dialect import Reading

# Places of one count, the best first, each with a number of its own.
CACHED = {
    "prompt_tokens_details": {"cached_tokens": 1},
    "input_tokens_details": {"cached_tokens": 2},
    "prompt_cache_hit_tokens": 3,
    "cached_tokens": 4,
    "cache_read_input_tokens": 5,
}


def cached(stated: dict[str, object]) -> int | None:
    reading = Reading()
    usage.take(reading, usage.OPENAI, stated)
    return reading.cached_input_tokens


@pytest.mark.parametrize("left_out", range(len(CACHED)))
def test_the_best_place_is_believed_in_whatever_order_they_stand(left_out: int) -> None:
    places = list(CACHED.items())[left_out:]
    for order in permutations(places):
        assert cached(dict(order)) == left_out + 1


@pytest.mark.parametrize("nothing", [None, "7", -1, True, 2**53, [], {}, {"cached_tokens": None}])
def test_a_place_that_states_no_count_gives_way_to_the_next(nothing: object) -> None:
    assert cached({**CACHED, "prompt_tokens_details": nothing}) == 2
    assert cached({"prompt_cache_hit_tokens": nothing, "cached_tokens": 4}) == 4


def test_a_count_that_is_not_stated_stays_as_it_was() -> None:
    reading = Reading(input_tokens=7, output_tokens=8)
    usage.take(reading, usage.OPENAI, {"completion_tokens": 0, "prompt_tokens": None, "else": 9})
    assert (reading.input_tokens, reading.output_tokens, reading.total_tokens) == (7, 0, None)
