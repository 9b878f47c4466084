"""Ollama's own API, line by line."""

from __future__ import annotations

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.others import OLLAMA_CHAT, OLLAMA_EMBED


def test_the_counts_stand_on_the_last_line() -> None:
    reading = ResponseFacts()
    OLLAMA_CHAT.read(reading, {"done": False, "message": {"content": "a"}, "eval_count": 1}, None)
    assert (reading.output, reading.output_tokens, reading.ended) == (True, None, False)
    last = {"done": True, "done_reason": "stop", "prompt_eval_count": 4, "eval_count": 9}
    OLLAMA_CHAT.read(reading, last, None)
    assert (reading.input_tokens, reading.output_tokens) == (4, 9)
    assert (reading.finish_reason, reading.ended) == ("stop", True)


def test_a_line_without_done_is_of_another_api() -> None:
    reading = ResponseFacts()
    OLLAMA_CHAT.read(reading, {"message": {"content": "a"}}, None)
    assert reading == ResponseFacts()


def test_an_embedding_is_output() -> None:
    reading = ResponseFacts()
    OLLAMA_EMBED.read(reading, {"embeddings": [[1.0]], "prompt_eval_count": 4}, None)
    assert (reading.output, reading.input_tokens) == (True, 4)
