"""The documentation that the cause table cites, and upstreams by family."""

from __future__ import annotations

from typing import Final

from classifier.cause_table.row import names

DASHSCOPE: Final = names("qwen dashscope alibaba aliyun modelstudio")
ZHIPU: Final = names("zhipu zai z-ai bigmodel glm")
AZURE: Final = names("azure azure-openai azure-ai github")
OPENAI_CODES: Final = "developers.openai.com/api/docs/guides/error-codes"
ANTHROPIC: Final = "platform.claude.com/docs/en/api/errors"
GEMINI: Final = "ai.google.dev/gemini-api/docs/troubleshooting"
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
HTTP: Final = "RFC 9110 §15"
