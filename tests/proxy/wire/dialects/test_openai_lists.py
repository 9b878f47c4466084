"""OpenAI's embeddings, images and the like."""

from __future__ import annotations

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.openai import LISTS


def test_a_list_is_output_with_its_counts() -> None:
    reading = ResponseFacts()
    counts = {"prompt_tokens": 3, "total_tokens": 3, "cost": 0.5}
    LISTS.read(reading, {"data": [{"embedding": [1]}], "model": "e-1", "usage": counts}, None)
    assert (reading.understood, reading.output, reading.model) == (True, True, "e-1")
    assert (reading.input_tokens, reading.total_tokens, reading.cost_usd) == (3, 3, 0.5)


def test_an_empty_list_is_no_output() -> None:
    reading = ResponseFacts()
    LISTS.read(reading, {"data": []}, None)
    assert (reading.understood, reading.output) == (True, False)
