"""Errors, broken streams and empty answers of Anthropic's Messages API.

After docs.claude.com/en/api/errors and the types of anthropic-sdk-python: types/raw_*_event.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.relay.faults.script import (
    DRILL_ID,
    WAIT_S,
    WORDS,
    Body,
    ErrorAnswer,
    FaultedRequest,
    named_event,
)

_ANTHROPIC_HEADERS = {"request-id": "req_drill"}
_ANTHROPIC_WAIT = {
    "retry-after": str(WAIT_S),
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "0",
}


def _anthropic(status: int, kind: str, message: str, **headers: str) -> ErrorAnswer:
    body = {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_drill",
    }
    return ErrorAnswer(status=status, body=body, headers={**_ANTHROPIC_HEADERS, **headers})


def anthropic_errors(model: str) -> Mapping[str, ErrorAnswer]:
    """Error answers by kind of fault."""
    return {
        "auth": _anthropic(401, "authentication_error", "invalid x-api-key"),
        "quota": _anthropic(
            400, "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. "
            "Please go to Plans & Billing to upgrade or purchase credits.",
        ),
        "model_not_found": _anthropic(404, "not_found_error", f"model: {model}"),
        "rate_limit": _anthropic(
            429, "rate_limit_error",
            "This request would exceed your organization's rate limit of requests per minute.",
            **_ANTHROPIC_WAIT,
        ),
        "overloaded": _anthropic(529, "overloaded_error", "Overloaded"),
        "stream_error": _anthropic(200, "overloaded_error", "Overloaded"),
    }  # fmt: skip


def _message(request: FaultedRequest, content: list[Body], stop: str | None) -> Body:
    return {
        "id": f"msg_{DRILL_ID}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 0},
    }


def anthropic_begun(request: FaultedRequest) -> list[bytes]:
    """Return the events of a stream that has begun to answer."""
    nothing = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": word} for word in WORDS]
    return [
        named_event("message_start", message=_message(request, [], None)),
        named_event("content_block_start", index=0, content_block=nothing),
        *(named_event("content_block_delta", index=0, delta=delta) for delta in deltas),
    ]


def anthropic_breaking(request: FaultedRequest) -> bytes:
    """Return the event that breaks a stream with an error."""
    return named_event("error", error=anthropic_errors(request.model)["stream_error"].body["error"])


def anthropic_silence(request: FaultedRequest) -> list[bytes]:
    """Return a complete stream without any output."""
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        named_event("message_start", message=_message(request, [], None)),
        named_event("message_delta", delta=ended, usage={"output_tokens": 0}),
        named_event("message_stop"),
    ]


def anthropic_whole(request: FaultedRequest, text: str) -> Body:
    """Return a complete answer with this text."""
    content = [{"type": "text", "text": text}] if text else []
    return _message(request, content, "end_turn")
