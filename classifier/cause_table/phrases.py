"""Causes by clauses of the provider's message, by broad type names, and without an error."""

from __future__ import annotations

from typing import Final

from classifier.cause_table.row import (
    ANTHROPIC,
    AUTH,
    AZURE,
    AZURE_DOC,
    BAD_REQUEST,
    BEDROCK,
    BOTOCORE,
    CEREBRAS,
    CLIENT,
    COHERE,
    GEMINI,
    GROQ,
    HTTP,
    LLAMACPP,
    MINIMAX,
    MISTRAL,
    MODEL,
    NO_STATUS,
    OPENAI_CODES,
    OPENROUTER,
    PROVIDER,
    QUOTA,
    QWEN,
    RATE,
    REJECTED,
    SERVER,
    VLLM,
    ZAI,
    ZHIPU,
    CauseRow,
    names,
    pattern,
    statuses,
)
from classifier.records import Ending, Flaw

PHRASES: Final = (
    # -- money; a 5xx stays the provider's own failure -----------------------------------------
    # -- region and key ------------------------------------------------------------------------
    # -- what looks like a missing model and is not --------------------------------------------
    CauseRow(
        id="openrouter.no_endpoint_supports",
        gives=REJECTED,
        reason="unsupported",
        says=pattern(r"no endpoints found that (?:can )?(?:support|handle)"),
        source=OPENROUTER + " (404: the model is there, the feature is not)",
    ),
    CauseRow(
        id="openai.not_a_chat_model",
        gives=REJECTED,
        reason="wrong_endpoint",
        says=pattern(r"not a chat model|only supported in v1/|not supported (?:in|with) the v1/"),
        on=statuses(400, 404) | NO_STATUS,
        source=OPENAI_CODES + " (404: the model exists on another endpoint)",
    ),
    CauseRow(
        id="lmstudio.wrong_path",
        gives=REJECTED,
        reason="wrong_endpoint",
        says=pattern(r"\bunexpected endpoint or method\b"),
        source="lmstudio.ai/docs/app/api (HTTP 200 to an unknown path)",
    ),
    CauseRow(
        id="any.no_such_route",
        gives=REJECTED,
        reason="wrong_endpoint",
        says=pattern(r"\bcannot (?:get|head|post|put|patch|delete) /"),
        on=statuses(400, 404, 405) | NO_STATUS,
        source="expressjs.com/en/starter/faq.html: finalhandler's answer to an unknown path",
    ),
    CauseRow(
        id="openai.no_such_response",
        gives=REJECTED,
        reason="lost_state",
        params=names("previous_response_id"),
        on=statuses(400, 404),
        source="developers.openai.com/api/docs/guides/conversation-state",
    ),
    CauseRow(
        id="openai.no_such_response_said",
        gives=REJECTED,
        reason="lost_state",
        says=pattern(
            r"\bprevious response with id\b[^\n]{0,80}\bnot found|\bno response found with id\b"
        ),
        on=statuses(400, 404),
        source="developers.openai.com/api/docs/guides/conversation-state",
    ),
    # -- the model, in words -------------------------------------------------------------------
    CauseRow(
        id="vertex.publisher_model",
        gives=MODEL,
        says=pattern(
            r"\bpublisher model\b|unexpected model name format|"
            r"\bmodels/[\w.\-]+[`'\"]? (?:is |was )?not found|"
            r"\bmodels/[\w.\-]+[`'\"]?[^.\n]{0,40}"
            r"(?:no longer|not supported)"
        ),
        on=statuses(400, 403, 404) | NO_STATUS,
        source="cloud.google.com/vertex-ai/generative-ai/docs/error-code-mapping; " + GEMINI,
    ),
    CauseRow(
        id="bedrock.model_said",
        gives=MODEL,
        says=pattern(
            r"model identifier is invalid|on-demand throughput|inference profile|"
            r"end of its life|use case details"
        ),
        on=statuses(400, 403, 404) | NO_STATUS,
        source=BEDROCK + " (ValidationException, ResourceNotFoundException)",
    ),
    CauseRow(
        id="bedrock.iam",
        gives=AUTH,
        says=pattern(r"\bis not authorized to perform\b"),
        on=statuses(400, 401, 403, 404),
        source="docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html"
        " (the model is only the resource it names)",
    ),
    CauseRow(
        id="azure.resource_not_found",
        gives=MODEL,
        upstreams=AZURE,
        says=pattern(r"\Aresource not found"),
        on=statuses(404),
        source=AZURE_DOC + " (the deployment is part of the path)",
    ),
    CauseRow(
        id="openrouter.no_endpoints",
        gives=MODEL,
        says=pattern(
            r"\bno endpoints found\b|\bno allowed providers\b|"
            r"is not a valid model ID|not supported by any provider"
        ),
        on=statuses(400, 404) | NO_STATUS,
        source=OPENROUTER + "; huggingface.co/docs/inference-providers",
    ),
    CauseRow(
        id="nvidia.function",
        gives=MODEL,
        says=pattern(r"\bfunction '[^'\n]{1,80}': not found for account"),
        on=statuses(404),
        source="docs.api.nvidia.com: an unknown model is an unknown function",
    ),
    CauseRow(
        id="any.model_not_in_list",
        gives=MODEL,
        params=names("model"),
        names=names("literal_error enum type_error.enum invalid_enum_value"),
        on=statuses(400, 422),
        source="docs.pydantic.dev/latest/errors/validation_errors (loc names the field)",
    ),
    CauseRow(
        id="any.model_param",
        gives=MODEL,
        params=names("model"),
        on=statuses(404),
        source=OPENAI_CODES + "; " + VLLM,
    ),
    # -- this request, in words ----------------------------------------------------------------
    CauseRow(
        id="llamacpp.batch_size",
        gives=REJECTED,
        reason="too_large",
        says=pattern(r"\bis too large to process\b"),
        on=statuses(400) | SERVER,
        source=LLAMACPP + " (500 server_error: the input exceeds the physical batch)",
    ),
)


