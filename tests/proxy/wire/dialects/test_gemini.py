"""Gemini's generateContent, chunk by chunk."""

from __future__ import annotations

import pytest

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.gemini import EMBED, GENERATE


def test_thoughts_stand_beside_the_candidates() -> None:
    reading = ResponseFacts()
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 7,
              "toolUsePromptTokenCount": 1}  # fmt: skip
    GENERATE.read(reading, {"usageMetadata": counts}, None)
    assert (reading.input_tokens, reading.output_tokens) == (5, 2)
    assert GENERATE.totals(reading) == (6, 9)


@pytest.mark.parametrize(
    ("reason", "kept"), [("STOP", "STOP"), (1, "1"), (0, None), ("FINISH_REASON_UNSPECIFIED", None)]
)
def test_an_unspecified_finish_reason_is_none(reason: object, kept: str | None) -> None:
    reading = ResponseFacts()
    GENERATE.read(reading, {"candidates": [{"finishReason": reason}]}, None)
    assert reading.finish_reason == kept
    assert reading.understood


def test_a_blocked_prompt_finishes_the_answer() -> None:
    reading = ResponseFacts()
    GENERATE.read(reading, {"promptFeedback": {"blockReason": "SAFETY"}}, None)
    assert (reading.finish_reason, reading.output) == ("SAFETY", False)


def test_code_assist_wraps_each_answer() -> None:
    reading = ResponseFacts()
    part = {"content": {"parts": [{"functionCall": {"name": "f"}}]}}
    GENERATE.read(reading, {"response": {"candidates": [part, part]}}, None)
    assert len(reading.calls) == 2


def test_a_vector_is_output() -> None:
    reading = ResponseFacts()
    EMBED.read(reading, {"embedding": {"values": [1]}}, None)
    assert (reading.understood, reading.output) == (True, True)
