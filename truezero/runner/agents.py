"""What each known agent needs (variables, flags, files) to send its calls through the service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from truezero.runner import bypasses, endings, recognition
from truezero.runner.bypasses import Bypass, Circumstances
from truezero.runner.recognition import Found, Look

# Variables by which an agent knows its rollout.
ROLLOUT = "TRUEZERO_ROLLOUT"
ROLLOUT_KEY = "TRUEZERO_ROLLOUT_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndpoint:
    """How one rollout reaches the service.

    ``words`` are the command; ``base_urls`` may contain the rollout's secret, ``bare_urls``
    never do. ``environment`` is the agent's, ``logged_in`` whether it uses its own account.
    """

    words: tuple[str, ...]

    base_urls: Mapping[str, str]
    bare_urls: Mapping[str, str]
    environment: Mapping[str, str]
    logged_in: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A temporary home directory for an agent that the user has not configured.

    ``variable`` points the agent at it; ``unless`` are files under the user's home that show
    that the agent is configured; ``files`` are written to it and contain no secrets.
    """

    variable: str
    unless: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent: how to recognise it, and what it needs besides the common variables.

    ``commands`` are the names of its program and package. ``keys`` are the variables it reads
    a key from, each with alternatives; ``login`` is the file under the home directory that
    stores its own account. ``address`` says where it reads its base URL, and ``bypasses`` are
    settings with which it does not use it. ``trajectory`` is the file in which it says how it
    ended.
    """

    name: str
    commands: frozenset[str]
    keys: Mapping[str, tuple[str, ...]]
    address: str
    login: str | None = None
    flags: Callable[[AgentEndpoint], Sequence[str]] = lambda _endpoint: ()
    variables: Callable[[AgentEndpoint], Mapping[str, str]] = lambda _endpoint: {}
    home: Home | None = None
    bypasses: tuple[Bypass, ...] = ()
    trajectory: Callable[[Circumstances], PurePath] | None = None


_LITELLM = "OPENAI_API_BASE, ANTHROPIC_API_BASE or OPENROUTER_API_BASE, by the model's provider"
_ANY_KEYS: Mapping[str, tuple[str, ...]] = {
    "OPENAI_API_KEY": (),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "GEMINI_API_KEY": ("GOOGLE_API_KEY",),
}


def _codex_flags(endpoint: AgentEndpoint) -> Sequence[str]:
    """Configure a provider for Codex: the built-in one ignores OPENAI_BASE_URL.

    The rollout's key is sent in a header whose value Codex reads from a variable
    (openai/codex: codex-rs/model-provider-info, ``env_http_headers``; pull request 16720).
    """
    provider: dict[str, str | bool] = {
        "name": "truezero",
        "base_url": endpoint.bare_urls["openai"],
        "wire_api": "responses",
    }
    if "OPENAI_API_KEY" in endpoint.environment:
        provider["env_key"] = "OPENAI_API_KEY"
    elif "CODEX_API_KEY" in endpoint.environment:
        provider["env_key"] = "CODEX_API_KEY"
    else:
        provider["requires_openai_auth"] = True
    settings = {f"model_providers.truezero.{name}": value for name, value in provider.items()}
    settings["model_provider"] = "truezero"
    settings["model_providers.truezero.env_http_headers.x-api-key"] = ROLLOUT_KEY
    return [word for name, value in settings.items() for word in ("-c", _toml(name, value))]


def _toml(name: str, value: str | bool) -> str:
    """Return a setting as TOML; a JSON string is a TOML string."""
    return f"{name}={json.dumps(value)}"


def _opencode_variables(endpoint: AgentEndpoint) -> Mapping[str, str]:
    """Merge our providers into opencode's inline configuration (opencode.ai/docs/config).

    The base URLs end in the path that the AI SDK's providers expect.
    """
    ends = {
        "openai": endpoint.base_urls["openai"],
        "anthropic": endpoint.base_urls["anthropic"] + "/v1",
        "google": endpoint.base_urls["gemini"] + "/v1beta",
    }
    providers = {name: {"options": {"baseURL": url}} for name, url in ends.items()}
    before = _object(endpoint.environment.get("OPENCODE_CONFIG_CONTENT"))
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(_merge(before, {"provider": providers}))}


def _qwen_flags(endpoint: AgentEndpoint) -> Sequence[str]:
    """Select the OpenAI login: qwen-code 0.15 uses its variables only with OPENAI_MODEL."""
    chosen = endpoint.logged_in or "--auth-type" in endpoint.words
    return () if chosen else ("--auth-type", "openai")


# With only a base URL Gemini CLI picks a login that it then rejects, and system settings must
# belong to root (0.61, validateAuthMethod and checkPosixStatsSecurity).
_GEMINI_HOME = Home(
    variable="GEMINI_CLI_HOME",
    unless=(".gemini/settings.json", ".gemini/GEMINI.md"),
    files={
        ".gemini/settings.json": json.dumps(
            {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        )
    },
)


# fmt: off
AGENTS: tuple[Agent, ...] = (
    Agent(
        name="Claude Code",
        commands=frozenset({"claude", "claude-code"}),
        keys={"ANTHROPIC_API_KEY": ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")},
        address="ANTHROPIC_BASE_URL",
        login=".claude/.credentials.json",
        bypasses=bypasses.CLAUDE_CODE,
    ),
    Agent(
        name="Codex",
        commands=frozenset({"codex"}),
        keys={"OPENAI_API_KEY": ("CODEX_API_KEY",)},
        address="model_provider in its -c flags, not OPENAI_BASE_URL",
        login=".codex/auth.json",
        flags=_codex_flags,
        bypasses=bypasses.CODEX,
    ),
    Agent(
        name="opencode",
        commands=frozenset({"opencode", "opencode-ai"}),
        keys=_ANY_KEYS,
        address="OPENCODE_CONFIG_CONTENT (provider.*.options.baseURL)",
        login=".local/share/opencode/auth.json",
        variables=_opencode_variables,
        bypasses=bypasses.OPENCODE,
    ),
    Agent(
        name="Gemini CLI",
        commands=frozenset({"gemini", "gemini-cli"}),
        keys={"GEMINI_API_KEY": ("GOOGLE_API_KEY",)},
        address="GOOGLE_GEMINI_BASE_URL, with the login gemini-api-key",
        login=".gemini/oauth_creds.json",
        home=_GEMINI_HOME,
        bypasses=bypasses.GEMINI_CLI,
    ),
    Agent(
        name="qwen-code",
        commands=frozenset({"qwen", "qwen-code"}),
        keys={"OPENAI_API_KEY": ()},
        address="OPENAI_BASE_URL, with --auth-type openai",
        login=".qwen/oauth_creds.json",
        flags=_qwen_flags,
        bypasses=bypasses.QWEN_CODE,
    ),
    Agent(
        name="mini-swe-agent",
        commands=frozenset({"mini", "mini-extra", "mini-swe-agent", "minisweagent"}),
        keys=_ANY_KEYS,
        address=_LITELLM,
        bypasses=bypasses.MINI_SWE_AGENT,
        trajectory=endings.mini_trajectory,
    ),
    Agent(
        name="aider",
        commands=frozenset({"aider", "aider-chat"}),
        keys=_ANY_KEYS,
        address=_LITELLM,
        bypasses=bypasses.AIDER,
    ),
)
# fmt: on
ANY = Agent(
    name="an agent", commands=frozenset(), keys=_ANY_KEYS, address="a base URL in its environment"
)
_BY_NAME: Mapping[str, Agent] = {name: agent for agent in AGENTS for name in agent.commands}


def recognised(
    command: Sequence[str], look: Look = lambda _word: None
) -> tuple[Agent, Found | None]:
    """Return the agent that a command starts, and where the command names it."""
    found = recognition.find(command, _BY_NAME.keys(), look)
    return (_BY_NAME[found.name], found) if found else (ANY, None)


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}  # JSON with comments, perhaps; the base URLs matter more
    return value if isinstance(value, dict) else {}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(under, dict) and isinstance(value, dict):
            merged[name] = _merge(under, value)
        else:
            merged[name] = value
    return merged
