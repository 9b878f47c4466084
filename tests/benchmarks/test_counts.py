"""The count of instructions is the same each time, and within its bound.

A change of one is a change of code: the hot path does not grow unseen.
"""

from __future__ import annotations

import sys

import pytest

from benchmarks.counts import BOUNDS, OTHER_VERSIONS, measure


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="later ones instrument a frame when they come to it"
)
def test_two_counts_agree_to_the_last_instruction() -> None:
    assert measure(2) == measure(2)


@pytest.mark.slow
def test_no_call_costs_more_than_its_bound() -> None:
    once = measure(1)
    chunk, exchange = once["a chunk of a stream"], once["a plain exchange"]
    assert 0 < chunk.opcodes < exchange.opcodes
    assert 0 < chunk.calls < exchange.calls
    assert exchange.by_module["proxy/relay/call.py"] > 0
    more = 1.0 if sys.version_info[:2] == (3, 11) else OTHER_VERSIONS
    over = {
        what: (count.opcodes, count.calls)
        for what, count in once.items()
        if count.opcodes > BOUNDS[what][0] * more or count.calls > BOUNDS[what][1] * more
    }
    assert over == {}
