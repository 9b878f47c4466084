"""The variables, flags and files with which each known agent calls the service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any

from truezero.foreign import parse
from truezero.integrations import mini_swe_agent
from truezero.runner import recognition
from truezero.runner.recognition import RecognisedAgent
from truezero.sdk.arguments import OutcomeFacts

# --- bypasses ---
#
# Settings with which an agent calls its provider directly, past the base URL it is given.
#
# Only settings are looked at: whether a file with a login exists, never what is in it.


_OFF = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """The context in which an agent starts: its words, its environment, and the user's files.

    ``home`` is the user's home directory; ``read`` returns a file's text, None if there is none.
    """

    words: Sequence[str]
    environment: Mapping[str, str]
    home: PurePath
    exists: Callable[[PurePath], bool]
    read: Callable[[PurePath], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """A setting, and whether it is set; ``why`` is the end of a sentence about the agent."""

    why: str
    holds: Callable[[LaunchContext], bool]


def said(bypasses: Sequence[Bypass], seen: LaunchContext) -> tuple[str, ...]:
    """Return the reasons for which an agent's calls will not come, or not all of them."""
    return tuple(bypass.why for bypass in bypasses if bypass.holds(seen))


def variable(name: str, why: str) -> Bypass:
    """Return a bypass that a variable switches on."""

    def holds(seen: LaunchContext) -> bool:
        return seen.environment.get(name, "").lower() not in _OFF

    return Bypass(why=f"{name} is set: {why}", holds=holds)


def option(pattern: str, why: str) -> Bypass:
    """Return a bypass that a word of the command switches on; its value is joined by ``=``."""
    matches = re.compile(pattern).fullmatch

    def holds(seen: LaunchContext) -> bool:
        pairs = zip_longest(seen.words, seen.words[1:], fillvalue="")
        return any(matches(word) or matches(f"{word}={after}") for word, after in pairs)

    return Bypass(why=why, holds=holds)


def setting(file: str, keys: Sequence[str], values: str, why: str) -> Bypass:
    """Return a bypass that a value in a JSON file of the user's home switches on."""
    matches = re.compile(values).fullmatch

    def holds(seen: LaunchContext) -> bool:
        value: Any = _json(seen.read(seen.home / file))
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return isinstance(value, str) and bool(matches(value))

    return Bypass(why=f"~/{file}: {why}", holds=holds)


def login(file: str, keys: Sequence[str], why: str) -> Bypass:
    """Return a bypass of an agent that is logged in, and has none of the keys."""

    def holds(seen: LaunchContext) -> bool:
        return seen.exists(seen.home / file) and not any(map(seen.environment.get, keys))

    return Bypass(why=f"~/{file} is there, and none of {', '.join(keys)}: {why}", holds=holds)


def _json(text: str | None) -> Any:
    try:
        return parse(text or "{}")
    except ValueError:
        return {}  # JSON with comments


# --- bypasses of each agent ---

_OWN_ADDRESS = "the provider's own address is asked, whatever the base URL"

# docs.claude.com/en/docs/claude-code: third-party integrations; settings, `env`.
CLAUDE_CODE = (
    variable("CLAUDE_CODE_USE_BEDROCK", "Bedrock is asked, at ANTHROPIC_BEDROCK_BASE_URL"),
    variable("CLAUDE_CODE_USE_VERTEX", "Vertex AI is asked, at ANTHROPIC_VERTEX_BASE_URL"),
    variable("CLAUDE_CODE_USE_FOUNDRY", "Foundry is asked, at ANTHROPIC_FOUNDRY_BASE_URL"),
    setting(
        ".claude/settings.json", ("env", "ANTHROPIC_BASE_URL"), ".+",
        "env.ANTHROPIC_BASE_URL replaces the variable",
    ),
)  # fmt: skip

