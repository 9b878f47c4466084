"""What the head of a response states."""

from __future__ import annotations

import pytest

from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import (
    chat,
)  # fmt: skip

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize(
    "name", ["x-request-id", "request-id", "x-amzn-requestid", "x-generation-id"]
)
def test_the_provider_s_request_id_is_kept(name: str) -> None:
    assert observed(chat(USAGE), headers={name: "req-9"}).provider_request_id == "req-9"


def test_the_provider_s_own_id_is_taken_before_a_gateway_s() -> None:
    ids = {"x-litellm-call-id": "gateway", "request-id": "own"}
    assert observed(chat(USAGE), headers=ids).provider_request_id == "own"


def test_an_id_that_may_be_a_text_is_not_kept() -> None:
    assert observed(chat(USAGE), headers={"request-id": "no such id"}).provider_request_id is None
