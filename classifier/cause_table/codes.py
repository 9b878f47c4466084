"""Causes by names that a provider defined: codes, types, reasons, exceptions."""

from __future__ import annotations

from typing import Final

from classifier.cause_table.row import (
    ANTHROPIC,
    AUTH,
    BAD_REQUEST,
    BEDROCK,
    BOTOCORE,
    CLOUDFLARE,
    DASHSCOPE,
    GEMINI_ERRORS,
    GEMINI_LIMITS,
    GOOGLE_REASONS,
    GROQ,
    HARBOR,
    LITELLM,
    LLAMACPP,
    MINIMAX,
    MODEL,
    NO_STATUS,
    OPENAI_CODES,
    OPENROUTER,
    PROVIDER,
    QUOTA,
    QWEN,
    RATE,
    REJECTED,
    STATE,
    XAI,
    ZAI,
    ZHIPU,
    CauseRow,
    names,
    pattern,
    statuses,
)
from classifier.records import HARNESS_BUDGET, HARNESS_REFUSAL

COINED: Final = (
    # -- a harness's own refusals: limits of the operator's, of which no provider knows ----------
    CauseRow(
        id="harness.budget",
        gives=REJECTED,
        reason=HARNESS_BUDGET,
        names=names("session_budget_exhausted"),
        source="gateways of reinforcement learning: the turns of a session (429)",
    ),
    CauseRow(
        id="harness.budget_said",
        gives=REJECTED,
        reason=HARNESS_BUDGET,
        says=pattern(r"\bsession_budget_exhausted\b|\bturn budget\b"),
        on=statuses(403, 410, 429),
        source="the same, in a sentence",
    ),
    CauseRow(
        id="harbor.rollout_closed",
        gives=REJECTED,
        reason=HARNESS_REFUSAL,
        names=names("rollout_closed"),
        source=HARBOR + " (410: the rollout accepts no more inference)",
    ),
    CauseRow(
        id="harbor.rollout_token",
        gives=REJECTED,
        reason=HARNESS_REFUSAL,
        names=names("unauthorized"),
        says=pattern(r"\brollout token\b"),
        on=statuses(401),
        source=HARBOR + " (of a rollout that is over)",
    ),
    CauseRow(
        id="harbor.relay",
        gives=REJECTED,
        reason=HARNESS_REFUSAL,
        transient=True,
        names=names("connection_wait connection_timeout buffer_limit invalid_sequence"),
        on=statuses(429, 502, 503, 504),
        source=HARBOR,
    ),
    CauseRow(
        id="harbor.disconnected",
        gives=REJECTED,
        reason=HARNESS_REFUSAL,
        transient=True,
        names=names("disconnected"),
        on=statuses(503),
        source=HARBOR + " (the training side's connection closed)",
    ),
    # These names are others' too; the relay's sentences are not.
    CauseRow(
        id="harbor.relay_said",
        gives=REJECTED,
        reason=HARNESS_REFUSAL,
        transient=True,
        names=names("overloaded unavailable cancelled request_timeout invalid_body"),
        says=pattern(
            r"\btraining-side\b|\bpending inference requests?\b|\brequest buffering limit\b"
            r"|\binference (?:request was cancelled|forwarding timed out)|\Atoo many connections\b"
            r"|\binvalid base64 response body\b"
        ),
        on=statuses(410, 429, 502, 503, 504),
        source=HARBOR,
    ),
    # -- money, plan, allotment: a provider's own names for it -----------------------------
    CauseRow(
        id="dashscope.tokens_per_minute",
        gives=RATE,
        upstreams=DASHSCOPE,
        names=names("insufficient_quota"),
        source=QWEN + " (429: TPM reached, in spite of its name; recovers within a minute)",
    ),
    CauseRow(
        id="openai.insufficient_quota",
        gives=QUOTA,
        names=names("insufficient_quota"),
        source=OPENAI_CODES,
    ),
    CauseRow(
        id="moonshot.exceeded_quota",
        gives=QUOTA,
        names=names("exceeded_current_quota_error"),
        source="platform.moonshot.ai/docs/api/chat#error-codes",
    ),
    CauseRow(
        id="bedrock.service_quota",
        gives=QUOTA,
        names=names("servicequotaexceededexception"),
        source=BOTOCORE,
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
        id="openrouter.in_flight_budget",
        gives=QUOTA,
        reason="in_flight",
        transient=True,
        names=names("openrouter_in_flight_budget in_flight_budget_exhausted"),
        source=OPENROUTER + " (402 with Retry-After: wait and retry)",
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
        names=names("credit_limit"),
        source="docs.together.ai/docs/error-codes",
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
        id="apigee.spike_arrest",
        gives=RATE,
        names=names("policies.ratelimit.spikearrestviolation"),
        source="docs.cloud.google.com/apigee/docs/api-platform/reference/policies/spike-arrest-policy",
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
        id="groq.request_over_limit",
        gives=REJECTED,
        reason="too_large",
        names=names("rate_limit_exceeded"),
        on=statuses(413),
        source=GROQ,
    ),
    CauseRow(
        id="openai.slow_down",
        gives=RATE,
        names=names("slow_down"),
        source=OPENAI_CODES + " (503 or 429: a sudden rise in request rate)",
    ),
    CauseRow(
        id="bedrock.model_not_ready",
        gives=RATE,
        names=names("modelnotreadyexception"),
        source=BOTOCORE + " (429: the SDK retries it)",
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
        id="openai.key",
        gives=AUTH,
        names=names("ip_not_authorized mismatched_organization mismatched_project"),
        source=OPENAI_CODES,
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
            " incompletesignature optinrequired invalidclienttokenid signaturedoesnotmatch"
        ),
        source=BEDROCK,
    ),
    CauseRow(
        id="oci.not_authorized",
        gives=AUTH,
        names=names("notauthorizedornotfound"),
        source="docs.oracle.com/en-us/iaas/Content/API/References/apierrors.htm (404: it does not"
        " say which; the policies of a tenancy are the usual cause)",
    ),
    CauseRow(
        id="any.clock_skew",
        gives=AUTH,
        reason="signature",
        names=names("requesttimetooskewed signaturenonceused invalidtimestamp.expired"),
        source="docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; help.aliyun.com"
        "/document_detail/315526.html",
    ),
    CauseRow(
        id="openrouter.key",
        gives=AUTH,
        names=names("authentication"),
        source="openrouter.ai/docs/client-sdks/python/components/apierrortype",
    ),
    CauseRow(
        id="oauth.client",
        gives=AUTH,
        names=names("invalid_client unauthorized_client invalid_grant"),
        source="RFC 6749 §5.2",
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
        id="groq.model",
        gives=MODEL,
        names=names(
            "model_decommissioned model_terms_required model_permission_blocked_org"
            " model_permission_blocked_project"
        ),
        source=GROQ,
    ),
    CauseRow(
        id="ark.model",
        gives=MODEL,
        names=names("invalidendpointormodel.notfound invalidendpoint.notfound modelnotopen"),
        source="volcengine.com/docs/82379/1299023",
    ),
    CauseRow(
        id="azure.model_retired",
        gives=MODEL,
        reason="retired",
        names=names("servicemodeldeprecating servicemodeldeprecated"),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/model-retirements",
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
        id="gemini.blocked",
        gives=REJECTED,
        reason="content_filter",
        names=names(
            "safety recitation language spii blocklist image_safety image_recitation image_other"
        ),
        on=BAD_REQUEST,
        source=GEMINI_ERRORS + " (generation blocked codes)",
    ),
    CauseRow(
        id="gemini.generation",
        gives=REJECTED,
        reason="malformed",
        names=names("no_image missing_thought_signature"),
        on=BAD_REQUEST,
        source=GEMINI_ERRORS + " (generation error codes: what the model wrote is at fault)",
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
        reason="content_filter",
        names=names("invalid_prompt"),
        source="openai/openai-python:src/openai/types/responses/response_error.py (policy)",
    ),
    CauseRow(
        id="openai.lost_state",
        gives=REJECTED,
        reason="lost_state",
        names=names("previous_response_not_found invalid_encrypted_content"),
        source=STATE + " (the provider has lost or never kept what the request goes on with);"
        " openai/openai-python:src/openai/types/responses/response_error.py",
    ),
    CauseRow(
        id="anthropic.thread",
        gives=REJECTED,
        reason="lost_state",
        names=names("thread_not_found thread_already_continued thread_continue_in_flight"),
        source=ANTHROPIC + " (message threads: the client sends the whole conversation again)",
    ),
    CauseRow(
        id="bedrock.unknown_operation",
        gives=REJECTED,
        reason="wrong_endpoint",
        names=names("unknownoperationexception"),
        source="docs.aws.amazon.com/AmazonECS/latest/APIReference/CommonErrors.html",
    ),
    CauseRow(
        id="openai.data_residency",
        gives=REJECTED,
        reason="unsupported",
        names=names("data_residency_mismatch"),
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
    # -- closes of a WebSocket that answer what was sent ------------------------------------
    CauseRow(
        id="websocket.close_1003",
        gives=REJECTED,
        reason="unsupported",
        names=names("websocket_close_1003"),
        source="RFC 6455 §7.4.1 (a type of data that it cannot accept)",
    ),
    CauseRow(
        id="websocket.close_1007",
        gives=REJECTED,
        reason="malformed",
        names=names("websocket_close_1007"),
        source="RFC 6455 §7.4.1 (data that is not of the message's type)",
    ),
    CauseRow(
        id="websocket.close_1009",
        gives=REJECTED,
        reason="too_large",
        names=names("websocket_close_1009"),
        source="RFC 6455 §7.4.1 (a message that is too big for it to process)",
    ),
)
