"""Errors, broken streams and empty answers of the Gemini API.

After ai.google.dev/gemini-api/docs/troubleshooting and the error details of google.rpc.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from proxy.relay.faults.script import DRILL_ID, WAIT_S, WORDS, Body, ErrorAnswer, FaultedRequest

_GOOGLE = "type.googleapis.com/google.rpc."


def _gemini(code: int, state: str, message: str, *details: Body, status: int = 0) -> ErrorAnswer:
    error: Body = {"code": code, "message": message, "status": state}
    if details:
        error["details"] = list(details)
    return ErrorAnswer(status=status or code, body={"error": error}, headers={})


def _exceeded(quota: str) -> Body:
    metric = "generativelanguage.googleapis.com/generate_content_requests"
    return {
        "@type": f"{_GOOGLE}QuotaFailure",
        "violations": [{"quotaMetric": metric, "quotaId": quota}],
    }


_OVER = "You exceeded your current quota, please check your plan and billing details."
_BAD_KEY = {
    "@type": f"{_GOOGLE}ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
    "metadata": {"service": "generativelanguage.googleapis.com"},
}
_RETRY = {"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{WAIT_S}s"}
_PER_DAY = "GenerateRequestsPerDayPerProjectPerModel"
_PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel"


def gemini_errors(model: str) -> Mapping[str, ErrorAnswer]:
    """Error answers by kind of fault."""
    busy = "The model is overloaded. Please try again later."
    return {
        "auth": _gemini(
            400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", _BAD_KEY
        ),
        "quota": _gemini(429, "RESOURCE_EXHAUSTED", _OVER, _exceeded(_PER_DAY)),
        "model_not_found": _gemini(
            404, "NOT_FOUND",
            f"models/{model} is not found for API version v1beta, or is not supported for "
            "generateContent.",
        ),
        "rate_limit": _gemini(429, "RESOURCE_EXHAUSTED", _OVER, _exceeded(_PER_MINUTE), _RETRY),
        "overloaded": _gemini(503, "UNAVAILABLE", busy),
        "stream_error": _gemini(503, "UNAVAILABLE", busy, status=200),
    }  # fmt: skip


def _candidate(request: FaultedRequest, text: str, finish: str | None) -> Body:
    candidate: Body = {
        "content": {"parts": [{"text": text}] if text else [], "role": "model"},
        "index": 0,
    }
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1},
        "modelVersion": request.model,
        "responseId": DRILL_ID,
    }


def _gemini_framed(
    request: FaultedRequest, bodies: Sequence[Body], *, begins: bool, ends: bool
) -> list[bytes]:
    """Events, or the members of one JSON array that opens and closes with them."""
    if request.framed:
        return [b"data: " + json.dumps(body).encode() + b"\r\n\r\n" for body in bodies]
    texts = [json.dumps(body).encode() for body in bodies]
    pieces = [(b"[" if begins and not n else b",\r\n") + text for n, text in enumerate(texts)]
    return [*pieces, b"]"] if ends else pieces


def gemini_begun(request: FaultedRequest) -> list[bytes]:
    """Return the events of a stream that has begun to answer."""
    bodies = [_candidate(request, word, None) for word in WORDS]
    return _gemini_framed(request, bodies, begins=True, ends=False)


def gemini_breaking(request: FaultedRequest) -> bytes:
    """Return the event that breaks a stream with an error."""
    body = gemini_errors(request.model)["stream_error"].body
    return b"".join(_gemini_framed(request, [body], begins=False, ends=True))


def gemini_silence(request: FaultedRequest) -> list[bytes]:
    """Return a complete stream without any output."""
    return _gemini_framed(request, [_candidate(request, "", "STOP")], begins=True, ends=True)


def gemini_whole(request: FaultedRequest, text: str) -> Body:
    """Return a complete answer with this text."""
    return _candidate(request, text, "STOP")
