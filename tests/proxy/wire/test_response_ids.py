"""The id of an answer is kept as a salted digest, on every dialect that states one."""

from __future__ import annotations

import hashlib
from typing import Any

from classifier.records import Ending
from proxy.capture.request import CapturedRequest, response_digest
from tests.proxy.wire.observing import SALT, call, observed
from tests.proxy.wire.samples import SSE, delta, dump, sse
from tests.tables import each

ID = "answer-0f3a"
WHOLE: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"id": ID, "choices": [{"message": {"content": "Yes."}}]},
    "/v1/completions": {"id": ID, "choices": [{"text": "Yes."}]},
    "/v1/responses": {"id": ID, "object": "response", "status": "completed", "output": []},
    "/v1/embeddings": {"id": ID, "data": [{"embedding": [0.1]}]},
    "/v1/messages": {"id": ID, "type": "message", "content": [{"type": "text", "text": "Yes."}]},
    "/v1/complete": {"id": ID, "type": "completion", "completion": "Yes."},
    "/v1beta/models/g:generateContent": {"responseId": ID, "candidates": []},
    "/v1internal:generateContent": {"response": {"responseId": ID, "candidates": []}},
    "/model/anthropic.claude/invoke": {"id": ID, "type": "message", "content": []},
    "/v2/chat": {"id": ID, "message": {"content": [{"text": "Yes."}]}},
    "/v2/embed": {"id": ID, "embeddings": {"float": [[0.1]]}},
    "/v1/chat": {"generation_id": ID, "text": "Yes."},
    "/v1/of/no/dialect": {
        "request_id": ID,
        "model": "m",
        "output": {"text": "Yes, it is.", "finish_reason": "stop"},
        "usage": {"input_tokens": 3, "output_tokens": 4},
    },
    "/generate": {"text": "Yes.", "meta_info": {"id": ID, "finish_reason": {"type": "stop"}}},
}
STREAMED = {
    "/v1/chat/completions": sse(
        {"id": "", "choices": []}, {**delta(content="Yes"), "id": ID}, {**delta("stop"), "id": ID}
    ),
    "/v1/messages": sse(
        {"type": "message_start", "message": {"id": ID, "content": []}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Yes"}},
        {"type": "message_stop"},
    ),
    "/v1/responses": sse(
        {"type": "response.created", "response": {"id": ID, "status": "in_progress"}},
        {"type": "response.output_text.delta", "delta": "Yes"},
        {"type": "response.completed", "response": {"id": ID, "status": "completed"}},
    ),
    "/v1beta/models/g:streamGenerateContent": sse(
        {"responseId": ID, "candidates": [{"content": {"parts": [{"text": "Yes"}]}}]}, done=False
    ),
    "/v2/chat": sse(
        {"type": "message-start", "id": ID, "delta": {"message": {"role": "assistant"}}},
        {"type": "content-delta", "delta": {"message": {"content": {"text": "Yes"}}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ),
    "/v1/completions": sse({"id": ID, "choices": [{"text": "Yes"}]}),
    "/generate": sse({"text": "Yes", "meta_info": {"id": ID, "finish_reason": None}}),
}


@each("path", WHOLE)
def test_a_whole_answer(path: str) -> None:
    exchange = observed(dump(WHOLE[path]), path)
    assert exchange.response_digest == response_digest(ID, SALT)
    assert ID not in repr(exchange)


@each("path", STREAMED)
def test_a_streamed_answer(path: str) -> None:
    exchange = observed(STREAMED[path], path, type_=SSE)
    assert exchange.response_digest == response_digest(ID, SALT)


def test_an_answer_that_broke_off_has_the_id_that_it_began_with() -> None:
    began = sse({**delta(content="Yes"), "id": ID}, done=False)
    exchange = observed(began, type_=SSE, ending=Ending.CUT_UPSTREAM)
    assert exchange.cause is not None
    assert exchange.response_digest == response_digest(ID, SALT)


def test_a_digest_that_rest_makes_is_that_of_nothing_else_on_record() -> None:
    """Or whoever may ask for digests could try what prompts and answers were."""
    body = dump(WHOLE["/v1/chat/completions"])
    exchange = observed(body, status=500)
    request = CapturedRequest(call(), salt=SALT, limit=1000)
    sent = "POST /v1/chat/completions\n"
    assert exchange.request_digest == request.digest()
    assert response_digest(sent, SALT) != request.digest()
    plain = hashlib.blake2b(sent.encode(), key=SALT, digest_size=8).hexdigest()
    assert plain == request.digest(), "it is made of the request line and the body"


def test_a_digest_tells_nothing_without_the_salt() -> None:
    assert response_digest(ID, SALT) != response_digest(ID, b"another")
    assert len(response_digest(ID * 100, SALT)) == 16
