"""The lanes that agents call: upstream, wire format, flavour, the names that models go by there."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.healthy.traffic import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A model: the name it is asked by, the one it answers by, and what serves it."""

    asked: str
    answered: str | None  # None: the answer names no model
    flags: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What makes a provider's counts of the stand-in tokenizer's.

    ``factor`` of text, ``overhead`` of each message, ``tool_factor`` of the tools' JSON;
    ``base`` stands before every prompt, ``tool_base`` before tools.
    """

    factor: float = 1.0
    overhead: int = 4
    tool_factor: float = 0.75
    base: int = 3
    tool_base: int = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One upstream as an agent uses it. ``flavour`` is its own way within the dialect."""

    key: str
    dialect: str
    upstream: str
    main: Name
    side: Name | None = None
    flavour: str = ""
    base_path: str = ""
    registered: str | None = None  # what the runner registers; None: the name that is asked for
    weights: Weights = Weights()
    reasons: bool = False
    sees: bool = True
    fallbacks: tuple[str, ...] = ()

    @property
    def text_only(self) -> bool:
        """Whether its API takes a text and no tools."""
        return self.flavour == "llama" or self.dialect == "completions"

    @property
    def is_local(self) -> bool:
        """Whether it is a small server of one's own."""
        return self.upstream in ("ollama", "llamacpp")

    @property
    def is_claude(self) -> bool:
        """Whether a model of Anthropic's serves it."""
        return self.weights is _CLAUDE


def _n(asked: str, answered: str | None = "", **flags: object) -> Name:
    return Name(asked=asked, answered=asked if answered == "" else answered, flags=dict(flags))


_CLAUDE = Weights(factor=1.13, overhead=5, tool_factor=0.95, base=6, tool_base=346)
_GEMINI = Weights(factor=1.02, overhead=2, tool_factor=0.6, base=0, tool_base=20)
_QWEN = Weights(factor=1.04, overhead=5, tool_factor=1.0, base=4, tool_base=110)
_NOVA = Weights(factor=1.08, tool_factor=0.9)
_MISTRAL = Weights(factor=1.05, base=1)
_COHERE = Weights(factor=1.05, base=60, tool_base=420)

