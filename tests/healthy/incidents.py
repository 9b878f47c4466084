"""What happens on the way and passes: limits, busy servers, resets, an agent's own timeout."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fakes.answers import FAILURES, Api, Fault
from tests.healthy.lanes import Lane
from tests.healthy.traffic import Json, Pairs
from tests.proxy.wire.samples import dump

INCIDENTS = ("rate_limit", "overloaded", "abandoned", "reset", "sdk_retries")
_APIS = {"messages": Api.MESSAGES, "gemini": Api.GEMINI, "interactions": Api.INTERACTIONS}
_THROTTLED = (429, {"message": "Too many requests, please wait before trying again."})
_UNAVAILABLE = (503, {"message": "Bedrock is unable to process your request."})
_FULL = (503, {"error": "server busy, please try again.  maximum pending requests exceeded"})
# Dialects that no fake provider speaks: limited, and busy.
_OTHERS: Mapping[str, tuple[tuple[int, Json], tuple[int, Json]]] = {
    "converse": (_THROTTLED, _UNAVAILABLE),
    "invoke": (_THROTTLED, _UNAVAILABLE),
    "cohere": ((429, {"message": "Please wait and try again later: calls per minute exceeded"}),
               (503, {"message": "service unavailable"})),
    "ollama": (_FULL, _FULL),
}  # fmt: skip


def refused(lane: Lane, incident: str) -> tuple[int, Pairs, bytes]:
    """Return status, headers and body of a refusal that a retry gets over."""
    limited = incident in ("rate_limit", "sdk_retries")
    if lane.dialect not in _OTHERS:
        fault = Fault.RATE_LIMIT if limited else Fault.PROVIDER_ERROR
        answer = FAILURES[_APIS.get(lane.dialect, Api.CHAT)][fault]
        headers = tuple(pair for pair in answer.headers if pair[0] != "content-type")
        return answer.status, headers, answer.content
    status, body = _OTHERS[lane.dialect][not limited]
    if lane.dialect in ("converse", "invoke"):
        kind = "ThrottlingException" if limited else "ServiceUnavailableException"
        return status, (("x-amzn-errortype", kind),), dump(body)
    return status, (("retry-after", "2"),) if limited and status == 429 else (), dump(body)
