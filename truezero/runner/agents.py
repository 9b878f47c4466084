"""What each known agent must be told so that its calls go through the service.

It starts nothing, and puts no key and no secret on a command line: others can read those.
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

# Variables that carry a base URL: name → upstream, what its readers expect behind it.
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

# What we never hand down: our own settings, the admin token and real keys among them.
_OURS = "TRUEZERO_"
ROLLOUT = "TRUEZERO_ROLLOUT"
ROLLOUT_KEY = "TRUEZERO_ROLLOUT_KEY"

# They run the agent that one of their next words names.
_LAUNCHERS = frozenset(
    {"bunx", "env", "node", "npx", "pipx", "pnpm", "python", "python3", "uv", "uvx", "yarn"}
)
_LOOKED_AT = 5  # words of a command line
_NAME = re.compile(r"(@[\w.-]+/)?(?P<name>[\w.-]+?)(@[\w.-]+)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndpoint:
    """How one rollout reaches the service.

    ``words`` are the command; ``base_urls`` may carry the rollout's secret, ``bare_urls``
    never do. ``environment`` is what the agent will see, ``logged_in`` whether it brings an
    account of its own.
    """

    words: tuple[str, ...]

    base_urls: Mapping[str, str]
    bare_urls: Mapping[str, str]
    environment: Mapping[str, str]
    logged_in: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A home for one run, where the user has not settled the agent in his own.

    ``variable`` tells the agent where it is; ``unless`` are files under the user's home
    that say that he has; ``files`` are put into ours, nothing secret among them.
    """

    variable: str
    unless: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent: how it is recognised, and what it needs beside the common variables.

    ``commands`` are the names of its program and package. ``keys`` are the variables it
    takes a key from, each with others that do as well; ``login`` the file, under the home
    directory, that an account of its own leaves.
    """

    name: str
    commands: frozenset[str]
    keys: Mapping[str, tuple[str, ...]]
    login: str | None = None
    flags: Callable[[AgentEndpoint], Sequence[str]] = lambda _reach: ()
    variables: Callable[[AgentEndpoint], Mapping[str, str]] = lambda _reach: {}
    home: Home | None = None


_ANY_KEYS: Mapping[str, tuple[str, ...]] = {
    "OPENAI_API_KEY": (),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "GEMINI_API_KEY": ("GOOGLE_API_KEY",),
}


def _codex_flags(reach: AgentEndpoint) -> Sequence[str]:
    """A provider of its own: the built-in one ignores OPENAI_BASE_URL and cannot be changed.

    The rollout's proof travels in a header whose value Codex reads from a variable
    (openai/codex: codex-rs/model-provider-info, ``env_http_headers``; pull request 16720).
    """
    provider: dict[str, str | bool] = {
        "name": "truezero",
        "base_url": reach.bare_urls["openai"],
        "wire_api": "responses",
    }
    if "OPENAI_API_KEY" in reach.environment:
        provider["env_key"] = "OPENAI_API_KEY"
    elif "CODEX_API_KEY" in reach.environment:
        provider["env_key"] = "CODEX_API_KEY"
    else:
        provider["requires_openai_auth"] = True
    settings = {f"model_providers.truezero.{name}": value for name, value in provider.items()}
    settings["model_provider"] = "truezero"
    settings["model_providers.truezero.env_http_headers.x-api-key"] = ROLLOUT_KEY
    return [word for name, value in settings.items() for word in ("-c", _toml(name, value))]


def _toml(name: str, value: str | bool) -> str:
    """One of our settings as TOML; a JSON string is a TOML string."""
    return f"{name}={json.dumps(value)}"


def _opencode_variables(reach: AgentEndpoint) -> Mapping[str, str]:
    """Its inline configuration, laid over the user's (opencode.ai/docs/config, precedence).

    The base URLs end as the AI SDK's providers expect them.
    """
    ends = {
        "openai": reach.base_urls["openai"],
        "anthropic": reach.base_urls["anthropic"] + "/v1",
        "google": reach.base_urls["gemini"] + "/v1beta",
    }
    providers = {name: {"options": {"baseURL": url}} for name, url in ends.items()}
    before = _object(reach.environment.get("OPENCODE_CONFIG_CONTENT"))
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(_laid_over(before, {"provider": providers}))}


def _qwen_flags(reach: AgentEndpoint) -> Sequence[str]:
    """It takes its variables for a choice only where OPENAI_MODEL is one of them (0.15)."""
    chosen = reach.logged_in or "--auth-type" in reach.words
    return () if chosen else ("--auth-type", "openai")


# Its base URL alone makes it choose an account that it then refuses, and files that speak
# for the system must be root's (0.61, validateAuthMethod and checkPosixStatsSecurity).
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
    """What to start, in which environment, and the files that must be there before."""

    agent: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[PurePath, str]


def recognised(command: Sequence[str]) -> tuple[Agent, int]:
    """Which agent a command starts, and the place of the word that names it."""
    for place, word in enumerate(command[:_LOOKED_AT]):
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
    """Point a command at the service, for one rollout.

    The agent keeps the keys it has. Where it has none, and no account of its own, it gets
    the rollout's: the service puts in the real one, if it was given one.

    Arguments:
        environment: as the agent would see it without us.
        service_host: is never to be reached through an HTTP proxy.
        folder: where a home for it can be; None where it is to have none.
        exists: whether there is such a file.
    """
    agent, place = recognised(command)
    seen = {name: value for name, value in environment.items() if not name.startswith(_OURS)}
    logged_in = _logged_in(agent, seen, exists)
    seen |= rollout.env | _base_url_variables(rollout)
    if not logged_in:
        seen |= _missing_keys(agent, seen, rollout.key)
    seen |= {ROLLOUT: rollout.id, ROLLOUT_KEY: rollout.key, **_direct(seen, service_host)}
    home = agent.home if folder and _unsettled(agent.home, seen, exists) else None
    if home and folder:
        seen[home.variable] = str(folder)
    reach = AgentEndpoint(
        words=tuple(command),
        base_urls=rollout.base_urls,
        bare_urls={name: bare(url, rollout.id) for name, url in rollout.base_urls.items()},
        environment=seen,
        logged_in=logged_in,
    )
    return Equipment(
        agent=agent.name,
        command=(*command[: place + 1], *agent.flags(reach), *command[place + 1 :]),
        environment=seen | dict(agent.variables(reach)),
        files={folder / name: text for name, text in home.files.items()} if home and folder else {},
    )


def bare(base_url: str, rollout_id: str) -> str:
    """A rollout's base URL without its secret."""
    segment = f"/r/{quote(rollout_id, safe='')}"
    before, _, after = base_url.partition(segment + "~")
    return base_url if not after else before + segment + "/" + after.partition("/")[2]


