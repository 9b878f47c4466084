"""What happens on the way and passes: limits, busy servers, resets, an agent's own timeout."""

from __future__ import annotations

from collections.abc import Mapping

from tests.healthy.lanes import Lane
from tests.healthy.traffic import Json, Pairs
from tests.proxy.wire.samples import dump

INCIDENTS = ("rate_limit", "overloaded", "abandoned", "reset", "sdk_retries")


def refused(lane: Lane, incident: str) -> tuple[int, Pairs, bytes]:
    """Return status, headers and body of a refusal that a retry gets over."""
    limited = incident in ("rate_limit", "sdk_retries")
    status, body = (_LIMITED if limited else _BUSY).get(lane.dialect, _CHAT[limited])
    headers: Pairs = (("retry-after", "2"),) if limited and lane.dialect != "ollama" else ()
    if lane.dialect in ("converse", "invoke"):
        kind = "ThrottlingException" if limited else "ServiceUnavailableException"
        headers = (("x-amzn-errortype", kind),)
    return status, headers, dump(body)


def _anthropic(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message},
            "request_id": "req_011CTzExample"}  # fmt: skip


_CHAT: Mapping[bool, tuple[int, Json]] = {
    True: (429, {"error": {"message": "Rate limit reached for requests per min (RPM): Limit 500, "
                           "Used 500, Requested 1. Please try again in 120ms.",
                           "type": "requests", "param": None, "code": "rate_limit_exceeded"}}),
    False: (503, {"error": {"message": "The server is currently overloaded with other requests. "
                            "Sorry about that! Please retry your request.",
                            "type": "server_error", "param": None, "code": None}}),
}  # fmt: skip
_THROTTLED = (429, {"message": "Too many requests, please wait before trying again."})
_UNAVAILABLE = (503, {"message": "Bedrock is unable to process your request."})
_FULL = (503, {"error": "server busy, please try again.  maximum pending requests exceeded"})
_LIMITED: Mapping[str, tuple[int, Json]] = {
    "messages": (429, _anthropic("rate_limit_error", "This request would exceed the rate limit "
                                 "for your organization of 80,000 input tokens per minute.")),
    "gemini": (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message":
                               "Resource exhausted. Please try again later.",
                               "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo",
                                            "retryDelay": "2s"}]}}),
    "interactions": (429, {"error": {"code": "rate_limit_exceeded", "message":
                                     "You have exceeded the per-minute request limit."}}),
    "converse": _THROTTLED,
    "invoke": _THROTTLED,
    "cohere": (429, {"message": "Please wait and try again later: calls per minute exceeded"}),
    "ollama": _FULL,
}  # fmt: skip
_BUSY: Mapping[str, tuple[int, Json]] = {
    "messages": (529, _anthropic("overloaded_error", "Overloaded")),
    "gemini": (503, {"error": {"code": 503, "status": "UNAVAILABLE", "message":
                               "The model is overloaded. Please try again later."}}),
    "interactions": (503, {"error": {"code": "service_unavailable", "message":
                                     "The service is temporarily overloaded or down."}}),
    "converse": _UNAVAILABLE,
    "invoke": _UNAVAILABLE,
    "cohere": (503, {"message": "service unavailable"}),
    "ollama": _FULL,
}  # fmt: skip
