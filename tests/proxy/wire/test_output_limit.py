from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.request import output_limit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["request", "options", "num_predict", "max_tokens", "generationConfig",
                         "maxOutputTokens", "inferenceConfig", "maxTokens"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "limit"),
    [
        ({"max_tokens": 4096}, 4096),
        ({"max_completion_tokens": 9}, 9),
        ({"max_output_tokens": 1}, 1),
        ({"max_tokens_to_sample": 300}, 300),
        ({"max_gen_len": 300}, 300),
        ({"generationConfig": {"maxOutputTokens": 8192}}, 8192),
        ({"model": "g", "request": {"generationConfig": {"maxOutputTokens": 77}}}, 77),
        ({"inferenceConfig": {"maxTokens": 512}}, 512),
        ({"textGenerationConfig": {"maxTokenCount": 5}}, 5),
        ({"options": {"num_predict": 128}}, 128),
        ({"options": {"num_predict": -1}}, None),
        ({"type": "response.create", "response": {"max_output_tokens": 40}}, 40),
        ({"type": "response.create", "response": {"max_output_tokens": "inf"}}, None),
        ({"max_tokens": 4096, "max_completion_tokens": 100}, 100),
        ({"max_tokens": 100, "max_completion_tokens": None}, 100),
        ({"max_tokens": 0}, None),
        ({"max_tokens": True}, None),
        ({"max_tokens": "4096"}, None),
        ({"max_tokens": 10**9}, 10**9),
        ({"max_tokens": 10**9 + 1}, None),
        ({"max_tokens": 16.0}, 16),
        ({"max_tokens": 16.5}, None),
        ({"options": 5, "request": [], "generationConfig": "x"}, None),
        ({"messages": [{"max_tokens": 5}]}, None),
        ({}, None),
    ],
)
def test_the_smallest_limit_that_a_request_states(
    request_: dict[str, Any], limit: int | None
) -> None:
    assert output_limit(request_) == limit


def test_requests_inside_requests_are_not_followed_down() -> None:
    request: dict[str, Any] = {"max_tokens": 5}
    for _ in range(10_000):
        request = {"request": request}
    assert output_limit(request) is None
    assert output_limit({"request": {"max_tokens": 5}}) == 5


@given(st.dictionaries(st.sampled_from(["max_tokens", "request", "options"]), JSON))
def test_it_is_a_whole_number_from_1_on_or_unknown(request_: dict[str, Any]) -> None:
    limit = output_limit(request_)
    assert limit is None or (type(limit) is int and 1 <= limit <= 10**9)