BROAD: Final = (
    CauseRow(
        id="websocket.close_1008",
        gives=REJECTED,
        names=names("websocket_close_1008"),
        source="RFC 6455 §7.4.1 (a message that violates its policy, whichever)",
    ),
    CauseRow(
        id="openai.tpm_type",
        gives=RATE,
        names=names("requests tokens"),
        on=statuses(429) | NO_STATUS,
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="cerebras.window",
        gives=RATE,
        names=names("queue_exceeded"),
        source=CEREBRAS,
    ),
    CauseRow(
        id="dashscope.throttling",
        gives=RATE,
        names=names("limit_requests limit_burst_rate"),
        source=QWEN,
    ),
    CauseRow(
        id="mistral.rate_limited",
        gives=RATE,
        names=names("service_tier_capacity_exceeded"),
        source=MISTRAL,
    ),
    CauseRow(
        id="any.rate_limit_name",
        gives=RATE,
        names=names("rate_limit resource_exhausted slowdown"),
        on=statuses(400, 424, 429) | NO_STATUS | SERVER,
        source=ANTHROPIC + "; " + OPENAI_CODES + "; google/rpc/code.proto (8)"
        "; docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
    ),
    CauseRow(
        id="any.auth_name",
        gives=AUTH,
        names=names("forbidden accessdeniedexception accessdenied authenticationerror"),
        on=statuses(400, 401, 403) | NO_STATUS | SERVER,
        source=ANTHROPIC + "; google/rpc/code.proto (7); " + BOTOCORE,
    ),
    CauseRow(
        id="minimax.parameters",
        gives=REJECTED,
        reason="malformed",
        names=names("base_resp.2013 base_resp.1042"),
        source=MINIMAX,
    ),
    CauseRow(
        id="zhipu.parameters",
        gives=REJECTED,
        reason="malformed",
        upstreams=ZHIPU,
        names=names("1210 1212 1213 1214 1215"),
        source=ZAI,
    ),
    CauseRow(
        id="any.key_wanted",
        gives=AUTH,
        says=pattern(
            r"\b(?:please|must|should|need to|have to) (?:provide|supply|include|pass|specify|add) "
            r"(?:an?|your|the|valid) (?:valid )?"
            r"(?:api[ _-]?key|access key|(?:access|bearer|auth\w*) token|credentials?)\b"
        ),
        on=BAD_REQUEST | statuses(401, 403),
        source=OPENAI_CODES + "; theroyallab/tabbyAPI:common/auth.py (asked for, not refused)",
    ),
    CauseRow(
        id="any.rejected_name",
        gives=REJECTED,
        names=names(
            "invalid_request_error invalid_request validationexception failed_precondition"
            " badrequesterror bad_request invalidparameter unprocessable out_of_range"
        ),
        on=BAD_REQUEST | SERVER,
        source=ANTHROPIC + "; google/rpc/code.proto (3, 9, 11); " + BOTOCORE + "; " + VLLM,
    ),
    CauseRow(
        id="any.not_found_name",
        gives=REJECTED,
        reason="wrong_endpoint",
        names=names("not_found_error not_found notfounderror resourcenotfoundexception"),
        on=statuses(400, 404) | NO_STATUS | SERVER,
        source=ANTHROPIC + "; google/rpc/code.proto (5): what was not found is no model",
    ),
    CauseRow(
        id="any.timeout_broad",
        gives=PROVIDER,
        reason="timeout",
        names=names("deadline_exceeded timeout"),
        on=statuses(408) | NO_STATUS | SERVER,
        source="google/rpc/code.proto (4); " + OPENROUTER,
    ),
)


# --- statuses, endings and flaws ---
#
# For calls without an error.


UNNAMED: Final = "in_band.unnamed"
"""The row of an error inside a 200 that nothing explains."""
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
    CauseRow(
        id="status.407",
        gives=AUTH,
        reason="proxy_auth",
        on=statuses(407),
        source="RFC 9110 §15.5.8: a proxy on the way wants credentials of its own",
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
        id=UNNAMED,
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
