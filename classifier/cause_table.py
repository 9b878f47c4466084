"""What providers' errors mean: one ordered table of facts, first match wins.

It decides nothing by itself (``classifier.causes`` does), and matches no bare word: phrases
are whole clauses of a provider's own sentence.

The order inside the table is the order of evidence: names that a provider coined (codes,
types, Google reasons and quota ids, AWS exceptions), then phrases of its own message, then
the broad type names that several failures share, then the status. Broad names stand after
phrases because providers reuse them: Anthropic's ``invalid_request_error`` is a malformed
request, an empty account and a reached spend limit, and only its sentence tells which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from classifier.records import Ending, Flaw
from classifier.verdicts import Subcategory

_AUTH = Subcategory.AUTH
_QUOTA = Subcategory.QUOTA
_MODEL = Subcategory.MODEL_NOT_FOUND
_RATE = Subcategory.RATE_LIMIT
_PROVIDER = Subcategory.PROVIDER_ERROR
_REJECTED = Subcategory.REJECTED_REQUEST

Statuses = frozenset[int | None]


def _told(*statuses: int) -> Statuses:
    return frozenset(statuses)


_CLIENT: Final[Statuses] = frozenset(range(400, 500))
_SERVER: Final[Statuses] = frozenset(range(500, 1000))
_UNSAID: Final[Statuses] = frozenset((None,))  # inside a 200, with no status of its own
_NOT_SERVER: Final = _CLIENT | _UNSAID
_BAD: Final = _told(400, 422) | _UNSAID


def _named(names: str) -> frozenset[str]:
    return frozenset(names.lower().split())


def _said(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One fact about a provider: what it answers, and what that means.

    All conditions that are given must hold. ``names`` are compared in lower case with the
    error's code, type and reasons and with the stated exception; ``reasons`` is searched in
    its reasons, ``says`` in its message, ``params`` in its ``param``. ``on`` are the statuses
    it may come with (None: inside a 200 that states none), as the body tells it where a
    gateway flattened it; ``http`` is the status line alone. ``source`` says where the fact
    is written down.
    """

    id: str
    gives: Subcategory
    source: str
    reason: str | None = None
    transient: bool | None = None
    names: frozenset[str] = frozenset()
    reasons: re.Pattern[str] | None = None
    says: re.Pattern[str] | None = None
    params: frozenset[str] = frozenset()
    on: Statuses | None = None
    http: Statuses | None = None
    upstreams: frozenset[str] = frozenset()


_DASHSCOPE: Final = _named("qwen dashscope alibaba aliyun modelstudio")
_ZHIPU: Final = _named("zhipu zai z-ai bigmodel glm")
_AZURE: Final = _named("azure azure-openai azure-ai github")

_OPENAI_CODES: Final = "developers.openai.com/api/docs/guides/error-codes"
_ANTHROPIC: Final = "platform.claude.com/docs/en/api/errors"
_GEMINI: Final = "ai.google.dev/gemini-api/docs/troubleshooting"
_GEMINI_LIMITS: Final = "ai.google.dev/gemini-api/docs/rate-limits"
_GOOGLE_REASONS: Final = "googleapis:google/api/error_reason.proto"
_AZURE_DOC: Final = "learn.microsoft.com/azure/ai-services/openai/quotas-limits"
_BEDROCK: Final = "docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes"
_BOTOCORE: Final = "boto/botocore:botocore/data/bedrock-runtime/2023-09-30/service-2.json"
_OPENROUTER: Final = "openrouter.ai/docs/api/reference/errors-and-debugging"
_GROQ: Final = "console.groq.com/docs/errors"
_MISTRAL: Final = "docs.mistral.ai/api"
_COHERE: Final = "cohere-ai/cohere-python:src/cohere/errors"
_QWEN: Final = "help.aliyun.com/en/model-studio/error-code"
_ZAI: Final = "docs.z.ai/api-reference/api-code"
_MINIMAX: Final = "platform.minimax.io/docs/api-reference/errorcode"
_CLOUDFLARE: Final = "developers.cloudflare.com/workers-ai/platform/errors"
_MOONSHOT: Final = "platform.moonshot.ai/docs/api/chat#error-codes"
_CEREBRAS: Final = "inference-docs.cerebras.ai/support/error"
_LLAMACPP: Final = "ggml-org/llama.cpp:tools/server/utils.hpp format_error_response"
_OLLAMA: Final = "ollama/ollama:server/routes.go"
_VLLM: Final = "vllm-project/vllm:vllm/entrypoints/openai/serving_engine.py"
_LITELLM: Final = "BerriAI/litellm:litellm/exceptions.py"
_XAI: Final = "docs.x.ai/docs/key-information/debugging"
_HTTP: Final = "RFC 9110 §15"

# "model X", "model: X", "the requested model 'X'": the name stands right behind the word, and
# what follows speaks of it. "Tools with model X are not supported" speaks of something else.
_THE_MODEL: Final = (
    r"(?<!for )(?<!with )(?<!by )(?<!in )(?<!for the )(?<!with the )(?<!by the )(?<!in the )"
    r"\bmodels?(?: id| name| identifier)?:? ?"
)
_ANY_NAME: Final = r"(?:[`'\"“][^`'\"”\n]{1,120}[`'\"”]|[\w./:@\-]+)?,? ?"
_SURE_NAME: Final = r"(?:[`'\"“][^`'\"”\n]{1,120}[`'\"”]|(?=[\w./:@\-]*[\d\-/:@])[\w./:@\-]+)?,? ?"
_BE: Final = r"(?:is |was |has |could |does |do |are |can|cannot |it )*"
_GONE: Final = (
    rf"{_THE_MODEL}{_ANY_NAME}{_BE}(?:not found|not exist|doesn'?t exist|not be found|be found|"
    r"(?:not|isn'?t) available|no longer (?:available|supported)|not (?:been )?deployed|"
    r"(?:currently )?unavailable|"
    r"(?:been )?(?:removed|retired|decommissioned|deprecated|shut ?down))|"
    rf"{_THE_MODEL}{_SURE_NAME}{_BE}(?:not supported|not a valid|not valid|invalid|unknown)"
)
_PER_DAY: Final = (
    r"\A(?![\s\S]*\bper min)[\s\S]*(?:"
    r"\b(?:tokens?|requests?|calls|messages|neurons|images)[ -]per[ -](?:day|week|month)\b|"
    r"\((?:TPD|RPD)\)|models-per-day|per 86400s|ByDay\b|"
    r"\b(?:daily|weekly|monthly)(?: free| token| request| usage| rate| included| quota)*"
    r" (?:limit|quota|allocation|allowance|cap|credits)\b|\bmonth'?s quota)"
)

