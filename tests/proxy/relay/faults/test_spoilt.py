"""Spoilt answers: few tokens of a long prompt, always as many, and another model than asked."""

from __future__ import annotations

import pytest

from proxy.relay.fault_scripts import (
    INVALID_ANSWERS,
    SUBSTITUTE_MODEL,
    WINDOW_TOKENS,
    FaultedRequest,
)


def request(size: int) -> FaultedRequest:
    return FaultedRequest(model="m", streamed=False, size=size)


def test_growing_prompts_are_read_to_the_same_length() -> None:
    read = [
        INVALID_ANSWERS["truncate_prompt"](request(size))[1].input_tokens
        for size in (40_000, 41_000, 60_000)
    ]
    assert read == [WINDOW_TOKENS] * 3


@pytest.mark.parametrize("size", [200, 2_000, 16_000])
def test_a_short_prompt_is_truncated_too(size: int) -> None:
    _, reply = INVALID_ANSWERS["truncate_prompt"](request(size))
    assert 0 < reply.input_tokens * 12 < size, "less than a token for 12 bytes"


def test_one_fact_is_spoilt_by_each_fault() -> None:
    asked = request(4_000)
    good = INVALID_ANSWERS["slow"](asked)
    assert good[0] is asked
    assert good[1].input_tokens == 1_000
    answered = {kind: spoil(asked) for kind, spoil in INVALID_ANSWERS.items()}
    assert {kind for kind, (made, _) in answered.items() if made.model == SUBSTITUTE_MODEL} == {
        "swap_model"
    }
    assert {kind: reply.finish for kind, (_, reply) in answered.items()} == {
        "truncate_prompt": "stop", "cut_output": "length", "swap_model": "stop", "abort": "abort",
        "slow": "stop",
    }  # fmt: skip