# openai/codex: codex-rs/cli; a later `-c` wins.
CODEX = (
    option("--oss|--local-provider=.*", "--oss asks a model on this machine directly"),
    option(
        r"(-c|--config)=model_provider\s*=.*|-cmodel_provider=.*",
        "the command chooses another model_provider",
    ),
    login(
        ".codex/auth.json", ("OPENAI_API_KEY", "CODEX_API_KEY"),
        "if that is a ChatGPT login, it is not valid for the API behind the base URL",
    ),
)  # fmt: skip

# The providers that get our address are openai, anthropic and google.
OPENCODE = (
    option(
        r"(-m|--model)=(?!(openai|anthropic|google)/)[\w.-]+/.*",
        f"the model is of another provider than openai, anthropic and google: {_OWN_ADDRESS}",
    ),
)

# google-gemini/gemini-cli: packages/core/src/core/contentGenerator.ts, AuthType.
GEMINI_CLI = (
    variable("GOOGLE_GENAI_USE_GCA", f"a login with Google is used, {_OWN_ADDRESS}"),
    variable("GOOGLE_GENAI_USE_VERTEXAI", "Vertex AI is asked"),
    *(
        setting(
            ".gemini/settings.json", keys, "oauth-personal|cloud-shell|compute-default.*|vertex-ai",
            "a login other than gemini-api-key is selected, which asks Google directly",
        )
        for keys in (("security", "auth", "selectedType"), ("selectedAuthType",))
    ),
)  # fmt: skip

_QWEN = "the Qwen login asks Qwen directly; use --auth-type openai"
QWEN_CODE = (
    option("--auth-type=qwen-oauth", _QWEN),
    Bypass(
        why=f"~/.qwen/oauth_creds.json is there: {_QWEN}",
        holds=lambda seen: (
            seen.exists(seen.home / ".qwen/oauth_creds.json")
            and not any(word.startswith("--auth-type") for word in seen.words)
        ),
    ),
)

# docs.litellm.ai/docs/providers: those with variables or an address of their own.
_DIRECT = (
    "azure|azure_ai|bedrock|cohere|deepseek|fireworks_ai|github_copilot|groq|mistral|ollama"
    "|ollama_chat|sagemaker|together_ai|vertex_ai|xai"
)
_NO_ADDRESS = f"LiteLLM gets no base URL for the model's provider: {_OWN_ADDRESS}"
MINI_SWE_AGENT = (option(f"(-m|--model)=({_DIRECT})/.*", _NO_ADDRESS),)
AIDER = (
    option(f"--model=({_DIRECT})/.*", _NO_ADDRESS),
    option("--openai-api-base=.*", "the command sets a base URL of its own"),
)


# --- endings ---
#
# Read from a file of the agent where its exit code does not tell how it ended. Only the name of an
# ending is used; nothing else of the file is kept.


_MINI_OUTPUT = ("-o", "--output")
_MINI_HOME = "MSWEA_GLOBAL_CONFIG_DIR"


def mini_trajectory(seen: LaunchContext) -> PurePath:
    """Return where `mini` writes its trajectory (minisweagent/run/mini.py, 2.4.6).

    Its own default is under platformdirs' user_config_dir, here as on Linux.
    """
    for word, after in zip_longest(seen.words, seen.words[1:], fillvalue=""):
        name, joined, value = word.partition("=")
        if name in _MINI_OUTPUT:
            return PurePath(value if joined else after)
        if word.startswith("-o"):
            return PurePath(word[2:])
    config = seen.environment.get("XDG_CONFIG_HOME") or seen.home / ".config"
    home = seen.environment.get(_MINI_HOME) or PurePath(config, "mini-swe-agent")
    return PurePath(home, "last_mini_run.traj.json")


def noted(file: PurePath | None) -> Callable[[], OutcomeFacts | None]:
    """Note a trajectory before an agent starts.

    The function that is returned says how the agent ended: None if the file was not written
    since, is no trajectory, or names no ending of the agent's own.
    """
    before = None if file is None else _written_ns(file)

    def said() -> OutcomeFacts | None:
        if file is None or _written_ns(file) in (None, before):
            return None
        try:
            return mini_swe_agent.ending(mini_swe_agent.trajectory_info(Path(file)))
        except (OSError, ValueError, AttributeError):
            return None

    return said


