"""Exceptions of model clients and harnesses, and the status that each stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from classifier.records import Ending

# Harbor's names of what its agents were answered (models/trial/error_policy.py).
HARBORS: Final[Mapping[str, int | None]] = {
    "AgentAuthenticationError": 401,
    "ApiUsageLimitError": 402,
    "ModelNotFoundError": 404,
    "ApiProviderResourceNotFoundError": 404,
    "ApiRateLimitError": 429,
    "ApiInternalServerError": 500,
    "ApiOverloadedError": 529,
    "ContextLengthExceededError": 400,
    "ApiError": None,
    "UnknownApiError": None,
    "ApiConnectionError": None,
    "ApiConnectionClosedError": None,
    "ApiResponseStalledError": None,
    "NetworkConnectionError": None,
}
# Exceptions of model clients and the status they stand for; None: no answer came.
# openai, anthropic: _exceptions.py; litellm: exceptions.py; botocore: error codes; google-genai.
CLIENT_ERRORS: Final[Mapping[str, int | None]] = {
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "RateLimitError": 429,
    "BadRequestError": 400,
    "ProviderRejectedRequest": 400,  # truezero/integrations/harbor.py
    "UnprocessableEntityError": 422,
    "ContextWindowExceededError": 400,
    "ContentPolicyViolationError": 400,
    "UnsupportedParamsError": 400,
    "InternalServerError": 500,
    "BadGatewayError": 502,
    "ServiceUnavailableError": 503,
    "OverloadedError": 529,
    "DeadlineExceededError": 504,
    "BudgetExceededError": 402,
    "APIConnectionError": None,
    "APITimeoutError": None,
    "APIStatusError": None,
    "APIError": None,
    "APIResponseValidationError": None,
    "ProviderError": None,  # verifiers, v1/errors.py
    "ThrottlingException": 429,
    "AccessDeniedException": 403,
    "ModelTimeoutException": 408,
    "ServiceQuotaExceededException": 429,
    "ResourceExhausted": 429,
    **HARBORS,
}
# Common names that mean a client's error only inside a client's package.
_PACKAGED: Final[Mapping[str, int | None]] = {
    "NotFoundError": 404,
    "ConflictError": 409,
    "Timeout": None,
    "ClientError": None,
    "ServerError": None,
}
STATUSES: Final[Mapping[str, int | None]] = {**_PACKAGED, **CLIENT_ERRORS}
# No answer came: why, by the exception.
SILENT: Final[Mapping[str, Ending]] = {
    "APIConnectionError": Ending.NEVER_CONNECTED,
    "ApiConnectionError": Ending.NEVER_CONNECTED,
    "NetworkConnectionError": Ending.NEVER_CONNECTED,
    "ApiConnectionClosedError": Ending.CUT_UPSTREAM,
    "APITimeoutError": Ending.TIMED_OUT,
    "ApiResponseStalledError": Ending.TIMED_OUT,
    "Timeout": Ending.TIMED_OUT,
}
# What a class says beside its status, as the code that a provider coined for it.
MEANINGS: Final[Mapping[str, str]] = {
    "ContentPolicyViolationError": "content_policy_violation",
    "ContextWindowExceededError": "context_length_exceeded",
    "ContextLengthExceededError": "context_length_exceeded",
    "ApiUsageLimitError": "insufficient_quota",
}
# Raised for an error event inside a stream that began with HTTP 200: openai/_streaming.py and
# anthropic/_streaming.py; one with another status names it.
IN_BAND: Final = frozenset(("APIError", "APIStatusError"))
LITELLM: Final = re.compile(r"\blitellm\.")  # whose APIError is any
# How OpenHands names what its model answered (openhands/runtime/runtime_status.py).
COINED: Final[Mapping[str, int]] = {
    "STATUS$ERROR_LLM_AUTHENTICATION": 401,
    "STATUS$ERROR_LLM_OUT_OF_CREDITS": 402,
    "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE": 503,
    "STATUS$ERROR_LLM_INTERNAL_SERVER_ERROR": 500,
    "STATUS$ERROR_LLM_CONTENT_POLICY_VIOLATION": 400,
}
PACKAGE: Final = re.compile(
    r"\b(?:openai|anthropic|litellm|google\.genai|google\.api_core|botocore|cohere|mistralai|groq|"
    r"together|huggingface_hub|ollama)\."
)
_CLASS: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w+)(?=[:(]|$)")


def client_error(kind: str | None, text: str) -> str | None:
    """Return the name of the client's exception that a text, or its type ``kind``, holds."""
    packaged = bool(PACKAGE.search(f"{kind or ''} {text}"))
    known = STATUSES if packaged else CLIENT_ERRORS
    names = [(kind or "").rpartition(".")[2], *(found[1] for found in _CLASS.finditer(text))]
    return next((name for name in names if name in known), None)
