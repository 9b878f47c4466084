"""Cohere's chat and lists, event by event."""

from __future__ import annotations

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.others import COHERE_CHAT, COHERE_LISTS


def test_tokens_are_believed_before_billed_units() -> None:
    reading = ResponseFacts()
    both = {"tokens": {"input_tokens": 9.0}, "billed_units": {"input_tokens": 3.0}}
    COHERE_CHAT.read(reading, {"type": "message-end", "delta": {"usage": both}}, None)
    assert (reading.input_tokens, reading.ended) == (9, True)


def test_billed_units_stand_in_where_there_are_no_tokens() -> None:
    reading = ResponseFacts()
    COHERE_LISTS.read(
        reading, {"embeddings": [[1]], "meta": {"billed_units": {"input_tokens": 3}}}, None
    )
    assert (reading.input_tokens, reading.output) == (3, True)


def test_an_error_s_message_is_no_answer() -> None:
    reading = ResponseFacts()
    COHERE_CHAT.read(reading, {"message": "m", "error": {}}, None)
    assert not reading.understood