def _name(word: str) -> str:
    """``codex`` of ``/usr/bin/codex`` and of ``@openai/codex@latest``."""
    found = _NAME.match(PurePath(word).name if word.startswith(("/", ".")) else word)
    return found["name"].removesuffix(".js").removesuffix(".exe") if found else ""


def _base_url_variables(rollout: RolloutRegistered) -> dict[str, str]:
    urls = rollout.base_urls
    return {name: urls[upstream] for name, upstream in _BASE_URLS.items() if upstream in urls}


def _missing_keys(agent: Agent, seen: Mapping[str, str], key: str) -> dict[str, str]:
    return {
        variable: key
        for variable, others in agent.keys.items()
        if not any(seen.get(name) for name in (variable, *others))
    }


def _logged_in(agent: Agent, seen: Mapping[str, str], exists: Callable[[PurePath], bool]) -> bool:
    home = seen.get("HOME")
    return bool(agent.login and home) and exists(PurePath(home or "", agent.login or ""))


def _unsettled(
    home: Home | None, seen: Mapping[str, str], exists: Callable[[PurePath], bool]
) -> bool:
    if home is None or home.variable in seen:
        return False
    users = PurePath(seen.get("HOME", ""))
    return not any(exists(users / name) for name in home.unless)


def _direct(seen: Mapping[str, str], host: str) -> dict[str, str]:
    """Agents behind an HTTP proxy would look for the service on the proxy's far side."""
    if not any(seen.get(name) for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")):
        return {}
    before = seen.get("no_proxy") or seen.get("NO_PROXY") or ""
    direct = ",".join(filter(None, (before, host)))
    return {"no_proxy": direct, "NO_PROXY": direct}


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}  # with comments in it, perhaps; a provider's address matters more
    return found if isinstance(found, dict) else {}


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(under, dict) and isinstance(value, dict):
            merged[name] = _laid_over(under, value)
        else:
            merged[name] = value
    return merged