_COINED: Final = (
    # -- money, plan, allotment: a provider's own names for it -----------------------------
    CauseRow(
        id="dashscope.tokens_per_minute",
        gives=_RATE,
        upstreams=_DASHSCOPE,
        names=_named("insufficient_quota throttling.allocationquota"),
        source=_QWEN + " (429: TPM reached, in spite of its name; recovers within a minute)",
    ),
    CauseRow(
        id="openai.insufficient_quota",
        gives=_QUOTA,
        names=_named("insufficient_quota"),
        source=_OPENAI_CODES,
    ),
    CauseRow(
        id="openai.spend_limit",
        gives=_QUOTA,
        reason="spend_limit",
        names=_named(
            "credit_balance_exhausted organization_spend_limit_exceeded"
            " project_spend_limit_exceeded organization_usage_limit_exceeded"
            " billing_hard_limit_reached billing_not_active"
        ),
        source="help.openai.com/en/articles/6614457",
    ),
    CauseRow(
        id="openai.plan_usage_limit",
        gives=_QUOTA,
        reason="plan",
        names=_named("usage_limit_reached usage_not_included"),
        source="openai/codex:codex-rs/core/src/error.rs (ChatGPT plan windows)",
    ),
    CauseRow(
        id="anthropic.enforced_spend_limit",
        gives=_QUOTA,
        reason="spend_limit",
        names=_named("enforced_spend_limit_reached"),
        source=_ANTHROPIC + " (429 rate_limit_error, no retry-after)",
    ),
    CauseRow(
        id="anthropic.billing_error",
        gives=_QUOTA,
        names=_named("billing_error"),
        source=_ANTHROPIC,
    ),
    CauseRow(
        id="openrouter.in_flight_budget",
        gives=_QUOTA,
        reason="in_flight",
        transient=True,
        names=_named("openrouter_in_flight_budget in_flight_budget_exhausted"),
        source=_OPENROUTER + " (402 with Retry-After: wait and retry)",
    ),
    CauseRow(
        id="openrouter.payment_required",
        gives=_QUOTA,
        names=_named("payment_required"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="google.billing_disabled",
        gives=_QUOTA,
        names=_named("billing_disabled"),
        source=_GOOGLE_REASONS,
    ),
    CauseRow(
        id="bedrock.service_quota",
        gives=_QUOTA,
        names=_named("servicequotaexceededexception"),
        source=_BOTOCORE,
    ),
    CauseRow(
        id="bedrock.tokens_per_day",
        gives=_QUOTA,
        reason="daily",
        names=_named("throttlingexception"),
        says=_said(r"too many tokens per day"),
        source=_BEDROCK,
    ),
    CauseRow(
        id="moonshot.exceeded_quota",
        gives=_QUOTA,
        names=_named("exceeded_current_quota_error"),
        source=_MOONSHOT,
    ),
    CauseRow(
        id="groq.blocked_api_access",
        gives=_QUOTA,
        reason="spend_limit",
        names=_named("blocked_api_access"),
        source="console.groq.com/docs/spend-limits",
    ),
    CauseRow(
        id="xai.spending_limit",
        gives=_QUOTA,
        reason="spend_limit",
        names=_named("personal-team-blocked:spending-limit"),
        source=_XAI,
    ),
    CauseRow(
        id="dashscope.arrearage",
        gives=_QUOTA,
        names=_named("arrearage allocationquota.freetieronly"),
        source=_QWEN,
    ),
    CauseRow(
        id="together.credit_limit",
        gives=_QUOTA,
        names=_named(
            "credit_limit insufficient_balance insufficient_credits insufficient_credit"
            " not_enough_balance insufficient_funds"
        ),
        source="docs.together.ai/docs/error-codes; docs.novita.ai, docs.zenmux.ai error codes",
    ),
    CauseRow(
        id="litellm.budget",
        gives=_QUOTA,
        names=_named("budget_exceeded"),
        source=_LITELLM + " BudgetExceededError (HTTP 400)",
    ),
    CauseRow(
        id="minimax.balance",
        gives=_QUOTA,
        names=_named("base_resp.1008 base_resp.2056"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="cloudflare.daily_neurons",
        gives=_QUOTA,
        reason="daily",
        names=_named("errors.3036"),
        source=_CLOUDFLARE,
    ),
    CauseRow(
        id="zhipu.arrears",
        gives=_QUOTA,
        upstreams=_ZHIPU,
        names=_named("1113 1304 1308 1309 1310"),
        source=_ZAI,
    ),
    CauseRow(
        id="google.daily_limit",
        gives=_QUOTA,
        reason="daily",
        names=_named("dailylimitexceeded"),
        source="cloud.google.com/apis/design/errors (legacy reasons)",
    ),
    CauseRow(
        id="gemini.zero_limit",
        gives=_QUOTA,
        reason="plan",
        names=_named("quota_limit_value.0"),
        source=_GEMINI_LIMITS + " (a limit of 0: the plan has none, waiting never helps)",
    ),
    CauseRow(
        id="gemini.per_day_quota",
        gives=_QUOTA,
        reason="daily",
        reasons=_said(r"per_?(?:day|week|month)|daily|\A1/d/"),
        source=_GEMINI_LIMITS + " (quotaId …PerDay…; the message may still say: retry in 15s)",
    ),
    # -- a short window ----------------------------------------------------------------------
    CauseRow(
        id="gemini.capacity_exhausted",
        gives=_PROVIDER,
        reason="overloaded",
        names=_named("model_capacity_exhausted"),
        source="google-gemini/gemini-cli:packages/core/src/utils/googleQuotaErrors.ts",
    ),
    CauseRow(
        id="moonshot.engine_overloaded",
        gives=_PROVIDER,
        reason="overloaded",
        names=_named("engine_overloaded_error"),
        source=_MOONSHOT + " (429)",
    ),
    CauseRow(
        id="any.request_over_minute_allowance",
        gives=_REJECTED,
        reason="too_large",
        names=_named("rate_limit_exceeded tokens"),
        says=_said(r"\brequest too large\b"),
        source=_GROQ + " (413; OpenAI the same with 429: this request alone exceeds the limit)",
    ),
    CauseRow(
        id="any.per_day",
        gives=_QUOTA,
        reason="daily",
        says=_said(_PER_DAY),
        on=_told(413, 429) | _UNSAID,
        source="console.groq.com/docs/rate-limits (TPD, RPD); " + _CEREBRAS,
    ),
    CauseRow(
        id="groq.request_over_limit",
        gives=_REJECTED,
        reason="too_large",
        names=_named("rate_limit_exceeded"),
        on=_told(413),
        source=_GROQ,
    ),
    CauseRow(
        id="gemini.zero_limit_said",
        gives=_QUOTA,
        reason="plan",
        says=_said(r"\blimit: 0(?![\d.,]\d|\d)"),
        on=_told(429) | _UNSAID,
        source=_GEMINI_LIMITS,
    ),
    CauseRow(
        id="gemini.credits_depleted",
        gives=_QUOTA,
        says=_said(r"prepayment credits are depleted|\bspending cap\b"),
        on=_NOT_SERVER,
        source="ai.google.dev/gemini-api/docs/billing",
    ),
    CauseRow(
        id="gemini.per_minute_quota",
        gives=_RATE,
        reasons=_said(r"per_?(?:minute|second|hour)|\A1/min/"),
        source=_GEMINI_LIMITS,
    ),
    CauseRow(
        id="google.rate_limit_reason",
        gives=_RATE,
        names=_named("ratelimitexceeded userratelimitexceeded"),
        source="cloud.google.com/apis/design/errors (legacy reasons)",
    ),
    CauseRow(
        id="openai.slow_down",
        gives=_RATE,
        names=_named("slow_down"),
        source=_OPENAI_CODES + " (503 or 429: a sudden rise in request rate)",
    ),
    CauseRow(
        id="openai.tpm_type",
        gives=_RATE,
        names=_named("requests tokens"),
        on=_told(429) | _UNSAID,
        source=_OPENAI_CODES,
    ),
    CauseRow(
        id="bedrock.throttling",
        gives=_RATE,
        names=_named("throttlingexception toomanyrequestsexception"),
        source=_BOTOCORE,
    ),
    CauseRow(
        id="bedrock.model_not_ready",
        gives=_RATE,
        names=_named("modelnotreadyexception"),
        source=_BOTOCORE + " (429: the SDK retries it)",
    ),
    CauseRow(
        id="moonshot.rate_limit_reached",
        gives=_RATE,
        names=_named("rate_limit_reached_error"),
        source=_MOONSHOT,
    ),
    CauseRow(
        id="mistral.rate_limited",
        gives=_RATE,
        names=_named("rate_limited service_tier_capacity_exceeded"),
        source=_MISTRAL,
    ),
    CauseRow(
        id="azure.rate_limit_reached",
        gives=_RATE,
        names=_named("ratelimitreached"),
        source="docs.github.com/github-models (by minute; by day is any.per_day)",
    ),
    CauseRow(
        id="cerebras.window",
        gives=_RATE,
        names=_named("token_quota_exceeded request_quota_exceeded queue_exceeded"),
        source=_CEREBRAS + " (one code for minute and day; the day is any.per_day)",
    ),
    CauseRow(
        id="dashscope.throttling",
        gives=_RATE,
        names=_named(
            "throttling throttling.ratequota throttling.burstrate throttling.user"
            " throttling.allocationquota limit_requests limit_burst_rate"
        ),
        source=_QWEN,
    ),
    CauseRow(
        id="minimax.rate",
        gives=_RATE,
        names=_named("base_resp.1002 base_resp.1039 base_resp.1041 base_resp.2045"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="zhipu.rate",
        gives=_RATE,
        upstreams=_ZHIPU,
        names=_named("1302 1303 1305"),
        source=_ZAI,
    ),
    # -- the key, the account, the region ------------------------------------------------------
    CauseRow(
        id="openai.region",
        gives=_AUTH,
        reason="region",
        names=_named("unsupported_country_region_territory"),
        source=_OPENAI_CODES,
    ),
    CauseRow(
        id="openai.key",
        gives=_AUTH,
        names=_named(
            "invalid_api_key invalid_organization mismatched_organization"
            " mismatched_project ip_not_authorized missing_api_key no_api_key"
        ),
        source=_OPENAI_CODES,
    ),
    CauseRow(
        id="openai.account_closed",
        gives=_AUTH,
        names=_named("access_terminated account_deactivated"),
        source=_OPENAI_CODES,
    ),
    CauseRow(
        id="anthropic.authentication",
        gives=_AUTH,
        names=_named("authentication_error"),
        source=_ANTHROPIC,
    ),
    CauseRow(
        id="google.key",
        gives=_AUTH,
        reasons=_said(r"\Aapi_key_|\Aunauthenticated\Z|\Aaccess_token_|\Acredentials_missing\Z"),
        source=_GOOGLE_REASONS,
    ),
    CauseRow(
        id="google.project",
        gives=_AUTH,
        names=_named(
            "iam_permission_denied service_disabled consumer_suspended consumer_invalid"
            " security_policy_violated"
        ),
        source=_GOOGLE_REASONS,
    ),
    CauseRow(
        id="bedrock.signature",
        gives=_AUTH,
        names=_named(
            "unrecognizedclientexception invalidsignatureexception"
            " expiredtokenexception incompletesignatureexception"
            " missingauthenticationtokenexception notauthorized requestexpired"
            " incompletesignature optinrequired invalidclienttokenid"
        ),
        source=_BEDROCK,
    ),
    CauseRow(
        id="groq.organization_restricted",
        gives=_AUTH,
        names=_named("organization_restricted"),
        source=_GROQ,
    ),
    CauseRow(
        id="moonshot.key",
        gives=_AUTH,
        names=_named("invalid_authentication_error incorrect_api_key_error"),
        source=_MOONSHOT,
    ),
    CauseRow(
        id="dashscope.key",
        gives=_AUTH,
        names=_named("invalidapikey accessdenied.unpurchased"),
        source=_QWEN,
    ),
    CauseRow(
        id="openrouter.key",
        gives=_AUTH,
        names=_named("authentication"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="minimax.key",
        gives=_AUTH,
        names=_named("base_resp.1004 base_resp.2049"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="cloudflare.key",
        gives=_AUTH,
        names=_named("errors.10000 errors.10001 errors.9109 errors.3023"),
        source=_CLOUDFLARE,
    ),
    CauseRow(
        id="zhipu.key",
        gives=_AUTH,
        upstreams=_ZHIPU,
        names=_named("1000 1001 1002 1003 1004 1110 1111 1112 1121 1220"),
        source=_ZAI,
    ),
    # -- the model -----------------------------------------------------------------------------
    CauseRow(
        id="openai.model_not_found",
        gives=_MODEL,
        names=_named("model_not_found"),
        source=_OPENAI_CODES + " (chat 404, responses 400, project without access 403)",
    ),
    CauseRow(
        id="groq.model",
        gives=_MODEL,
        names=_named(
            "model_decommissioned model_terms_required model_permission_blocked_org"
            " model_permission_blocked_project"
        ),
        source=_GROQ,
    ),
    CauseRow(
        id="mistral.model",
        gives=_MODEL,
        names=_named("unknown_model invalid_model"),
        source=_MISTRAL,
    ),
    CauseRow(
        id="azure.deployment",
        gives=_MODEL,
        names=_named("deploymentnotfound unavailable_model modelnotfound"),
        source=_AZURE_DOC,
    ),
    CauseRow(
        id="azure.model_retired",
        gives=_MODEL,
        reason="retired",
        names=_named("servicemodeldeprecating servicemodeldeprecated"),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/model-retirements",
    ),
    CauseRow(
        id="dashscope.model",
        gives=_MODEL,
        names=_named("model.accessdenied model_not_supported model_not_available"),
        source=_QWEN + "; huggingface.co/docs/inference-providers",
    ),
    CauseRow(
        id="minimax.model",
        gives=_MODEL,
        names=_named("base_resp.2061"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="cloudflare.model",
        gives=_MODEL,
        names=_named("errors.5007 errors.3042 errors.5018 errors.5016 errors.3041"),
        source=_CLOUDFLARE,
    ),
    CauseRow(
        id="zhipu.model",
        gives=_MODEL,
        upstreams=_ZHIPU,
        names=_named("1211 1221 1222 1311"),
        source=_ZAI,
    ),
    # -- this request --------------------------------------------------------------------------
    CauseRow(
        id="any.context_length",
        gives=_REJECTED,
        reason="context_length",
        names=_named(
            "context_length_exceeded exceed_context_size_error string_above_max_length"
            " contextwindowexceedederror tokens_too_long tokens_limit_reached"
        ),
        source=_OPENAI_CODES + "; " + _LLAMACPP + "; " + _LITELLM,
    ),
    CauseRow(
        id="openrouter.token_cap",
        gives=_REJECTED,
        reason="too_large",
        names=_named("token_limit_exceeded max_tokens_exceeded string_too_long payload_too_large"),
        on=_told(400, 413) | _UNSAID,
        source=_OPENROUTER,
    ),
    CauseRow(
        id="anthropic.request_too_large",
        gives=_REJECTED,
        reason="too_large",
        names=_named("request_too_large"),
        source=_ANTHROPIC,
    ),
    CauseRow(
        id="any.content_filter",
        gives=_REJECTED,
        reason="content_filter",
        names=_named(
            "content_filter content_policy_violation responsibleaipolicyviolation"
            " datainspectionfailed data_inspection_failed moderation bio_policy"
            " image_content_policy_violation"
        ),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/content-filter; "
        + _OPENROUTER
        + "; "
        + _QWEN,
    ),
    CauseRow(
        id="minimax.content",
        gives=_REJECTED,
        reason="content_filter",
        names=_named("base_resp.1026 base_resp.1027"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="zhipu.content",
        gives=_REJECTED,
        reason="content_filter",
        upstreams=_ZHIPU,
        names=_named("1301"),
        source=_ZAI,
    ),
    CauseRow(
        id="zhipu.context_length",
        gives=_REJECTED,
        reason="context_length",
        upstreams=_ZHIPU,
        names=_named("1261"),
        source=_ZAI,
    ),
    CauseRow(
        id="openai.invalid_prompt",
        gives=_REJECTED,
        names=_named("invalid_prompt invalid_encrypted_content data_residency_mismatch"),
        source="openai/openai-python:src/openai/types/responses/response_error.py",
    ),
    CauseRow(
        id="openai.image",
        gives=_REJECTED,
        reason="malformed",
        names=_named(
            "invalid_image invalid_image_format invalid_base64_image invalid_image_url"
            " image_too_large image_too_small image_parse_error invalid_image_mode"
            " image_file_too_large unsupported_image_media_type empty_image_file"
            " failed_to_download_image image_file_not_found unsupported_image_format"
            " image_not_found image_download_failed"
        ),
        source="openai/openai-python:src/openai/types/responses/response_error.py; " + _OPENROUTER,
    ),
    CauseRow(
        id="openai.previous_response",
        gives=_REJECTED,
        reason="malformed",
        params=_named("previous_response_id"),
        source=_OPENAI_CODES + " (404: the response, not the model)",
    ),
    CauseRow(
        id="any.unsupported",
        gives=_REJECTED,
        reason="unsupported",
        names=_named(
            "unsupported_parameter unsupported_value not_supported_error"
            " unsupported_api_for_model operationnotsupported"
        ),
        source=_OPENAI_CODES + "; " + _LLAMACPP + " (501)",
    ),
    CauseRow(
        id="anthropic.conflict",
        gives=_REJECTED,
        transient=True,
        names=_named("conflict_error conflictexception"),
        source=_ANTHROPIC + " (409: the SDK retries it)",
    ),
    # -- the provider --------------------------------------------------------------------------
    CauseRow(
        id="anthropic.overloaded",
        gives=_PROVIDER,
        reason="overloaded",
        names=_named("overloaded_error"),
        source=_ANTHROPIC + " (529, or inside a 200 stream)",
    ),
    CauseRow(
        id="openai.overloaded",
        gives=_PROVIDER,
        reason="overloaded",
        names=_named("server_is_overloaded service_unavailable_error overloaded"),
        source=_OPENAI_CODES + "; huggingface/text-generation-inference error_type (429)",
    ),
    CauseRow(
        id="bedrock.provider",
        gives=_PROVIDER,
        names=_named(
            "internalserverexception serviceunavailableexception modelerrorexception"
            " modelstreamerrorexception internalfailure"
        ),
        source=_BOTOCORE,
    ),
    CauseRow(
        id="bedrock.model_timeout",
        gives=_PROVIDER,
        reason="timeout",
        names=_named("modeltimeoutexception"),
        source=_BOTOCORE + " (408)",
    ),
    CauseRow(
        id="groq.capacity_exceeded",
        gives=_PROVIDER,
        reason="overloaded",
        names=_named("capacity_exceeded"),
        source=_GROQ + " (498, flex tier)",
    ),
    CauseRow(
        id="openrouter.provider",
        gives=_PROVIDER,
        names=_named("provider_overloaded provider_unavailable"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="any.timeout_name",
        gives=_PROVIDER,
        reason="timeout",
        names=_named("timeout_error vector_store_timeout finish_reason.timeout"),
        source=_ANTHROPIC + " (504); openai-python response_error.py; docs.cohere.com/v2 chat",
    ),
    CauseRow(
        id="cloudflare.capacity",
        gives=_PROVIDER,
        reason="overloaded",
        names=_named("errors.3040 errors.3007 errors.3008"),
        source=_CLOUDFLARE,
    ),
    CauseRow(
        id="minimax.provider",
        gives=_PROVIDER,
        names=_named("base_resp.1000 base_resp.1001 base_resp.1013 base_resp.1024 base_resp.1033"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="zhipu.provider",
        gives=_PROVIDER,
        upstreams=_ZHIPU,
        names=_named("1120 1200 1230 1234"),
        source=_ZAI,
    ),
)

_PHRASES: Final = (
    # -- money; a 5xx stays the provider's own failure -----------------------------------------
    CauseRow(
        id="scaleway.concurrency",
        gives=_RATE,
        says=_said(r"\bconcurrent requests\b|\bconcurrency limit\b"),
        on=_told(429) | _UNSAID,
        source="scaleway.com/en/docs/generative-apis (429 titled INSUFFICIENT QUOTA)",
    ),
    CauseRow(
        id="anthropic.credit_balance",
        gives=_QUOTA,
        says=_said(r"credit balance is too low"),
        on=_NOT_SERVER,
        source=_ANTHROPIC + " (400 invalid_request_error)",
    ),
    CauseRow(
        id="anthropic.usage_limits",
        gives=_QUOTA,
        reason="spend_limit",
        says=_said(
            r"specified (?:workspace )?API usage limits|\bregain access on\b|"
            r"API usage limits[\s\S]*spend limit"
        ),
        on=_NOT_SERVER,
        source=_ANTHROPIC + " (400 or 429)",
    ),
    CauseRow(
        id="openai.current_quota",
        gives=_QUOTA,
        says=_said(r"exceeded your current quota[\s\S]*platform\.openai\.com"),
        on=_NOT_SERVER,
        source=_OPENAI_CODES + " (the sentence alone is Gemini's per-minute boilerplate too)",
    ),
    CauseRow(
        id="openai.account_not_active",
        gives=_QUOTA,
        says=_said(r"account is not active"),
        on=_NOT_SERVER,
        source=_OPENAI_CODES,
    ),
    CauseRow(
        id="openrouter.key_limit",
        gives=_QUOTA,
        reason="spend_limit",
        says=_said(r"\bkey limit exceeded\b"),
        on=_NOT_SERVER,
        source=_OPENROUTER + " (403)",
    ),
    CauseRow(
        id="vertex.billing",
        gives=_QUOTA,
        says=_said(
            r"requires billing to be enabled|billing (?:account )?(?:is |has been )"
            r"(?:disabled|not enabled)"
        ),
        on=_NOT_SERVER,
        source="cloud.google.com/vertex-ai/generative-ai/docs/error-code-mapping (403)",
    ),
    CauseRow(
        id="any.spend_limit",
        gives=_QUOTA,
        reason="spend_limit",
        says=_said(
            r"\bspend(?:ing)?[ -](?:limit|cap)\b|failure to pay past invoices|"
            r"budget has been exceeded|\bexceeded (?:your |its )?budget\b"
        ),
        on=_NOT_SERVER,
        source=_XAI + " (403, 429); docs.fireworks.ai (412); " + _LITELLM + " (400)",
    ),
    CauseRow(
        id="any.credits",
        gives=_QUOTA,
        says=_said(
            r"\binsufficient (?:account )?(?:balance|credits?|funds)\b|"
            r"\b(?:not enough|requires? more|out of|no (?:remaining|prepaid))"
            r" (?:credits?|balance)\b|"
            r"\bcredits? (?:has |have |is |are )?(?:been )?(?:used up|exhausted|depleted)|"
            r"used all (?:available|your|of your)[\w ]* credits|"
            r"exceeded your [\w ]*included credits|"
            r"account (?:is |balance )?(?:in arrears|overdue|is negative)|\boverdue[- ]payment"
        ),
        on=_NOT_SERVER,
        source="api-docs.deepseek.com/quick_start/error_codes (402); "
        "huggingface.co/docs/inference-providers/pricing; " + _OPENROUTER + "; " + _XAI,
    ),
    CauseRow(
        id="any.period_allotment",
        gives=_QUOTA,
        reason="daily",
        says=_said(
            r"(?:used up|exceeded|reached|exhausted) (?:your|the|its)"
            r" (?:daily|weekly|monthly)\b"
        ),
        on=_NOT_SERVER,
        source=_CLOUDFLARE + "; huggingface.co/docs/inference-providers/pricing",
    ),
    # -- region and key ------------------------------------------------------------------------
    CauseRow(
        id="any.region",
        gives=_AUTH,
        reason="region",
        says=_said(
            r"user location is not supported|country, region,? or territory|"
            r"not (?:available|supported) in your (?:country|region|location)"
        ),
        on=_NOT_SERVER,
        source=_GEMINI + " (400 FAILED_PRECONDITION); " + _OPENAI_CODES,
    ),
    CauseRow(
        id="any.key_said",
        gives=_AUTH,
        says=_said(
            r"\bAPI[- ]key (?:is )?(?:not valid|invalid|expired|missing|required|not found)|"
            r"\b(?:invalid|incorrect|missing|no|expired|wrong)(?: or \w+)? (?:x-)?api[- ]?key\b|"
            r"\binvalid (?:api |access |bearer |auth\w* |x-api-)(?:token|key|credentials?)\b|"
            r"reported as leaked|invalid subscription key|security token included|"
            r"\bapi key is valid\b|credential is only authorized|"
            r"\b(?:missing|invalid|no) (?:authorization|authentication|auth|credentials)\b"
        ),
        on=_told(400, 401, 403, 422, 498) | _UNSAID,
        source=_GEMINI + " (400); " + _XAI + " (400); " + _AZURE_DOC + "; " + _BEDROCK,
    ),
    # -- what looks like a missing model and is not --------------------------------------------
    CauseRow(
        id="openrouter.no_endpoint_supports",
        gives=_REJECTED,
        reason="unsupported",
        says=_said(r"no endpoints found that (?:can )?(?:support|handle)"),
        source=_OPENROUTER + " (404: the model is there, the feature is not)",
    ),
    CauseRow(
        id="openai.not_a_chat_model",
        gives=_REJECTED,
        reason="wrong_endpoint",
        says=_said(r"not a chat model|only supported in v1/|not supported (?:in|with) the v1/"),
        on=_told(400, 404) | _UNSAID,
        source=_OPENAI_CODES + " (404: the model exists on another endpoint)",
    ),
    CauseRow(
        id="lmstudio.wrong_path",
        gives=_REJECTED,
        reason="wrong_endpoint",
        says=_said(r"\bunexpected endpoint or method\b"),
        source="lmstudio.ai/docs/app/api (HTTP 200 to an unknown path)",
    ),
    CauseRow(
        id="openai.previous_response_said",
        gives=_REJECTED,
        reason="malformed",
        says=_said(r"no response found|previous response[\s\S]*not found"),
        on=_told(400, 404) | _UNSAID,
        source=_OPENAI_CODES,
    ),
    # -- the model, in words -------------------------------------------------------------------
    CauseRow(
        id="vertex.publisher_model",
        gives=_MODEL,
        says=_said(
            r"\bpublisher model\b|unexpected model name format|"
            r"\bmodels/[\w.\-]+[`'\"]? (?:is |was )?not found|"
            r"\bmodels/[\w.\-]+[`'\"]?[^.\n]{0,40}"
            r"(?:no longer|not supported)"
        ),
        on=_told(400, 403, 404) | _UNSAID,
        source="cloud.google.com/vertex-ai/generative-ai/docs/error-code-mapping; " + _GEMINI,
    ),
    CauseRow(
        id="any.model_gone",
        gives=_MODEL,
        says=_said(
            rf"{_GONE}|\bno models? loaded\b|\b(?:not found|unable to access) (?:the )?model\b|"
            r"\b(?:no such|unknown|unrecognized|invalid|unsupported|not supported) model\b|"
            r"\bmodel (?:id|name|identifier)\b[^.\n]{0,40}\b(?:invalid|not valid)"
        ),
        on=_told(400, 403, 404, 410, 422) | _UNSAID,
        source=_VLLM + "; " + _OLLAMA + "; " + _COHERE + "; " + _XAI + " (400)",
    ),
    CauseRow(
        id="any.model_no_access",
        gives=_MODEL,
        reason="no_access",
        says=_said(
            r"(?:not have|no|denied) (?:access|permission)[^.\n]{0,60}\bmodel\b|"
            r"access to (?:the )?model\b[^.\n]{0,80}(?:denied|not allowed)|"
            r"\bmodel\b[^.\n]{0,80}\b(?:not allowed|don't have access|no access)|"
            r"not allowed to (?:sample from|use|access) (?:this|the) model\b"
        ),
        on=_told(400, 403, 404) | _UNSAID,
        source=_BEDROCK + "; " + _ANTHROPIC + " (403: workspaces restrict models)",
    ),
    CauseRow(
        id="anthropic.model_named",
        gives=_MODEL,
        says=_said(r"\Amodel: \S"),
        on=_told(404) | _UNSAID,
        source=_ANTHROPIC + " (404 not_found_error)",
    ),
    CauseRow(
        id="bedrock.model_said",
        gives=_MODEL,
        says=_said(
            r"model identifier is invalid|on-demand throughput|inference profile|"
            r"end of its life|use case details"
        ),
        on=_told(400, 403, 404) | _UNSAID,
        source=_BEDROCK + " (ValidationException, ResourceNotFoundException)",
    ),
    CauseRow(
        id="bedrock.iam",
        gives=_AUTH,
        says=_said(r"\bis not authorized to perform\b"),
        on=_told(400, 401, 403, 404),
        source="docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html"
        " (the model is only the resource it names)",
    ),
    CauseRow(
        id="bedrock.access_to_model",
        gives=_MODEL,
        reason="no_access",
        names=_named("accessdeniedexception resourcenotfoundexception"),
        says=_said(r"\bmodel\b"),
        source=_BEDROCK,
    ),
    CauseRow(
        id="azure.deployment_said",
        gives=_MODEL,
        says=_said(r"\bdeployment\b[^.\n]{0,80}(?:does not exist|not found)"),
        on=_told(400, 404),
        source=_AZURE_DOC,
    ),
    CauseRow(
        id="azure.resource_not_found",
        gives=_MODEL,
        upstreams=_AZURE,
        says=_said(r"\Aresource not found"),
        on=_told(404),
        source=_AZURE_DOC + " (the deployment is part of the path)",
    ),
    CauseRow(
        id="openrouter.no_endpoints",
        gives=_MODEL,
        says=_said(
            r"\bno endpoints found\b|\bno allowed providers\b|"
            r"is not a valid model ID|not supported by any provider"
        ),
        on=_told(400, 404) | _UNSAID,
        source=_OPENROUTER + "; huggingface.co/docs/inference-providers",
    ),
    CauseRow(
        id="nvidia.function",
        gives=_MODEL,
        says=_said(r"\bfunction '[^'\n]{1,80}': not found for account"),
        on=_told(404),
        source="docs.api.nvidia.com: an unknown model is an unknown function",
    ),
    CauseRow(
        id="any.model_not_in_list",
        gives=_MODEL,
        params=_named("model"),
        names=_named("literal_error enum type_error.enum invalid_enum_value"),
        on=_told(400, 422),
        source="docs.pydantic.dev/latest/errors/validation_errors (loc names the field)",
    ),
    CauseRow(
        id="any.model_param",
        gives=_MODEL,
        params=_named("model"),
        on=_told(404),
        source=_OPENAI_CODES + "; " + _VLLM,
    ),
    # -- this request, in words ----------------------------------------------------------------
    CauseRow(
        id="any.context_length_said",
        gives=_REJECTED,
        reason="context_length",
        says=_said(
            r"maximum context length|\bcontext (?:length|window|size)\b[^\n]{0,60}exceed|"
            r"exceed\w*[^\n]{0,60}\bcontext (?:length|window|size)\b|prompt is too long|"
            r"input is too long|input token count[^\n]{0,60}exceeds|"
            r"range of input length|longer than the model'?s? context|"
            r"larger than the max(?:imum)? context size|"
            r"too large for model with \d+ maximum context|"
            r"(?:prompt|input)[^\n]{0,40}exceeds?[^\n]{0,40}(?:maximum|limit)[^\n]{0,20}tokens"
        ),
        on=_told(400, 413, 422) | _UNSAID | _SERVER,
        source=_OPENAI_CODES + "; " + _ANTHROPIC + "; " + _GEMINI + "; " + _LLAMACPP,
    ),
    CauseRow(
        id="any.content_filter_said",
        gives=_REJECTED,
        reason="content_filter",
        says=_said(
            r"content management policy|\bcontent (?:policy|filter)|safety system|"
            r"\bguardrails?\b|requires moderation|input was flagged|flagged as potentially"
        ),
        on=_told(400, 403, 422) | _UNSAID,
        source=_OPENROUTER + " (403); " + _OPENAI_CODES + " (400)",
    ),
    CauseRow(
        id="llamacpp.batch_size",
        gives=_REJECTED,
        reason="too_large",
        says=_said(r"\bis too large to process\b"),
        on=_told(400) | _SERVER,
        source=_LLAMACPP + " (500 server_error: the input exceeds the physical batch)",
    ),
    CauseRow(
        id="llamacpp.chat_template",
        gives=_REJECTED,
        reason="malformed",
        says=_said(
            r"conversation roles must alternate|assistant (?:messages at the end|"
            r"response prefill)|failed to parse (?:messages|tools|grammar)"
        ),
        on=_SERVER,
        source="ggml-org/llama.cpp:tools/server/utils.hpp (std::runtime_error becomes a 500)",
    ),
    CauseRow(
        id="dashscope.inspection_said",
        gives=_REJECTED,
        reason="content_filter",
        says=_said(r"\bDataInspectionFailed\b"),
        source=_QWEN + " (a coined name, quoted inside a gateway's sentence)",
    ),
    CauseRow(
        id="ollama.image",
        gives=_REJECTED,
        reason="malformed",
        says=_said(
            r"(?:failed to (?:process|load|decode)|invalid|unable to (?:load|decode)"
            r"|bad)[^\n]{0,30}\bimages?\b|"
            r"\bimage: unknown format\b|\bunknown image format\b"
        ),
        on=_SERVER,
        source=_OLLAMA + " (500 to an image it cannot decode); " + _LLAMACPP,
    ),
    CauseRow(
        id="llamacpp.unsupported_said",
        gives=_REJECTED,
        reason="unsupported",
        says=_said(
            r"\b(?:is|are) not supported\b|does(?: not|n't) support\b|"
            r"requires --\w|start it with|--jinja|not implemented"
        ),
        on=_told(500, 501),
        source=_LLAMACPP + " (the server was started without it)",
    ),
)

_BROAD: Final = (
    CauseRow(
        id="vertex.stated_429",
        gives=_RATE,
        on=_told(429),
        http=_SERVER,
        source="cloud.google.com/vertex-ai: a 5xx whose body states 429",
    ),
    CauseRow(
        id="any.rate_limit_name",
        gives=_RATE,
        names=_named(
            "rate_limit_error rate_limit_exceeded rate_limit too_many_requests"
            " too_many_requests_error ratelimiterror resource_exhausted"
        ),
        on=_told(400, 424, 429) | _UNSAID | _SERVER,
        source=_ANTHROPIC + "; " + _OPENAI_CODES + "; google/rpc/code.proto (8)",
    ),
    CauseRow(
        id="any.rate_limit_said",
        gives=_RATE,
        says=_said(
            r"\brate[- ]limit(?:ed)?\b[^\n]{0,40}(?:reached|exceeded|upstream)|"
            r"\btoo many requests\b|exceeded[^\n]{0,30}\brate limit\b"
        ),
        on=_told(400, 429) | _UNSAID,
        source=_OPENROUTER + " (inside a 200); " + _MISTRAL,
    ),
    CauseRow(
        id="any.auth_name",
        gives=_AUTH,
        names=_named(
            "permission_error permission_denied permissiondenied accessdeniedexception"
            " accessdenied access_denied authenticationerror unauthorized"
            " permission_denied_error invalid_authentication forbidden"
        ),
        on=_told(400, 401, 403) | _UNSAID | _SERVER,
        source=_ANTHROPIC + "; google/rpc/code.proto (7); " + _BOTOCORE,
    ),
    CauseRow(
        id="minimax.parameters",
        gives=_REJECTED,
        reason="malformed",
        names=_named("base_resp.2013 base_resp.1042"),
        source=_MINIMAX,
    ),
    CauseRow(
        id="zhipu.parameters",
        gives=_REJECTED,
        reason="malformed",
        upstreams=_ZHIPU,
        names=_named("1210 1212 1213 1214 1215"),
        source=_ZAI,
    ),
    CauseRow(
        id="any.rejected_name",
        gives=_REJECTED,
        names=_named(
            "invalid_request_error invalid_request validationexception invalid_argument"
            " failed_precondition badrequesterror bad_request invalidparameter"
            " invalid_parameter unprocessable out_of_range invalid_params"
        ),
        on=_BAD | _SERVER,
        source=_ANTHROPIC + "; google/rpc/code.proto (3, 9, 11); " + _BOTOCORE + "; " + _VLLM,
    ),
    CauseRow(
        id="any.not_found_name",
        gives=_REJECTED,
        reason="wrong_endpoint",
        names=_named("not_found_error not_found notfounderror resourcenotfoundexception"),
        on=_told(400, 404) | _UNSAID | _SERVER,
        source=_ANTHROPIC + "; google/rpc/code.proto (5): what was not found is no model",
    ),
    CauseRow(
        id="any.timeout_broad",
        gives=_PROVIDER,
        reason="timeout",
        names=_named("deadline_exceeded timeout"),
        on=_told(408) | _UNSAID | _SERVER,
        source="google/rpc/code.proto (4); " + _OPENROUTER,
    ),
    CauseRow(
        id="any.provider_name",
        gives=_PROVIDER,
        names=_named(
            "server_error api_error internal internal_error internal_server_error"
            " internalservererror unavailable service_unavailable server unmapped"
        ),
        on=_UNSAID | _SERVER,
        source=_ANTHROPIC + "; " + _OPENAI_CODES + "; google/rpc/code.proto (13, 14)",
    ),
)

_STATUSES: Final = (
    CauseRow(id="status.401", gives=_AUTH, on=_told(401), source=_HTTP),
    CauseRow(id="status.402", gives=_QUOTA, on=_told(402), source=_HTTP),
    CauseRow(id="status.403", gives=_AUTH, on=_told(403), source=_HTTP),
    CauseRow(
        id="status.404",
        gives=_REJECTED,
        reason="wrong_endpoint",
        on=_told(404),
        source="a 404 that names no model: a bad base_url must not look like a bad model",
    ),
    CauseRow(
        id="status.405",
        gives=_REJECTED,
        reason="wrong_endpoint",
        on=_told(405),
        source=_HTTP,
    ),
    CauseRow(id="status.408", gives=_PROVIDER, reason="timeout", on=_told(408), source=_HTTP),
    CauseRow(
        id="status.409",
        gives=_REJECTED,
        transient=True,
        on=_told(409),
        source="anthropic-sdk-python, openai-python _base_client.py: 409 is retried",
    ),
    CauseRow(
        id="azure.410",
        gives=_MODEL,
        reason="retired",
        upstreams=_AZURE,
        on=_told(410),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/model-retirements",
    ),
    CauseRow(id="status.413", gives=_REJECTED, reason="too_large", on=_told(413), source=_HTTP),
    CauseRow(id="status.429", gives=_RATE, on=_told(429), source=_HTTP),
    CauseRow(
        id="groq.498",
        gives=_PROVIDER,
        reason="overloaded",
        upstreams=_named("groq"),
        on=_told(498),
        source=_GROQ,
    ),
    CauseRow(id="cohere.498", gives=_AUTH, on=_told(498), source=_COHERE + " InvalidTokenError"),
    CauseRow(
        id="status.499",
        gives=_PROVIDER,
        reason="cancelled",
        on=_told(499),
        source="google/rpc/code.proto (1): an agent that reads on has cancelled nothing",
    ),
    CauseRow(
        id="status.overloaded",
        gives=_PROVIDER,
        reason="overloaded",
        on=_told(503, 529),
        source=_ANTHROPIC + "; " + _HTTP,
    ),
    CauseRow(
        id="status.timeout",
        gives=_PROVIDER,
        reason="timeout",
        on=_told(504, 522, 524),
        source=_HTTP + "; developers.cloudflare.com/support/troubleshooting/http-status-codes",
    ),
    CauseRow(id="status.5xx", gives=_PROVIDER, on=_SERVER, source=_HTTP),
    CauseRow(
        id="status.400", gives=_REJECTED, reason="malformed", on=_told(400, 422), source=_HTTP
    ),
    CauseRow(id="status.4xx", gives=_REJECTED, on=_CLIENT, source=_HTTP),
    CauseRow(
        id="in_band.unnamed",
        gives=_PROVIDER,
        reason="in_band",
        on=_UNSAID,
        source=_OPENROUTER + " (an error after a 200: processing had begun)",
    ),
)

TABLE: Final = (*_COINED, *_PHRASES, *_BROAD, *_STATUSES)
"""Every row that reads an error or a status, in the order in which they are tried."""

_NETWORK: Final = "openai-python APIConnectionError; RFC 9112 §8"

ENDINGS: Final = {
    Ending.CUT_UPSTREAM: CauseRow(
        id="ending.cut", gives=_PROVIDER, reason="truncated", source="RFC 9112 §8 incomplete"
    ),
    Ending.TIMED_OUT: CauseRow(
        id="ending.timed_out", gives=_PROVIDER, reason="timeout", source=_NETWORK
    ),
    Ending.NEVER_CONNECTED: CauseRow(
        id="ending.never_connected", gives=_PROVIDER, reason="network", source=_NETWORK
    ),
    Ending.LEFT_BY_AGENT: CauseRow(
        id="ending.stalled",
        gives=_PROVIDER,
        reason="stalled",
        source="verdicts: no byte for longer than stall_s, and the agent gave up",
    ),
}
"""What an ending without an error proves."""

FLAWS: Final = {
    Flaw.EMPTY_BODY: CauseRow(
        id="flaw.empty_body", gives=_PROVIDER, reason="empty_body", source="a 200 without a body"
    ),
    Flaw.HTML_BODY: CauseRow(
        id="flaw.html_body", gives=_PROVIDER, reason="html_body", source="a gateway's page as 200"
    ),
    Flaw.TRUNCATED: CauseRow(
        id="flaw.truncated",
        gives=_PROVIDER,
        reason="truncated",
        source="neither finish reason nor terminal event (message_stop, response.completed, …)",
    ),
}
"""What is wrong with a 200 that states no error."""

NO_ANSWER: Final = CauseRow(
    id="ending.no_answer", gives=_PROVIDER, reason="network", source=_NETWORK
)

ROWS: Final = (*TABLE, *ENDINGS.values(), *FLAWS.values(), NO_ANSWER)
"""Every row there is; each id once."""