LANES: tuple[Lane, ...] = (
    # OpenAI: an alias is answered by a dated name.
    Lane(key="openai-gpt5", dialect="chat", upstream="openai", base_path="/v1", reasons=True,
         main=_n("gpt-5", "gpt-5-2025-08-07"), side=_n("gpt-5-nano", "gpt-5-nano-2025-08-07")),
    Lane(key="openai-4o", dialect="chat", upstream="openai", base_path="/v1",
         main=_n("gpt-4o", "gpt-4o-2024-08-06", fingerprint="fp_cbf1785567"),
         side=_n("gpt-4o-mini", "gpt-4o-mini-2024-07-18", fingerprint="fp_560af6e559")),
    Lane(key="openai-dated", dialect="chat", upstream="openai", base_path="/v1",
         main=_n("gpt-4.1-2025-04-14", fingerprint="fp_daf5fcc80a"), registered="gpt-4.1"),
    Lane(key="openai-tuned", dialect="chat", upstream="openai", base_path="/v1",
         main=_n("ft:gpt-4o-mini-2024-07-18:acme::Bq3kXy1Z", fingerprint="fp_1a2b3c4d5e")),
    # Azure: the deployment's name says what its owner liked.
    Lane(key="azure-deployment", dialect="chat", upstream="azure", flavour="azure",
         base_path="/openai/deployments/prod-eu-2",
         main=_n("prod-eu-2", "gpt-4o-2024-11-20", fingerprint="fp_b705f0c291"),
         registered="prod-eu-2"),
    Lane(key="azure-registered-real", dialect="chat", upstream="azure", flavour="azure",
         base_path="/openai/deployments/team-blue",
         main=_n("team-blue", "gpt-4.1-2025-04-14", fingerprint="fp_07e970ab25"),
         registered="gpt-4.1"),
    Lane(key="azure-router", dialect="chat", upstream="azure", flavour="azure",
         base_path="/openai/deployments/model-router",
         main=_n("model-router", "gpt-5-mini-2025-08-07",
                 routes=["gpt-5-mini-2025-08-07", "gpt-4.1-nano-2025-04-14"])),
    Lane(key="azure-v1", dialect="chat", upstream="azure", flavour="azure-v1",
         base_path="/openai/v1", main=_n("gpt5-swe", "gpt-5-2025-08-07"), reasons=True),
    # OpenRouter: prefixes, suffixes and its router.
    Lane(key="openrouter-claude", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", reasons=True, weights=_CLAUDE,
         main=_n("anthropic/claude-sonnet-4.5", provider="Anthropic"),
         side=_n("google/gemini-2.5-flash-lite", provider="Google AI Studio")),
    Lane(key="openrouter-free", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", sees=False, weights=_QWEN,
         main=_n("qwen/qwen3-coder:free", provider="Chutes"), registered="qwen/qwen3-coder"),
    Lane(key="openrouter-dated", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", sees=False,
         main=_n("deepseek/deepseek-chat-v3.1", "deepseek/deepseek-chat-v3.1",
                 provider="DeepInfra")),
    Lane(key="openrouter-slug", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", reasons=True, weights=_CLAUDE,
         main=_n("anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929",
                 provider="Anthropic", others=["Amazon Bedrock", "Google"])),
    Lane(key="openrouter-openai", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", main=_n("openai/gpt-5-mini", "openai/gpt-5-mini-2025-08-07",
                                      provider="OpenAI", others=["Azure"]),
         registered="gpt-5-mini"),
    Lane(key="openrouter-auto", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", main=_n("openrouter/auto", "openai/gpt-5-mini", provider="OpenAI",
                                      routes=["openai/gpt-5-mini", "anthropic/claude-haiku-4.5",
                                              "google/gemini-2.5-flash-lite"])),
    Lane(key="openrouter-fallback", dialect="chat", upstream="openrouter", flavour="openrouter",
         base_path="/api/v1", sees=False, fallbacks=("qwen/qwen3-235b-a22b",), weights=_QWEN,
         main=_n("z-ai/glm-4.6", "qwen/qwen3-235b-a22b", provider="Novita",
                 models=["z-ai/glm-4.6", "qwen/qwen3-235b-a22b"])),
    # Servers of open weights.
    Lane(key="vllm", dialect="chat", upstream="vllm", flavour="vllm", base_path="/v1",
         main=_n("Qwen/Qwen3-32B"), reasons=True, sees=False, weights=_QWEN),
    Lane(key="vllm-think-tags", dialect="chat", upstream="vllm", flavour="vllm", base_path="/v1",
         main=_n("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", think_tags=True), sees=False,
         weights=_QWEN),
    Lane(key="vllm-served-name", dialect="chat", upstream="vllm", flavour="vllm",
         base_path="/v1", main=_n("policy"), registered=None, sees=False, weights=_QWEN),
    Lane(key="sglang", dialect="chat", upstream="sglang", flavour="sglang", base_path="/v1",
         main=_n("default"), sees=False, weights=_QWEN),
    Lane(key="llama.cpp", dialect="chat", upstream="llamacpp", flavour="llamacpp",
         base_path="/v1", main=_n("local", "qwen2.5-coder-14b-instruct-q4_k_m.gguf"),
         sees=False, weights=_QWEN),
    Lane(key="ollama-compatible", dialect="chat", upstream="ollama", flavour="ollama-v1",
         base_path="/v1", main=_n("gpt-oss:20b", fingerprint="fp_ollama"), sees=False),
    Lane(key="vllm-token-ids", dialect="chat", upstream="vllm", flavour="vllm", base_path="/v1",
         main=_n("Qwen/Qwen2.5-7B-Instruct", token_ids=True), sees=False, weights=_QWEN),
    Lane(key="vllm-completions", dialect="completions", upstream="vllm", base_path="/v1",
         main=_n("Qwen/Qwen2.5-7B"), sees=False, weights=_QWEN),
    # Gateways and other hosts.
    Lane(key="litellm-alias", dialect="chat", upstream="litellm", flavour="litellm",
         base_path="/v1", weights=_CLAUDE,
         main=_n("agent-large", "claude-sonnet-4-5-20250929"), side=_n("agent-small")),
    Lane(key="litellm-prefix", dialect="chat", upstream="litellm", flavour="litellm",
         base_path="", main=_n("openai/gpt-4.1-mini", "gpt-4.1-mini-2025-04-14")),
    Lane(key="groq", dialect="chat", upstream="groq", flavour="groq", base_path="/openai/v1",
         main=_n("openai/gpt-oss-120b", fingerprint="fp_3ba6c5e4d1"), sees=False),
    Lane(key="mistral", dialect="chat", upstream="mistral", flavour="mistral", base_path="/v1",
         main=_n("mistral-large-latest"), weights=_MISTRAL),
    Lane(key="deepseek", dialect="chat", upstream="deepseek", flavour="deepseek",
         base_path="", main=_n("deepseek-chat", fingerprint="fp_ffc7281d48_prod0820_fp8_kvcache"),
         sees=False),
    Lane(key="deepseek-reasoner", dialect="chat", upstream="deepseek", flavour="deepseek",
         base_path="/v1", reasons=True, sees=False,
         main=_n("deepseek-reasoner", fingerprint="fp_ffc7281d48_prod0820_fp8_kvcache")),
    Lane(key="together", dialect="chat", upstream="together", flavour="together",
         base_path="/v1", main=_n("meta-llama/Llama-3.3-70B-Instruct-Turbo"), sees=False),
    Lane(key="fireworks", dialect="chat", upstream="fireworks", flavour="fireworks",
         base_path="/inference/v1", main=_n("accounts/fireworks/models/kimi-k2-instruct"),
         sees=False),
    Lane(key="moonshot", dialect="chat", upstream="moonshot", flavour="moonshot",
         base_path="/v1", main=_n("kimi-k2-0905-preview"), sees=False),
    Lane(key="hf-router", dialect="chat", upstream="huggingface", flavour="hf", base_path="/v1",
         main=_n("openai/gpt-oss-120b:cerebras", "gpt-oss-120b", fingerprint="fp_b0c5b7a5e3"),
         registered="openai/gpt-oss-120b", sees=False),
    Lane(key="bedrock-chat", dialect="chat", upstream="bedrock", flavour="litellm",
         base_path="/openai/v1", main=_n("openai.gpt-oss-120b-1:0"), sees=False),
    Lane(key="xai", dialect="chat", upstream="xai", flavour="xai", base_path="/v1",
         main=_n("grok-4", "grok-4-0709", fingerprint="fp_aa10ba5b4a"), reasons=True),
    # OpenAI Responses.
    Lane(key="responses", dialect="responses", upstream="openai", base_path="/v1", reasons=True,
         main=_n("gpt-5", "gpt-5-2025-08-07"), side=_n("gpt-5-nano", "gpt-5-nano-2025-08-07")),
    Lane(key="responses-codex", dialect="responses", upstream="openai", flavour="codex",
         base_path="/v1", main=_n("gpt-5-codex"), reasons=True),
    Lane(key="responses-continued", dialect="responses", upstream="openai", flavour="continued",
         base_path="/v1", main=_n("gpt-4.1", "gpt-4.1-2025-04-14")),
    Lane(key="responses-background", dialect="responses", upstream="openai",
         flavour="background", base_path="/v1", reasons=True,
         main=_n("gpt-5-pro", "gpt-5-pro-2025-10-06")),
    Lane(key="responses-socket", dialect="responses", upstream="openai", flavour="socket",
         base_path="/v1", main=_n("gpt-5.1-codex"), reasons=True),
    Lane(key="responses-azure", dialect="responses", upstream="azure", base_path="/openai/v1",
         main=_n("codex-east", "gpt-5-codex-2025-09-15"), reasons=True),
    # Anthropic.
    Lane(key="anthropic", dialect="messages", upstream="anthropic", base_path="/v1",
         reasons=True, weights=_CLAUDE, main=_n("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
         side=_n("claude-haiku-4-5-20251001")),
    Lane(key="anthropic-code", dialect="messages", upstream="anthropic", flavour="code",
         base_path="/v1", reasons=True, weights=_CLAUDE, main=_n("claude-opus-4-5-20251101"),
         side=_n("claude-haiku-4-5-20251001"), registered="claude-opus-4-5"),
    Lane(key="anthropic-latest", dialect="messages", upstream="anthropic", base_path="/v1",
         weights=_CLAUDE, main=_n("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022")),
    Lane(key="deepseek-messages", dialect="messages", upstream="deepseek",
         base_path="/anthropic/v1", main=_n("deepseek-chat"), sees=False),
    Lane(key="anthropic-vertex", dialect="messages", upstream="vertex", flavour="vertex",
         base_path="/v1/projects/acme-ml/locations/us-east5/publishers/anthropic/models",
         weights=_CLAUDE, main=_n("claude-sonnet-4@20250514", "claude-sonnet-4-20250514")),
    # Gemini.
    Lane(key="gemini-pro", dialect="gemini", upstream="gemini", base_path="/v1beta/models",
         main=_n("gemini-2.5-pro"), side=_n("gemini-2.5-flash-lite"), reasons=True,
         weights=_GEMINI),
    Lane(key="gemini-latest", dialect="gemini", upstream="gemini", base_path="/v1beta/models",
         main=_n("gemini-flash-latest", "gemini-2.5-flash-preview-09-2025"), weights=_GEMINI),
    # Google lets the name of an older preview lead to the next one.
    Lane(key="gemini-preview", dialect="gemini", upstream="gemini", base_path="/v1beta/models",
         main=_n("gemini-2.5-pro-preview-03-25", "gemini-2.5-pro-preview-05-06"),
         weights=_GEMINI, reasons=True),
    Lane(key="gemini-models-prefix", dialect="gemini", upstream="gemini", flavour="array",
         base_path="/v1beta/models", main=_n("gemini-2.0-flash"),
         registered="models/gemini-2.0-flash", weights=_GEMINI),
    Lane(key="gemini-vertex", dialect="gemini", upstream="vertex", flavour="vertex",
         base_path="/v1/projects/acme-ml/locations/global/publishers/google/models",
         main=_n("gemini-2.5-flash"), reasons=True, weights=_GEMINI),
    Lane(key="interactions", dialect="interactions", upstream="gemini", base_path="/v1",
         main=_n("gemini-3-pro"), side=_n("gemini-3-flash"), reasons=True, weights=_GEMINI),
    Lane(key="interactions-continued", dialect="interactions", upstream="gemini",
         flavour="continued", base_path="/v1beta", main=_n("gemini-3.5-flash"), weights=_GEMINI),
    Lane(key="interactions-background", dialect="interactions", upstream="gemini",
         flavour="background", base_path="/v1", main=_n("gemini-3.5-pro"), reasons=True,
         weights=_GEMINI),
    Lane(key="gemini-chat", dialect="chat", upstream="gemini", flavour="gemini",
         base_path="/v1beta/openai", main=_n("models/gemini-2.5-flash", "gemini-2.5-flash"),
         registered="gemini-2.5-flash", weights=_GEMINI),
    # Bedrock: regions, ARNs; no answer of Converse names a model.
    Lane(key="bedrock-converse", dialect="converse", upstream="bedrock", weights=_CLAUDE,
         main=_n("us.anthropic.claude-sonnet-4-5-20250929-v1:0", None), reasons=True,
         registered="claude-sonnet-4-5"),
    Lane(key="bedrock-arn", dialect="converse", upstream="bedrock", weights=_CLAUDE,
         main=_n("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3d4e5f6",
                 None)),
    Lane(key="bedrock-nova", dialect="converse", upstream="bedrock",
         main=_n("eu.amazon.nova-pro-v1:0", None), weights=_NOVA),
    Lane(key="bedrock-invoke", dialect="invoke", upstream="bedrock", flavour="anthropic",
         weights=_CLAUDE, main=_n("global.anthropic.claude-haiku-4-5-20251001-v1:0",
                            "claude-haiku-4-5-20251001"), registered="claude-haiku-4-5"),
    Lane(key="bedrock-invoke-llama", dialect="invoke", upstream="bedrock", flavour="llama",
         main=_n("us.meta.llama3-3-70b-instruct-v1:0", None), sees=False),
    # Cohere, Ollama.
    Lane(key="cohere", dialect="cohere", upstream="cohere", main=_n("command-a-03-2025", None),
         weights=_COHERE, sees=False),
    Lane(key="ollama", dialect="ollama", upstream="ollama", main=_n("qwen3:32b"), reasons=True,
         sees=False, weights=_QWEN),
    Lane(key="ollama-cached", dialect="ollama", upstream="ollama", flavour="cached",
         main=_n("llama3.1:8b-instruct-q8_0"), side=_n("llama3.2:3b"), sees=False),
)  # fmt: skip
