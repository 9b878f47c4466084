"""Causes by clauses of the provider's message, then by broad type names."""

from __future__ import annotations

from typing import Final

from classifier.cause_table.row import (
    AUTH,
    BAD_REQUEST,
    MODEL,
    MODEL_GONE,
    NO_STATUS,
    NOT_SERVER,
    PROVIDER,
    QUOTA,
    RATE,
    REJECTED,
    SERVER,
    CauseRow,
    names,
    pattern,
    statuses,
)
from classifier.cause_table.sources import (
    ANTHROPIC,
    AZURE,
    AZURE_DOC,
    BEDROCK,
    BOTOCORE,
    CLOUDFLARE,
    COHERE,
    GEMINI,
    LITELLM,
    LLAMACPP,
    MINIMAX,
    MISTRAL,
    OLLAMA,
    OPENAI_CODES,
    OPENROUTER,
    QWEN,
    VLLM,
    XAI,
    ZAI,
    ZHIPU,
)

PHRASES: Final = (
    # -- money; a 5xx stays the provider's own failure -----------------------------------------
    CauseRow(
        id="scaleway.concurrency",
        gives=RATE,
        says=pattern(r"\bconcurrent requests\b|\bconcurrency limit\b"),
        on=statuses(429) | NO_STATUS,
        source="scaleway.com/en/docs/generative-apis (429 titled INSUFFICIENT QUOTA)",
    ),
    CauseRow(
        id="anthropic.credit_balance",
        gives=QUOTA,
        says=pattern(r"credit balance is too low"),
        on=NOT_SERVER,
        source=ANTHROPIC + " (400 invalid_request_error)",
    ),
    CauseRow(
        id="anthropic.usage_limits",
        gives=QUOTA,
        reason="spend_limit",
        says=pattern(
            r"specified (?:workspace )?API usage limits|\bregain access on\b|"
            r"API usage limits[\s\S]*spend limit"
        ),
        on=NOT_SERVER,
        source=ANTHROPIC + " (400 or 429)",
    ),
    CauseRow(
        id="openai.current_quota",
        gives=QUOTA,
        says=pattern(r"exceeded your current quota[\s\S]*platform\.openai\.com"),
        on=NOT_SERVER,
        source=OPENAI_CODES + " (the sentence alone is Gemini's per-minute boilerplate too)",
    ),
    CauseRow(
        id="openai.account_not_active",
        gives=QUOTA,
        says=pattern(r"account is not active"),
        on=NOT_SERVER,
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="openrouter.key_limit",
        gives=QUOTA,
        reason="spend_limit",
        says=pattern(r"\bkey limit exceeded\b"),
        on=NOT_SERVER,
        source=OPENROUTER + " (403)",
    ),
    CauseRow(
        id="vertex.billing",
        gives=QUOTA,
        says=pattern(
            r"requires billing to be enabled|billing (?:account )?(?:is |has been )"
            r"(?:disabled|not enabled)"
        ),
        on=NOT_SERVER,
        source="cloud.google.com/vertex-ai/generative-ai/docs/error-code-mapping (403)",
    ),
    CauseRow(
        id="any.spend_limit",
        gives=QUOTA,
        reason="spend_limit",
        says=pattern(
            r"\bspend(?:ing)?[ -](?:limit|cap)\b|failure to pay past invoices|"
            r"budget has been exceeded|\bexceeded (?:your |its )?budget\b"
        ),
        on=NOT_SERVER,
        source=XAI + " (403, 429); docs.fireworks.ai (412); " + LITELLM + " (400)",
    ),
    CauseRow(
        id="any.credits",
        gives=QUOTA,
        says=pattern(
            r"\binsufficient (?:account )?(?:balance|credits?|funds)\b|"
            r"\b(?:not enough|requires? more|out of|no (?:remaining|prepaid))"
            r" (?:credits?|balance)\b|"
            r"\bcredits? (?:has |have |is |are )?(?:been )?(?:used up|exhausted|depleted)|"
            r"used all (?:available|your|of your)[\w ]* credits|"
            r"exceeded your [\w ]*included credits|"
            r"account (?:is |balance )?(?:in arrears|overdue|is negative)|\boverdue[- ]payment"
        ),
        on=NOT_SERVER,
        source="api-docs.deepseek.com/quick_start/error_codes (402); "
        "huggingface.co/docs/inference-providers/pricing; " + OPENROUTER + "; " + XAI,
    ),
    CauseRow(
        id="any.period_allotment",
        gives=QUOTA,
        reason="daily",
        says=pattern(
            r"(?:used up|exceeded|reached|exhausted) (?:your|the|its)"
            r" (?:daily|weekly|monthly)\b"
        ),
        on=NOT_SERVER,
        source=CLOUDFLARE + "; huggingface.co/docs/inference-providers/pricing",
    ),
    # -- region and key ------------------------------------------------------------------------
    CauseRow(
        id="any.region",
        gives=AUTH,
        reason="region",
        says=pattern(
            r"user location is not supported|country, region,? or territory|"
            r"not (?:available|supported) in your (?:country|region|location)"
        ),
        on=NOT_SERVER,
        source=GEMINI + " (400 FAILED_PRECONDITION); " + OPENAI_CODES,
    ),
    CauseRow(
        id="any.key_said",
        gives=AUTH,
        says=pattern(
            r"\bAPI[- ]key (?:is )?(?:not valid|invalid|expired|missing|required|not found)|"
            r"\b(?:invalid|incorrect|missing|no|expired|wrong)(?: or \w+)? (?:x-)?api[- ]?key\b|"
            r"\binvalid (?:api |access |bearer |auth\w* |x-api-)(?:token|key|credentials?)\b|"
            r"reported as leaked|invalid subscription key|security token included|"
            r"\bapi key is valid\b|credential is only authorized|"
            r"\b(?:missing|invalid|no) (?:authorization|authentication|auth|credentials)\b"
        ),
        on=statuses(400, 401, 403, 422, 498) | NO_STATUS,
        source=GEMINI + " (400); " + XAI + " (400); " + AZURE_DOC + "; " + BEDROCK,
    ),
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
        id="openai.previous_response_said",
        gives=REJECTED,
        reason="malformed",
        says=pattern(r"no response found|previous response[\s\S]*not found"),
        on=statuses(400, 404) | NO_STATUS,
        source=OPENAI_CODES,
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
        id="any.model_gone",
        gives=MODEL,
        says=pattern(
            rf"{MODEL_GONE}|\bno models? loaded\b|"
            r"\b(?:not found|unable to access) (?:the )?model\b|"
            r"\b(?:no such|unknown|unrecognized|invalid|unsupported|not supported) model\b|"
            r"\bmodel (?:id|name|identifier)\b[^.\n]{0,40}\b(?:invalid|not valid)"
        ),
        on=statuses(400, 403, 404, 410, 422) | NO_STATUS,
        source=VLLM + "; " + OLLAMA + "; " + COHERE + "; " + XAI + " (400)",
    ),
    CauseRow(
        id="any.model_no_access",
        gives=MODEL,
        reason="no_access",
        says=pattern(
            r"(?:not have|no|denied) (?:access|permission)[^.\n]{0,60}\bmodel\b|"
            r"access to (?:the )?model\b[^.\n]{0,80}(?:denied|not allowed)|"
            r"\bmodel\b[^.\n]{0,80}\b(?:not allowed|don't have access|no access)|"
            r"not allowed to (?:sample from|use|access) (?:this|the) model\b"
        ),
        on=statuses(400, 403, 404) | NO_STATUS,
        source=BEDROCK + "; " + ANTHROPIC + " (403: workspaces restrict models)",
    ),
    CauseRow(
        id="anthropic.model_named",
        gives=MODEL,
        says=pattern(r"\Amodel: \S"),
        on=statuses(404) | NO_STATUS,
        source=ANTHROPIC + " (404 not_found_error)",
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
        id="bedrock.access_to_model",
        gives=MODEL,
        reason="no_access",
        names=names("accessdeniedexception resourcenotfoundexception"),
        says=pattern(r"\bmodel\b"),
        source=BEDROCK,
    ),
    CauseRow(
        id="azure.deployment_said",
        gives=MODEL,
        says=pattern(r"\bdeployment\b[^.\n]{0,80}(?:does not exist|not found)"),
        on=statuses(400, 404),
        source=AZURE_DOC,
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
        id="any.context_length_said",
        gives=REJECTED,
        reason="context_length",
        says=pattern(
            r"maximum context length|\bcontext (?:length|window|size)\b[^\n]{0,60}exceed|"
            r"exceed\w*[^\n]{0,60}\bcontext (?:length|window|size)\b|prompt is too long|"
            r"input is too long|input token count[^\n]{0,60}exceeds|"
            r"range of input length|longer than the model'?s? context|"
            r"larger than the max(?:imum)? context size|"
            r"too large for model with \d+ maximum context|"
            r"(?:prompt|input)[^\n]{0,40}exceeds?[^\n]{0,40}(?:maximum|limit)[^\n]{0,20}tokens"
        ),
        on=statuses(400, 413, 422) | NO_STATUS | SERVER,
        source=OPENAI_CODES + "; " + ANTHROPIC + "; " + GEMINI + "; " + LLAMACPP,
    ),
    CauseRow(
        id="any.content_filter_said",
        gives=REJECTED,
        reason="content_filter",
        says=pattern(
            r"content management policy|\bcontent (?:policy|filter)|safety system|"
            r"\bguardrails?\b|requires moderation|input was flagged|flagged as potentially"
        ),
        on=statuses(400, 403, 422) | NO_STATUS,
        source=OPENROUTER + " (403); " + OPENAI_CODES + " (400)",
    ),
    CauseRow(
        id="llamacpp.batch_size",
        gives=REJECTED,
        reason="too_large",
        says=pattern(r"\bis too large to process\b"),
        on=statuses(400) | SERVER,
        source=LLAMACPP + " (500 server_error: the input exceeds the physical batch)",
    ),
    CauseRow(
        id="llamacpp.chat_template",
        gives=REJECTED,
        reason="malformed",
        says=pattern(
            r"conversation roles must alternate|assistant (?:messages at the end|"
            r"response prefill)|failed to parse (?:messages|tools|grammar)"
        ),
        on=SERVER,
        source="ggml-org/llama.cpp:tools/server/utils.hpp (std::runtime_error becomes a 500)",
    ),
    CauseRow(
        id="dashscope.inspection_said",
        gives=REJECTED,
        reason="content_filter",
        says=pattern(r"\bDataInspectionFailed\b"),
        source=QWEN + " (a coined name, quoted inside a gateway's sentence)",
    ),
    CauseRow(
        id="ollama.image",
        gives=REJECTED,
        reason="malformed",
        says=pattern(
            r"(?:failed to (?:process|load|decode)|invalid|unable to (?:load|decode)"
            r"|bad)[^\n]{0,30}\bimages?\b|"
            r"\bimage: unknown format\b|\bunknown image format\b"
        ),
        on=SERVER,
        source=OLLAMA + " (500 to an image it cannot decode); " + LLAMACPP,
    ),
    CauseRow(
        id="llamacpp.unsupported_said",
        gives=REJECTED,
        reason="unsupported",
        says=pattern(
            r"\b(?:is|are) not supported\b|does(?: not|n't) support\b|"
            r"requires --\w|start it with|--jinja|not implemented"
        ),
        on=statuses(500, 501),
        source=LLAMACPP + " (the server was started without it)",
    ),
)


