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
    NOT_SERVER,
    OPENAI_CODES,
    OPENROUTER,
    PROVIDER,
    QUOTA,
    QWEN,
    RATE,
    REJECTED,
    SERVER,
    SIGNATURES,
    STATE,
    THINKING,
    THINKING_MODE,
    TOOL_RESULTS,
    VLLM,
    ZAI,
    ZHIPU,
    CauseRow,
    names,
    pattern,
    statuses,
)
from classifier.records import WRONG_SHAPE, Ending, Flaw

# --- a conversation's state ---
#
# Signed or encrypted reasoning, tool calls with their results, and earlier turns. Clients and
# gateways drop or change them, and a provider forgets what it keeps: none is a credential. Names of
# fields stand in sentences quoted, with a blank, in snake_case or in camelCase.


_Q: Final = r"[`'\"]?"
_S: Final = r"[\s_-]?"


def _in_one_sentence(*parts: str, without: str = r"(?!)") -> str:
    """Return a pattern of parts in any order; a dot inside a path ends no sentence."""
    ahead = (rf"(?=(?:[^.\n]|\.(?=\S)){{0,400}}?(?:{part}))" for part in parts)
    denied = rf"(?!(?:[^.\n]|\.(?=\S)){{0,400}}?(?:{without}))"
    return rf"(?:\A|[.\n]\s*){denied}{''.join(ahead)}"


_REASONING: Final = (
    rf"(?:thoughts?|thinking|reasoning){_S}signatures?"
    rf"|signatures?{_Q} (?:field )?(?:in|of|for|on) [^.\n]{{0,20}}"
    r"(?:thinking|thought|reasoning|\bparts?\b|content block)"
    r"|\b(?:messages|contents?|parts)[.\[]\d[^\n]{0,40}?signature"
    r"|(?:thinking|reasoning)\.signature|content\[\]\.thinking"
    rf"|encrypted{_S}(?:content|reasoning|thinking|thought)"
    rf"|(?:redacted|previous){_S}thinking|of type {_Q}reasoning"
    rf"|\b(?:thinking|reasoning){_Q}{_S}(?:blocks?|items?|content|details)\b"
)
_SPOILT: Final = (
    r"corrupt|tamper|invalid(?![\W_]*(?:(?:request|argument|param\w*|input)\b|value:))"
    r"|not (?:a )?valid|malformed|missing|absent|mismatch|expired|not found|decrypt"
    r"|field required|without its required"
    r"|(?:fail|unable|could not|cannot|can't|error)[^.\n]{0,30}(?:verif|decod|pars|validat)"
    r"|(?:verification|validation|decoding) failed|not (?:be )?(?:verified|decoded|parsed|match)"
    r"|cannot be modified|must (?:remain|start|begin|be (?:passed|sent|returned|preserved|kept))"
    r"|must contain|unsigned|(?:bound|belongs?) to|issued for|different conversation"
)
_UNSUPPORTED: Final = r"(?:not |n't |un)support|not (?:allowed|permitted)"
_CALL: Final = rf"(?:tool{_S}(?:use|calls?)|function{_S}calls?)\b"
_RESULT: Final = (
    rf"(?:(?:tool|function){_S}(?:call{_S})?(?:results?|outputs?|responses?)|tool{_Q} messages?"
    rf"|role {_Q}tool|calls and responses)\b"
)
_UNPAIRED: Final = (
    r"without|follow|correspond|immediately|equal|same number|exceed|matching|prece|unexpected"
    r"|missing|\bno |not found|not find|not have|single result"
)
_CALL_IDS: Final = rf"\b(?:call_ids?|tool{_S}(?:(?:call|use|result){_Q}{_S})?ids?|toolUse blocks)\b"
_UNMATCHED: Final = (
    r"not found|unknown|without|unique|duplicate|unexpected|missing|match|not exist|not have"
    r"|must be answered"
)
_EARLIER: Final = (
    rf"\b(?:(?:previous|prior|earlier){_S}(?:response|interaction|message)(?:{_S}ids?)?"
    rf"|(?:response|item) (?:found )?with id|response {_Q}resp_\w+"
    r"|interaction|conversation|thread)\b"
)
_GONE: Final = (
    r"not (?:be |been )?(?:found|available)|not exist|no such|expired|no longer|deleted"
    r"|not persisted"
)

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
    # -- what a conversation carries, and what its provider keeps of it ---------------------
    CauseRow(
        id="openai.no_such_response",
        gives=REJECTED,
        reason="lost_state",
        params=names("previous_response_id"),
        on=statuses(400, 404),
        source=STATE,
    ),
    CauseRow(
        id="any.rejected_reasoning",
        gives=REJECTED,
        reason="lost_state",
        says=pattern(_in_one_sentence(_REASONING, _SPOILT, without=_UNSUPPORTED)),
        on=NOT_SERVER,
        source=SIGNATURES + "; " + THINKING + "; " + STATE + "; " + THINKING_MODE,
    ),
    CauseRow(
        id="any.unpaired_tool_call",
        gives=REJECTED,
        reason="lost_state",
        says=pattern(
            _in_one_sentence(_CALL, _RESULT, _UNPAIRED)
            + f"|{_in_one_sentence(_CALL_IDS, _UNMATCHED)}"
            + "|"
            + _in_one_sentence(_CALL, r"(?:has|have|had) no (?:output|result|response)")
            + rf"|(?:\bno|missing|\bexpected|multiple|orphan\w*)\W{{0,3}}{_RESULT}"
        ),
        on=NOT_SERVER,
        source=TOOL_RESULTS,
    ),
    CauseRow(
        id="any.no_earlier_turn",
        gives=REJECTED,
        reason="lost_state",
        says=pattern(
            _in_one_sentence(
                rf"{_EARLIER}(?:[^.\n]|\.(?=\S)){{0,60}}?(?:{_GONE})"
                rf"|(?:not|n't|to) find (?:\w+ ){{0,3}}?{_EARLIER}"
                rf"|\b(?:no|invalid) (?:\w+ )?{_Q}{_EARLIER}",
                without=r"\b(?:model|engine|deployment)s?\b",
            )
        ),
        on=statuses(400, 404, 409, 410) | NO_STATUS,
        source=STATE + "; ai.google.dev/gemini-api/docs/interactions (previous_interaction_id)",
    ),
    CauseRow(
        id="gemini.no_cached_content",
        gives=REJECTED,
        reason="lost_state",
        says=pattern(r"\bcachedcontent not found"),
        on=NOT_SERVER,
        source="ai.google.dev/gemini-api/docs/caching (403: or permission denied)",
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
    Flaw.WRONG_SHAPE: CauseRow(
        id="flaw.wrong_shape",
        gives=REJECTED,
        reason=WRONG_SHAPE,
        source="openai-python and anthropic-sdk-python: no field that their callers read is there",
    ),
}
"""By flaw, for a 200 without an error."""
NO_ANSWER: Final = CauseRow(
    id="ending.no_answer", gives=PROVIDER, reason="network", source=_NETWORK
)
