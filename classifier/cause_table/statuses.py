"""Causes by status, by ending and by flaw, for calls without an error."""

from __future__ import annotations

from typing import Final

from classifier.cause_table.row import (
    AUTH,
    CLIENT,
    MODEL,
    NO_STATUS,
    PROVIDER,
    QUOTA,
    RATE,
    REJECTED,
    SERVER,
    CauseRow,
    names,
    statuses,
)
from classifier.cause_table.sources import ANTHROPIC, AZURE, COHERE, GROQ, HTTP, OPENROUTER
from classifier.records import Ending, Flaw

STATUSES: Final = (
    CauseRow(id="status.401", gives=AUTH, on=statuses(401), source=HTTP),
    CauseRow(id="status.402", gives=QUOTA, on=statuses(402), source=HTTP),
    CauseRow(id="status.403", gives=AUTH, on=statuses(403), source=HTTP),
    CauseRow(
        id="status.404",
        gives=REJECTED,
        reason="wrong_endpoint",
        on=statuses(404),
        source="a 404 that names no model: a bad base_url must not look like a bad model",
    ),
    CauseRow(
        id="status.405",
        gives=REJECTED,
        reason="wrong_endpoint",
        on=statuses(405),
        source=HTTP,
    ),
    CauseRow(id="status.408", gives=PROVIDER, reason="timeout", on=statuses(408), source=HTTP),
    CauseRow(
        id="status.409",
        gives=REJECTED,
        transient=True,
        on=statuses(409),
        source="anthropic-sdk-python, openai-python _base_client.py: 409 is retried",
    ),
    CauseRow(
        id="azure.410",
        gives=MODEL,
        reason="retired",
        upstreams=AZURE,
        on=statuses(410),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/model-retirements",
    ),
    CauseRow(id="status.413", gives=REJECTED, reason="too_large", on=statuses(413), source=HTTP),
    CauseRow(id="status.415", gives=REJECTED, reason="unsupported", on=statuses(415), source=HTTP),
    CauseRow(id="status.429", gives=RATE, on=statuses(429), source=HTTP),
    CauseRow(
        id="groq.498",
        gives=PROVIDER,
        reason="overloaded",
        upstreams=names("groq"),
        on=statuses(498),
        source=GROQ,
    ),
    CauseRow(id="cohere.498", gives=AUTH, on=statuses(498), source=COHERE + " InvalidTokenError"),
    CauseRow(
        id="status.499",
        gives=PROVIDER,
        reason="cancelled",
        on=statuses(499),
        source="google/rpc/code.proto (1): an agent that reads on has cancelled nothing",
    ),
    CauseRow(
        id="status.overloaded",
        gives=PROVIDER,
        reason="overloaded",
        on=statuses(503, 529),
        source=ANTHROPIC + "; " + HTTP,
    ),
    CauseRow(
        id="status.timeout",
        gives=PROVIDER,
        reason="timeout",
        on=statuses(504, 522, 524),
        source=HTTP + "; developers.cloudflare.com/support/troubleshooting/http-status-codes",
    ),
    CauseRow(id="status.5xx", gives=PROVIDER, on=SERVER, source=HTTP),
    CauseRow(id="status.400", gives=REJECTED, on=statuses(400, 422), source=HTTP),
    CauseRow(id="status.4xx", gives=REJECTED, on=CLIENT, source=HTTP),
    CauseRow(
        id="in_band.unnamed",
        gives=PROVIDER,
        reason="in_band",
        on=NO_STATUS,
        source=OPENROUTER + " (an error after a 200: processing had begun)",
    ),
)
_NETWORK: Final = "openai-python APIConnectionError; RFC 9112 §8"


ENDINGS: Final = {
    Ending.CUT_UPSTREAM: CauseRow(
        id="ending.cut", gives=PROVIDER, reason="truncated", source="RFC 9112 §8 incomplete"
    ),
    Ending.TIMED_OUT: CauseRow(
        id="ending.timed_out", gives=PROVIDER, reason="timeout", source=_NETWORK
    ),
    Ending.NEVER_CONNECTED: CauseRow(
        id="ending.never_connected", gives=PROVIDER, reason="network", source=_NETWORK
    ),
    Ending.LEFT_BY_AGENT: CauseRow(
        id="ending.stalled",
        gives=PROVIDER,
        reason="stalled",
        source="verdicts: no byte for longer than stall_s, and the agent gave up",
    ),
}
"""By ending, for a call without an error."""


FLAWS: Final = {
    Flaw.EMPTY_BODY: CauseRow(
        id="flaw.empty_body", gives=PROVIDER, reason="empty_body", source="a 200 without a body"
    ),
    Flaw.HTML_BODY: CauseRow(
        id="flaw.html_body", gives=PROVIDER, reason="html_body", source="a gateway's page as 200"
    ),
    Flaw.TRUNCATED: CauseRow(
        id="flaw.truncated",
        gives=PROVIDER,
        reason="truncated",
        source="neither finish reason nor terminal event (message_stop, response.completed, …)",
    ),
    Flaw.ABORTED: CauseRow(
        id="flaw.aborted",
        gives=PROVIDER,
        reason="aborted",
        source="vllm:vllm/v1/request.py RequestStatus (abort); sglang:python/sglang/srt/managers/"
        "schedule_batch.py FINISH_ABORT; vllm-project/vllm#57082 (HTTP 200 and [DONE])",
    ),
}
"""By flaw, for a 200 without an error."""
NO_ANSWER: Final = CauseRow(
    id="ending.no_answer", gives=PROVIDER, reason="network", source=_NETWORK
)