def _written_ns(file: PurePath) -> int | None:
    """Return when a file was last written, in ns; None if there is none."""
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return None


# --- agents ---


# Variables by which an agent knows its rollout.
ROLLOUT = "TRUEZERO_ROLLOUT"
ROLLOUT_KEY = "TRUEZERO_ROLLOUT_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndpoint:
    """The command, URLs and environment with which one rollout reaches the service.

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
    ended. ``upstream`` is the only one that it calls there; None if that is the user's choice.
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
    trajectory: Callable[[LaunchContext], PurePath] | None = None
    upstream: str | None = None


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
        upstream="anthropic",
        login=".claude/.credentials.json",
        bypasses=CLAUDE_CODE,
    ),
    Agent(
        name="Codex",
        commands=frozenset({"codex"}),
        keys={"OPENAI_API_KEY": ("CODEX_API_KEY",)},
        address="model_provider in its -c flags, not OPENAI_BASE_URL",
        upstream="openai",
        login=".codex/auth.json",
        flags=_codex_flags,
        bypasses=CODEX,
    ),
    Agent(
        name="opencode",
        commands=frozenset({"opencode", "opencode-ai"}),
        keys=_ANY_KEYS,
        address="OPENCODE_CONFIG_CONTENT (provider.*.options.baseURL)",
        login=".local/share/opencode/auth.json",
        variables=_opencode_variables,
        bypasses=OPENCODE,
    ),
    Agent(
        name="Gemini CLI",
        commands=frozenset({"gemini", "gemini-cli"}),
        keys={"GEMINI_API_KEY": ("GOOGLE_API_KEY",)},
        address="GOOGLE_GEMINI_BASE_URL, with the login gemini-api-key",
        upstream="gemini",
        login=".gemini/oauth_creds.json",
        home=_GEMINI_HOME,
        bypasses=GEMINI_CLI,
    ),
    Agent(
        name="qwen-code",
        commands=frozenset({"qwen", "qwen-code"}),
        keys={"OPENAI_API_KEY": ()},
        address="OPENAI_BASE_URL, with --auth-type openai",
        upstream="openai",
        login=".qwen/oauth_creds.json",
        flags=_qwen_flags,
        bypasses=QWEN_CODE,
    ),
    Agent(
        name="mini-swe-agent",
        commands=frozenset({"mini", "mini-extra", "mini-swe-agent", "minisweagent"}),
        keys=_ANY_KEYS,
        address=_LITELLM,
        bypasses=MINI_SWE_AGENT,
        trajectory=mini_trajectory,
    ),
    Agent(
        name="aider",
        commands=frozenset({"aider", "aider-chat"}),
        keys=_ANY_KEYS,
        address=_LITELLM,
        bypasses=AIDER,
    ),
)
# fmt: on
ANY = Agent(
    name="an agent", commands=frozenset(), keys=_ANY_KEYS, address="a base URL in its environment"
)
_BY_NAME: Mapping[str, Agent] = {name: agent for agent in AGENTS for name in agent.commands}


def recognised(
    command: Sequence[str], chosen: str | None = None
) -> tuple[Agent, RecognisedAgent | None]:
    """Return the agent that a command starts, and where the command names it.

    Arguments:
        chosen: one of ``names()``, where the user says which agent it is.
    """
    if chosen is not None:
        agent = _BY_NAME[chosen]
        return agent, recognition.find_chosen(command, agent.commands)
    found = recognition.find(command, _BY_NAME.keys())
    return (_BY_NAME[found.name], found) if found else (ANY, None)


def in_shell(command: Sequence[str]) -> str | None:
    """Return the name of the agent in a shell's text, where it is not recognised."""
    found = recognition.find_in_shell(command, _BY_NAME.keys())
    return found.name if found else None


def names() -> tuple[str, ...]:
    """Return the names by which agents are known."""
    return tuple(sorted(_BY_NAME))


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = parse(text or "{}")
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
