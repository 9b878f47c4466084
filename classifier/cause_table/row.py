"""The type of the cause table's rows, and the words and sources that rows are built from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from classifier.verdicts import Subcategory

AUTH = Subcategory.AUTH
QUOTA = Subcategory.QUOTA
MODEL = Subcategory.MODEL_NOT_FOUND
RATE = Subcategory.RATE_LIMIT
PROVIDER = Subcategory.PROVIDER_ERROR
REJECTED = Subcategory.REJECTED_REQUEST
Statuses = frozenset[int | None]


def statuses(*codes: int) -> Statuses:
    """Make a set of status codes."""
    return frozenset(codes)


CLIENT: Final[Statuses] = frozenset(range(400, 500))
SERVER: Final[Statuses] = frozenset(range(500, 1000))
NO_STATUS: Final[Statuses] = frozenset((None,))  # inside a 200, with no status of its own
NOT_SERVER: Final = CLIENT | NO_STATUS
BAD_REQUEST: Final = statuses(400, 422) | NO_STATUS


def names(words: str) -> frozenset[str]:
    """Make a set of lower-case names from words separated by blanks."""
    return frozenset(words.lower().split())


def pattern(clause: str) -> re.Pattern[str]:
    """Compile a clause to search for, ignoring case."""
    return re.compile(clause, re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One fact about a provider: an error that it sends, and what that means.

    All conditions that are given must hold. ``names`` are compared in lower case with the
    error's code, type and reasons and with the stated exception; ``reasons`` is searched in
    its reasons, ``says`` in its message, ``params`` in its ``param``. ``on`` are the statuses
    it may come with (None: inside a 200 that states none), as the body states it where a
    gateway flattened it; ``http`` is the status line alone. ``source`` is where the fact is
    documented.
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


# --- sources ---
#
# Documentation that rows cite, and upstreams by family.


DASHSCOPE: Final = names("qwen dashscope alibaba aliyun modelstudio")
ZHIPU: Final = names("zhipu zai z-ai bigmodel glm")
AZURE: Final = names("azure azure-openai azure-ai github")
OPENAI_CODES: Final = "developers.openai.com/api/docs/guides/error-codes"
ANTHROPIC: Final = "platform.claude.com/docs/en/api/errors"
GEMINI: Final = "ai.google.dev/gemini-api/docs/troubleshooting"
GEMINI_ERRORS: Final = "ai.google.dev/gemini-api/docs/api-errors"
GEMINI_LIMITS: Final = "ai.google.dev/gemini-api/docs/rate-limits"
GOOGLE_REASONS: Final = "googleapis:google/api/error_reason.proto"
AZURE_DOC: Final = "learn.microsoft.com/azure/ai-services/openai/quotas-limits"
BEDROCK: Final = "docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes"
BOTOCORE: Final = "boto/botocore:botocore/data/bedrock-runtime/2023-09-30/service-2.json"
OPENROUTER: Final = "openrouter.ai/docs/api/reference/errors-and-debugging"
GROQ: Final = "console.groq.com/docs/errors"
MISTRAL: Final = "docs.mistral.ai/api"
COHERE: Final = "cohere-ai/cohere-python:src/cohere/errors"
QWEN: Final = "help.aliyun.com/en/model-studio/error-code"
ZAI: Final = "docs.z.ai/api-reference/api-code"
MINIMAX: Final = "platform.minimax.io/docs/api-reference/errorcode"
CLOUDFLARE: Final = "developers.cloudflare.com/workers-ai/platform/errors"
CEREBRAS: Final = "inference-docs.cerebras.ai/support/error"
LLAMACPP: Final = "ggml-org/llama.cpp:tools/server/utils.hpp format_error_response"
VLLM: Final = "vllm-project/vllm:vllm/entrypoints/openai/serving_engine.py"
LITELLM: Final = "BerriAI/litellm:litellm/exceptions.py"
XAI: Final = "docs.x.ai/docs/key-information/debugging"
STATE: Final = "developers.openai.com/api/docs/guides/conversation-state"
SIGNATURES: Final = "ai.google.dev/gemini-api/docs/thought-signatures"
THINKING: Final = "platform.claude.com/docs/en/build-with-claude/extended-thinking"
THINKING_MODE: Final = "api-docs.deepseek.com/guides/thinking_mode"
TOOL_RESULTS: Final = (
    "platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls;"
    " ai.google.dev/gemini-api/docs/function-calling"
)
HARBOR: Final = "harbor 0.26.0: harbor/server/relay.py"
HTTP: Final = "RFC 9110 §15"