BROAD: Final = (
    CauseRow(
        id="vertex.stated_429",
        gives=RATE,
        on=statuses(429),
        http=SERVER,
        source="cloud.google.com/vertex-ai: a 5xx whose body states 429",
    ),
    CauseRow(
        id="any.rate_limit_name",
        gives=RATE,
        names=names(
            "rate_limit_error rate_limit_exceeded rate_limit too_many_requests"
            " too_many_requests_error ratelimiterror resource_exhausted"
        ),
        on=statuses(400, 424, 429) | NO_STATUS | SERVER,
        source=ANTHROPIC + "; " + OPENAI_CODES + "; google/rpc/code.proto (8)",
    ),
    CauseRow(
        id="any.rate_limit_said",
        gives=RATE,
        says=pattern(
            r"\brate[- ]limit(?:ed)?\b[^\n]{0,40}(?:reached|exceeded|upstream)|"
            r"\btoo many requests\b|exceeded[^\n]{0,30}\brate limit\b"
        ),
        on=statuses(400, 429) | NO_STATUS,
        source=OPENROUTER + " (inside a 200); " + MISTRAL,
    ),
    CauseRow(
        id="any.auth_name",
        gives=AUTH,
        names=names(
            "permission_error permission_denied permissiondenied accessdeniedexception"
            " accessdenied access_denied authenticationerror unauthorized"
            " permission_denied_error invalid_authentication forbidden"
        ),
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
        id="any.rejected_name",
        gives=REJECTED,
        names=names(
            "invalid_request_error invalid_request validationexception invalid_argument"
            " failed_precondition badrequesterror bad_request invalidparameter"
            " invalid_parameter unprocessable out_of_range invalid_params"
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
    CauseRow(
        id="any.provider_name",
        gives=PROVIDER,
        names=names(
            "server_error api_error internal internal_error internal_server_error"
            " internalservererror unavailable service_unavailable server unmapped"
        ),
        on=NO_STATUS | SERVER,
        source=ANTHROPIC + "; " + OPENAI_CODES + "; google/rpc/code.proto (13, 14)",
    ),
)
