"""What each known agent needs (variables, flags, files) to send its calls through the service.

No key or secret is put on a command line, which other users can read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from truezero.models import RolloutRegistered

# Variables that carry a base URL: name → upstream.
# LiteLLM (aider, mini-swe-agent) reads the *_API_BASE ones: litellm/llms/*/common_utils.py,
# docs.litellm.ai/docs/set_keys. The others are the providers' own SDKs'.
_BASE_URLS: Mapping[str, str] = {
    "OPENAI_BASE_URL": "openai",
    "OPENAI_API_BASE": "openai",
    "ANTHROPIC_BASE_URL": "anthropic",
    "ANTHROPIC_API_BASE": "anthropic",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "OPENROUTER_API_BASE": "openrouter",
}

# Never passed on to the agent: settings of the service, including the admin token and keys.
_OURS = "TRUEZERO_"
ROLLOUT = "TRUEZERO_ROLLOUT"
ROLLOUT_KEY = "TRUEZERO_ROLLOUT_KEY"

# Commands that run the agent named by one of the following words.
_LAUNCHERS = frozenset(
    {"bunx", "env", "node", "npx", "pipx", "pnpm", "python", "python3", "uv", "uvx", "yarn"}
)
_WORDS_CHECKED = 5  # words of a command line
_NAME = re.compile(r"(@[\w.-]+/)?(?P<name>[\w.-]+?)(@[\w.-]+)?\Z")


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
    stores its own account.
    """

    name: str
    commands: frozenset[str]
    keys: Mapping[str, tuple[str, ...]]
    login: str | None = None
    flags: Callable[[AgentEndpoint], Sequence[str]] = lambda _endpoint: ()
    variables: Callable[[AgentEndpoint], Mapping[str, str]] = lambda _endpoint: {}
    home: Home | None = None


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
        login=".claude/.credentials.json",
    ),
    Agent(
        name="Codex",
        commands=frozenset({"codex"}),
        keys={"OPENAI_API_KEY": ("CODEX_API_KEY",)},
        login=".codex/auth.json",
        flags=_codex_flags,
    ),
    Agent(
        name="opencode",
        commands=frozenset({"opencode", "opencode-ai"}),
        keys=_ANY_KEYS,
        login=".local/share/opencode/auth.json",
        variables=_opencode_variables,
    ),
    Agent(
        name="Gemini CLI",
        commands=frozenset({"gemini", "gemini-cli"}),
        keys={"GEMINI_API_KEY": ("GOOGLE_API_KEY",)},
        login=".gemini/oauth_creds.json",
        home=_GEMINI_HOME,
    ),
    Agent(
        name="qwen-code",
        commands=frozenset({"qwen", "qwen-code"}),
        keys={"OPENAI_API_KEY": ()},
        login=".qwen/oauth_creds.json",
        flags=_qwen_flags,
    ),
    Agent(
        name="mini-swe-agent",
        commands=frozenset({"mini", "mini-extra", "mini-swe-agent", "minisweagent"}),
        keys=_ANY_KEYS,
    ),
    Agent(
        name="aider",
        commands=frozenset({"aider", "aider-chat"}),
        keys=_ANY_KEYS,
    ),
)
# fmt: on
ANY = Agent(name="an agent", commands=frozenset(), keys=_ANY_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The command to start, its environment, and the files to write before."""

    agent: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[PurePath, str]


def recognised(command: Sequence[str]) -> tuple[Agent, int]:
    """Return the agent that a command starts, and the index of the word that names it."""
    for place, word in enumerate(command[:_WORDS_CHECKED]):
        for agent in AGENTS:
            if _name(word) in agent.commands:
                return agent, place
        if place == 0 and _name(word) not in _LAUNCHERS:
            break
    return ANY, 0


def equip(
    command: Sequence[str],
    rollout: RolloutRegistered,
    environment: Mapping[str, str],
    *,
    service_host: str,
    folder: PurePath | None = None,
    exists: Callable[[PurePath], bool],
) -> Equipment:
    """Point a command at the service for one rollout.

    The agent keeps its own keys. Without a key and without an account it gets the rollout's;
    the service replaces it with the real one, if configured.

    Arguments:
        environment: the agent's environment without truezero.
        service_host: host that must not be reached through an HTTP proxy.
        folder: directory for a temporary home; None for no such home.
        exists: returns whether a file exists.
    """
    agent, place = recognised(command)
    variables = {name: value for name, value in environment.items() if not name.startswith(_OURS)}
    logged_in = _logged_in(agent, variables, exists)
    variables |= rollout.env | _base_url_variables(rollout)
    if not logged_in:
        variables |= _missing_keys(agent, variables, rollout.key)
    variables |= {ROLLOUT: rollout.id, ROLLOUT_KEY: rollout.key, **_direct(variables, service_host)}
    home = agent.home if folder and _not_configured(agent.home, variables, exists) else None
    if home and folder:
        variables[home.variable] = str(folder)
    endpoint = AgentEndpoint(
        words=tuple(command),
        base_urls=rollout.base_urls,
        bare_urls={name: bare(url, rollout.id) for name, url in rollout.base_urls.items()},
        environment=variables,
        logged_in=logged_in,
    )
    return Equipment(
        agent=agent.name,
        command=(*command[: place + 1], *agent.flags(endpoint), *command[place + 1 :]),
        environment=variables | dict(agent.variables(endpoint)),
        files={folder / name: text for name, text in home.files.items()} if home and folder else {},
    )


def bare(base_url: str, rollout_id: str) -> str:
    """Return a rollout's base URL without its secret."""
    segment = f"/r/{quote(rollout_id, safe='')}"
    before, _, after = base_url.partition(segment + "~")
    return base_url if not after else before + segment + "/" + after.partition("/")[2]


def _name(word: str) -> str:
    """Return ``codex`` for ``/usr/bin/codex`` and for ``@openai/codex@latest``."""
    match = _NAME.match(PurePath(word).name if word.startswith(("/", ".")) else word)
    return match["name"].removesuffix(".js").removesuffix(".exe") if match else ""


def _base_url_variables(rollout: RolloutRegistered) -> dict[str, str]:
    urls = rollout.base_urls
    return {name: urls[upstream] for name, upstream in _BASE_URLS.items() if upstream in urls}


def _missing_keys(agent: Agent, variables: Mapping[str, str], key: str) -> dict[str, str]:
    return {
        variable: key
        for variable, others in agent.keys.items()
        if not any(variables.get(name) for name in (variable, *others))
    }


def _logged_in(
    agent: Agent, variables: Mapping[str, str], exists: Callable[[PurePath], bool]
) -> bool:
    home = variables.get("HOME")
    return bool(agent.login and home) and exists(PurePath(home or "", agent.login or ""))


def _not_configured(
    home: Home | None, variables: Mapping[str, str], exists: Callable[[PurePath], bool]
) -> bool:
    if home is None or home.variable in variables:
        return False
    users = PurePath(variables.get("HOME", ""))
    return not any(exists(users / name) for name in home.unless)


def _direct(variables: Mapping[str, str], host: str) -> dict[str, str]:
    """Exclude the service from the agent's HTTP proxy, if it uses one."""
    if not any(
        variables.get(name) for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    ):
        return {}
    before = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    direct = ",".join(filter(None, (before, host)))
    return {"no_proxy": direct, "NO_PROXY": direct}


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
