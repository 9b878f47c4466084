"""Bedrock's Converse and InvokeModel, event by event."""

from __future__ import annotations

import base64
import json

import pytest

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.bedrock import CONVERSE, INVOKE


def test_metadata_ends_a_converse_stream() -> None:
    reading = ResponseFacts()
    CONVERSE.read(reading, {"stopReason": "end_turn"}, "messageStop")
    assert not reading.ended
    CONVERSE.read(reading, {"usage": {"inputTokens": 3, "outputTokens": 4}}, "metadata")
    assert (reading.ended, reading.finish_reason) == (True, "end_turn")
    assert CONVERSE.totals(reading) == (3, 4)


@pytest.mark.parametrize("name", [None, "contentBlockStart"])
def test_a_tool_use_is_a_call(name: str | None) -> None:
    reading = ResponseFacts()
    start = {"contentBlockIndex": 1, "start": {"toolUse": {"name": "f"}}}
    CONVERSE.read(reading, start, name)
    assert reading.calls == {1}


def test_a_chunk_is_the_model_s_own_body_in_base64() -> None:
    reading, native = ResponseFacts(), {"outputText": "a", "completionReason": "FINISH"}
    encoded = base64.b64encode(json.dumps(native).encode()).decode()
    INVOKE.read(reading, {"bytes": encoded}, "chunk")
    assert (reading.output, reading.finish_reason) == (True, "FINISH")


@pytest.mark.parametrize("encoded", ["%%%", base64.b64encode(b"{").decode(), 7])
def test_a_chunk_that_cannot_be_read_says_nothing(encoded: object) -> None:
    reading = ResponseFacts()
    INVOKE.read(reading, {"bytes": encoded}, "chunk")
    assert reading == ResponseFacts()
