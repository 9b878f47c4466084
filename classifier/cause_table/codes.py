"""Causes by names that a provider defined: codes, types, reasons, exceptions."""

from __future__ import annotations

from typing import Final

from classifier.cause_table.row import (
    AUTH,
    MODEL,
    NO_STATUS,
    NOT_SERVER,
    PER_DAY,
    PROVIDER,
    QUOTA,
    RATE,
    REJECTED,
    CauseRow,
    names,
    pattern,
    statuses,
)
from classifier.cause_table.sources import (
    ANTHROPIC,
    AZURE_DOC,
    BEDROCK,
    BOTOCORE,
    CEREBRAS,
    CLOUDFLARE,
    DASHSCOPE,
    GEMINI_LIMITS,
    GOOGLE_REASONS,
    GROQ,
    LITELLM,
    LLAMACPP,
    MINIMAX,
    MISTRAL,
    MOONSHOT,
    OPENAI_CODES,
    OPENROUTER,
    QWEN,
    XAI,
    ZAI,
    ZHIPU,
)

COINED: Final = (
    # -- money, plan, allotment: a provider's own names for it -----------------------------
    CauseRow(
        id="dashscope.tokens_per_minute",
        gives=RATE,
        upstreams=DASHSCOPE,
        names=names("insufficient_quota throttling.allocationquota"),
        source=QWEN + " (429: TPM reached, in spite of its name; recovers within a minute)",
    ),
    CauseRow(
        id="openai.insufficient_quota",
        gives=QUOTA,
        names=names("insufficient_quota"),
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="openai.spend_limit",
        gives=QUOTA,
        reason="spend_limit",
        names=names(
            "credit_balance_exhausted organization_spend_limit_exceeded"
            " project_spend_limit_exceeded organization_usage_limit_exceeded"
            " billing_hard_limit_reached billing_not_active"
        ),
        source="help.openai.com/en/articles/6614457",
    ),
    CauseRow(
        id="openai.plan_usage_limit",
        gives=QUOTA,
        reason="plan",
        names=names("usage_limit_reached usage_not_included"),
        source="openai/codex:codex-rs/core/src/error.rs (ChatGPT plan windows)",
    ),
    CauseRow(
        id="anthropic.enforced_spend_limit",
        gives=QUOTA,
        reason="spend_limit",
        names=names("enforced_spend_limit_reached"),
        source=ANTHROPIC + " (429 rate_limit_error, no retry-after)",
    ),
    CauseRow(
        id="anthropic.billing_error",
        gives=QUOTA,
        names=names("billing_error"),
        source=ANTHROPIC,
    ),
    CauseRow(
        id="openrouter.in_flight_budget",
        gives=QUOTA,
        reason="in_flight",
        transient=True,
        names=names("openrouter_in_flight_budget in_flight_budget_exhausted"),
        source=OPENROUTER + " (402 with Retry-After: wait and retry)",
    ),
    CauseRow(
        id="openrouter.payment_required",
        gives=QUOTA,
        names=names("payment_required"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="google.billing_disabled",
        gives=QUOTA,
        names=names("billing_disabled"),
        source=GOOGLE_REASONS,
    ),
    CauseRow(
        id="bedrock.service_quota",
        gives=QUOTA,
        names=names("servicequotaexceededexception"),
        source=BOTOCORE,
    ),
    CauseRow(
        id="bedrock.tokens_per_day",
        gives=QUOTA,
        reason="daily",
        names=names("throttlingexception"),
        says=pattern(r"too many tokens per day"),
        source=BEDROCK,
    ),
    CauseRow(
        id="moonshot.exceeded_quota",
        gives=QUOTA,
        names=names("exceeded_current_quota_error"),
        source=MOONSHOT,
    ),
    CauseRow(
        id="groq.blocked_api_access",
        gives=QUOTA,
        reason="spend_limit",
        names=names("blocked_api_access"),
        source="console.groq.com/docs/spend-limits",
    ),
    CauseRow(
        id="xai.spending_limit",
        gives=QUOTA,
        reason="spend_limit",
        names=names("personal-team-blocked:spending-limit"),
        source=XAI,
    ),
    CauseRow(
        id="dashscope.arrearage",
        gives=QUOTA,
        names=names("arrearage allocationquota.freetieronly"),
        source=QWEN,
    ),
    CauseRow(
        id="together.credit_limit",
        gives=QUOTA,
        names=names(
            "credit_limit insufficient_balance insufficient_credits insufficient_credit"
            " not_enough_balance insufficient_funds"
        ),
        source="docs.together.ai/docs/error-codes; docs.novita.ai, docs.zenmux.ai error codes",
    ),
    CauseRow(
        id="litellm.budget",
        gives=QUOTA,
        names=names("budget_exceeded"),
        source=LITELLM + " BudgetExceededError (HTTP 400)",
    ),
    CauseRow(
        id="minimax.balance",
        gives=QUOTA,
        names=names("base_resp.1008 base_resp.2056"),
        source=MINIMAX,
    ),
    CauseRow(
        id="cloudflare.daily_neurons",
        gives=QUOTA,
        reason="daily",
        names=names("errors.3036"),
        source=CLOUDFLARE,
    ),
    CauseRow(
        id="zhipu.arrears",
        gives=QUOTA,
        upstreams=ZHIPU,
        names=names("1113 1304 1308 1309 1310"),
        source=ZAI,
    ),
    CauseRow(
        id="google.daily_limit",
        gives=QUOTA,
        reason="daily",
        names=names("dailylimitexceeded"),
        source="cloud.google.com/apis/design/errors (legacy reasons)",
    ),
    CauseRow(
        id="gemini.zero_limit",
        gives=QUOTA,
        reason="plan",
        names=names("quota_limit_value.0"),
        source=GEMINI_LIMITS + " (a limit of 0: the plan has none, waiting never helps)",
    ),
    CauseRow(
        id="gemini.per_day_quota",
        gives=QUOTA,
        reason="daily",
        reasons=pattern(r"per_?(?:day|week|month)|daily|\A1/d/"),
        source=GEMINI_LIMITS + " (quotaId …PerDay…; the message may still say: retry in 15s)",
    ),
    # -- a short window ----------------------------------------------------------------------
    CauseRow(
        id="gemini.capacity_exhausted",
        gives=PROVIDER,
        reason="overloaded",
        names=names("model_capacity_exhausted"),
        source="google-gemini/gemini-cli:packages/core/src/utils/googleQuotaErrors.ts",
    ),
    CauseRow(
        id="moonshot.engine_overloaded",
        gives=PROVIDER,
        reason="overloaded",
        names=names("engine_overloaded_error"),
        source=MOONSHOT + " (429)",
    ),
    CauseRow(
        id="any.request_over_minute_allowance",
        gives=REJECTED,
        reason="too_large",
        names=names("rate_limit_exceeded tokens"),
        says=pattern(r"\brequest too large\b"),
        source=GROQ + " (413; OpenAI the same with 429: this request alone exceeds the limit)",
    ),
    CauseRow(
        id="any.per_day",
        gives=QUOTA,
        reason="daily",
        says=pattern(PER_DAY),
        on=statuses(413, 429) | NO_STATUS,
        source="console.groq.com/docs/rate-limits (TPD, RPD); " + CEREBRAS,
    ),
    CauseRow(
        id="groq.request_over_limit",
        gives=REJECTED,
        reason="too_large",
        names=names("rate_limit_exceeded"),
        on=statuses(413),
        source=GROQ,
    ),
    CauseRow(
        id="gemini.zero_limit_said",
        gives=QUOTA,
        reason="plan",
        says=pattern(r"\blimit: 0(?![\d.,]\d|\d)"),
        on=statuses(429) | NO_STATUS,
        source=GEMINI_LIMITS,
    ),
    CauseRow(
        id="gemini.credits_depleted",
        gives=QUOTA,
        says=pattern(r"prepayment credits are depleted|\bspending cap\b"),
        on=NOT_SERVER,
        source="ai.google.dev/gemini-api/docs/billing",
    ),
    CauseRow(
        id="gemini.per_minute_quota",
        gives=RATE,
        reasons=pattern(r"per_?(?:minute|second|hour)|\A1/min/"),
        source=GEMINI_LIMITS,
    ),
    CauseRow(
        id="google.rate_limit_reason",
        gives=RATE,
        names=names("ratelimitexceeded userratelimitexceeded"),
        source="cloud.google.com/apis/design/errors (legacy reasons)",
    ),
    CauseRow(
        id="openai.slow_down",
        gives=RATE,
        names=names("slow_down"),
        source=OPENAI_CODES + " (503 or 429: a sudden rise in request rate)",
    ),
    CauseRow(
        id="openai.tpm_type",
        gives=RATE,
        names=names("requests tokens"),
        on=statuses(429) | NO_STATUS,
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="bedrock.throttling",
        gives=RATE,
        names=names("throttlingexception toomanyrequestsexception"),
        source=BOTOCORE,
    ),
    CauseRow(
        id="bedrock.model_not_ready",
        gives=RATE,
        names=names("modelnotreadyexception"),
        source=BOTOCORE + " (429: the SDK retries it)",
    ),
    CauseRow(
        id="moonshot.rate_limit_reached",
        gives=RATE,
        names=names("rate_limit_reached_error"),
        source=MOONSHOT,
    ),
    CauseRow(
        id="mistral.rate_limited",
        gives=RATE,
        names=names("rate_limited service_tier_capacity_exceeded"),
        source=MISTRAL,
    ),
    CauseRow(
        id="azure.rate_limit_reached",
        gives=RATE,
        names=names("ratelimitreached"),
        source="docs.github.com/github-models (by minute; by day is any.per_day)",
    ),
    CauseRow(
        id="cerebras.window",
        gives=RATE,
        names=names("token_quota_exceeded request_quota_exceeded queue_exceeded"),
        source=CEREBRAS + " (one code for minute and day; the day is any.per_day)",
    ),
    CauseRow(
        id="dashscope.throttling",
        gives=RATE,
        names=names(
            "throttling throttling.ratequota throttling.burstrate throttling.user"
            " throttling.allocationquota limit_requests limit_burst_rate"
        ),
        source=QWEN,
    ),
    CauseRow(
        id="minimax.rate",
        gives=RATE,
        names=names("base_resp.1002 base_resp.1039 base_resp.1041 base_resp.2045"),
        source=MINIMAX,
    ),
    CauseRow(
        id="zhipu.rate",
        gives=RATE,
        upstreams=ZHIPU,
        names=names("1302 1303 1305"),
        source=ZAI,
    ),
    # -- the key, the account, the region ------------------------------------------------------
    CauseRow(
        id="openai.region",
        gives=AUTH,
        reason="region",
        names=names("unsupported_country_region_territory"),
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="openai.key",
        gives=AUTH,
        names=names(
            "invalid_api_key invalid_organization mismatched_organization"
            " mismatched_project ip_not_authorized missing_api_key no_api_key"
        ),
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="openai.account_closed",
        gives=AUTH,
        names=names("access_terminated account_deactivated"),
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="anthropic.authentication",
        gives=AUTH,
        names=names("authentication_error"),
        source=ANTHROPIC,
    ),
    CauseRow(
        id="google.key",
        gives=AUTH,
        reasons=pattern(r"\Aapi_key_|\Aunauthenticated\Z|\Aaccess_token_|\Acredentials_missing\Z"),
        source=GOOGLE_REASONS,
    ),
    CauseRow(
        id="google.project",
        gives=AUTH,
        names=names(
            "iam_permission_denied service_disabled consumer_suspended consumer_invalid"
            " security_policy_violated"
        ),
        source=GOOGLE_REASONS,
    ),
    CauseRow(
        id="bedrock.signature",
        gives=AUTH,
        names=names(
            "unrecognizedclientexception invalidsignatureexception"
            " expiredtokenexception incompletesignatureexception"
            " missingauthenticationtokenexception notauthorized requestexpired"
            " incompletesignature optinrequired invalidclienttokenid"
        ),
        source=BEDROCK,
    ),
    CauseRow(
        id="groq.organization_restricted",
        gives=AUTH,
        names=names("organization_restricted"),
        source=GROQ,
    ),
    CauseRow(
        id="moonshot.key",
        gives=AUTH,
        names=names("invalid_authentication_error incorrect_api_key_error"),
        source=MOONSHOT,
    ),
    CauseRow(
        id="dashscope.key",
        gives=AUTH,
        names=names("invalidapikey accessdenied.unpurchased"),
        source=QWEN,
    ),
    CauseRow(
        id="openrouter.key",
        gives=AUTH,
        names=names("authentication"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="minimax.key",
        gives=AUTH,
        names=names("base_resp.1004 base_resp.2049"),
        source=MINIMAX,
    ),
    CauseRow(
        id="cloudflare.key",
        gives=AUTH,
        names=names("errors.10000 errors.10001 errors.9109 errors.3023"),
        source=CLOUDFLARE,
    ),
    CauseRow(
        id="zhipu.key",
        gives=AUTH,
        upstreams=ZHIPU,
        names=names("1000 1001 1002 1003 1004 1110 1111 1112 1121 1220"),
        source=ZAI,
    ),
    # -- the model -----------------------------------------------------------------------------
    CauseRow(
        id="openai.model_not_found",
        gives=MODEL,
        names=names("model_not_found"),
        source=OPENAI_CODES + " (chat 404, responses 400, project without access 403)",
    ),
    CauseRow(
        id="groq.model",
        gives=MODEL,
        names=names(
            "model_decommissioned model_terms_required model_permission_blocked_org"
            " model_permission_blocked_project"
        ),
        source=GROQ,
    ),
    CauseRow(
        id="mistral.model",
        gives=MODEL,
        names=names("unknown_model invalid_model"),
        source=MISTRAL,
    ),
    CauseRow(
        id="azure.deployment",
        gives=MODEL,
        names=names("deploymentnotfound unavailable_model modelnotfound"),
        source=AZURE_DOC,
    ),
    CauseRow(
        id="azure.model_retired",
        gives=MODEL,
        reason="retired",
        names=names("servicemodeldeprecating servicemodeldeprecated"),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/model-retirements",
    ),
    CauseRow(
        id="dashscope.model",
        gives=MODEL,
        names=names("model.accessdenied model_not_supported model_not_available"),
        source=QWEN + "; huggingface.co/docs/inference-providers",
    ),
    CauseRow(
        id="minimax.model",
        gives=MODEL,
        names=names("base_resp.2061"),
        source=MINIMAX,
    ),
    CauseRow(
        id="cloudflare.model",
        gives=MODEL,
        names=names("errors.5007 errors.3042 errors.5018 errors.5016 errors.3041"),
        source=CLOUDFLARE,
    ),
    CauseRow(
        id="zhipu.model",
        gives=MODEL,
        upstreams=ZHIPU,
        names=names("1211 1221 1222 1311"),
        source=ZAI,
    ),
    # -- this request --------------------------------------------------------------------------
    CauseRow(
        id="any.context_length",
        gives=REJECTED,
        reason="context_length",
        names=names(
            "context_length_exceeded exceed_context_size_error string_above_max_length"
            " contextwindowexceedederror tokens_too_long tokens_limit_reached"
        ),
        source=OPENAI_CODES + "; " + LLAMACPP + "; " + LITELLM,
    ),
    CauseRow(
        id="openrouter.token_cap",
        gives=REJECTED,
        reason="too_large",
        names=names("token_limit_exceeded max_tokens_exceeded string_too_long payload_too_large"),
        on=statuses(400, 413) | NO_STATUS,
        source=OPENROUTER,
    ),
    CauseRow(
        id="anthropic.request_too_large",
        gives=REJECTED,
        reason="too_large",
        names=names("request_too_large"),
        source=ANTHROPIC,
    ),
    CauseRow(
        id="any.content_filter",
        gives=REJECTED,
        reason="content_filter",
        names=names(
            "content_filter content_policy_violation responsibleaipolicyviolation"
            " datainspectionfailed data_inspection_failed moderation bio_policy"
            " image_content_policy_violation"
        ),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/content-filter; "
        + OPENROUTER
        + "; "
        + QWEN,
    ),
    CauseRow(
        id="minimax.content",
        gives=REJECTED,
        reason="content_filter",
        names=names("base_resp.1026 base_resp.1027"),
        source=MINIMAX,
    ),
    CauseRow(
        id="zhipu.content",
        gives=REJECTED,
        reason="content_filter",
        upstreams=ZHIPU,
        names=names("1301"),
        source=ZAI,
    ),
    CauseRow(
        id="zhipu.context_length",
        gives=REJECTED,
        reason="context_length",
        upstreams=ZHIPU,
        names=names("1261"),
        source=ZAI,
    ),
    CauseRow(
        id="openai.invalid_prompt",
        gives=REJECTED,
        names=names("invalid_prompt invalid_encrypted_content data_residency_mismatch"),
        source="openai/openai-python:src/openai/types/responses/response_error.py",
    ),
    CauseRow(
        id="openai.image",
        gives=REJECTED,
        reason="malformed",
        names=names(
            "invalid_image invalid_image_format invalid_base64_image invalid_image_url"
            " image_too_large image_too_small image_parse_error invalid_image_mode"
            " image_file_too_large unsupported_image_media_type empty_image_file"
            " failed_to_download_image image_file_not_found unsupported_image_format"
            " image_not_found image_download_failed"
        ),
        source="openai/openai-python:src/openai/types/responses/response_error.py; " + OPENROUTER,
    ),
    CauseRow(
        id="openai.previous_response",
        gives=REJECTED,
        reason="malformed",
        params=names("previous_response_id"),
        source=OPENAI_CODES + " (404: the response, not the model)",
    ),
    CauseRow(
        id="any.unsupported",
        gives=REJECTED,
        reason="unsupported",
        names=names(
            "unsupported_parameter unsupported_value not_supported_error"
            " unsupported_api_for_model operationnotsupported"
        ),
        source=OPENAI_CODES + "; " + LLAMACPP + " (501)",
    ),
    CauseRow(
        id="anthropic.conflict",
        gives=REJECTED,
        transient=True,
        names=names("conflict_error conflictexception"),
        source=ANTHROPIC + " (409: the SDK retries it)",
    ),
    # -- the provider --------------------------------------------------------------------------
    CauseRow(
        id="anthropic.overloaded",
        gives=PROVIDER,
        reason="overloaded",
        names=names("overloaded_error"),
        source=ANTHROPIC + " (529, or inside a 200 stream)",
    ),
    CauseRow(
        id="openai.overloaded",
        gives=PROVIDER,
        reason="overloaded",
        names=names("server_is_overloaded service_unavailable_error overloaded"),
        source=OPENAI_CODES + "; huggingface/text-generation-inference error_type (429)",
    ),
    CauseRow(
        id="bedrock.provider",
        gives=PROVIDER,
        names=names(
            "internalserverexception serviceunavailableexception modelerrorexception"
            " modelstreamerrorexception internalfailure"
        ),
        source=BOTOCORE,
    ),
    CauseRow(
        id="bedrock.model_timeout",
        gives=PROVIDER,
        reason="timeout",
        names=names("modeltimeoutexception"),
        source=BOTOCORE + " (408)",
    ),
    CauseRow(
        id="groq.capacity_exceeded",
        gives=PROVIDER,
        reason="overloaded",
        names=names("capacity_exceeded"),
        source=GROQ + " (498, flex tier)",
    ),
    CauseRow(
        id="openrouter.provider",
        gives=PROVIDER,
        names=names("provider_overloaded provider_unavailable"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="any.timeout_name",
        gives=PROVIDER,
        reason="timeout",
        names=names("timeout_error vector_store_timeout finish_reason.timeout"),
        source=ANTHROPIC + " (504); openai-python response_error.py; docs.cohere.com/v2 chat",
    ),
    CauseRow(
        id="cloudflare.capacity",
        gives=PROVIDER,
        reason="overloaded",
        names=names("errors.3040 errors.3007 errors.3008"),
        source=CLOUDFLARE,
    ),
    CauseRow(
        id="minimax.provider",
        gives=PROVIDER,
        names=names("base_resp.1000 base_resp.1001 base_resp.1013 base_resp.1024 base_resp.1033"),
        source=MINIMAX,
    ),
    CauseRow(
        id="zhipu.provider",
        gives=PROVIDER,
        upstreams=ZHIPU,
        names=names("1120 1200 1230 1234"),
        source=ZAI,
    ),
)
