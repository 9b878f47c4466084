"""A command made ready: pointed at the service, with the files that it needs.

No key or secret is put on a command line, which other users can read.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import quote, urlsplit

from truezero.foreign import open_file
from truezero.models import RolloutRegistered
from truezero.runner import agents, recognition
from truezero.runner.agents import (
    ANY,
    ROLLOUT,
    ROLLOUT_KEY,
    Agent,
    AgentEndpoint,
    Home,
    LaunchContext,
    recognised,
)
from truezero.runner.recognition import RecognisedAgent

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
_SETTINGS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """The command to start, its environment, and the files to write before.

    ``known``: a listed agent; ``address`` is where it reads its base URL. ``added`` is a line on
    what a known one is given, without values of variables. ``bypasses`` say why its calls will not
    come through the service, as far as that shows before. ``trajectory`` is the file in which the
    agent says how it ended; None if it has none.
    """

    agent: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[PurePath, str]
    known: bool = False
    address: str = ANY.address
    added: str | None = None
    bypasses: tuple[str, ...] = ()
    trajectory: PurePath | None = None


@contextmanager
def equipped(
    command: Sequence[str], rollout: RolloutRegistered, url: str, agent: str | None = None
) -> Iterator[PreparedCommand]:
    """Prepare a command whose calls go through the service; write the files it needs.

    Arguments:
        agent: the one that the command starts, where its user says it.
    """
    with tempfile.TemporaryDirectory(prefix="truezero-agent-") as folder:
        equipment = prepare(
            command,
            rollout,
            os.environ,
            service_host=urlsplit(url).hostname or "",
            folder=PurePath(folder),
            exists=lambda path: Path(path).is_file(),
            read=_settings,
            chosen=agent,
        )
        for path, content in equipment.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(content, encoding="utf-8")
        yield equipment


def upstream_of(command: Sequence[str], agent: str | None = None) -> str | None:
    """Return the upstream that a command's agent calls; None of one that may call several."""
    return recognised(command, agent)[0].upstream


def _settings(path: PurePath) -> str | None:
    """Return the text of a settings file, if there is one of a plausible size."""
    try:
        with open_file(Path(path)) as file:
            text = file.read(_SETTINGS_BYTES)
    except OSError:
        return None
    return text.decode("utf-8", "replace")


def prepare(
    command: Sequence[str],
    rollout: RolloutRegistered,
    environment: Mapping[str, str],
    *,
    service_host: str,
    folder: PurePath | None = None,
    exists: Callable[[PurePath], bool],
    read: Callable[[PurePath], str | None] = lambda _path: None,
    chosen: str | None = None,
) -> PreparedCommand:
    """Point a command at the service for one rollout.

    The agent keeps its own keys. Without a key and without an account it gets the rollout's;
    the service replaces it with the real one, if configured.

    Arguments:
        environment: the agent's environment without truezero.
        service_host: host that must not be reached through an HTTP proxy.
        folder: directory for a temporary home; None for no such home.
        exists: returns whether a file exists.
        read: returns the text of a settings file; None if there is none.
        chosen: the agent's name, where the user says it.
    """
    agent, match = recognised(command, chosen)
    assigned = match.assigned if match else {}
    words = match.words if match else ()
    variables = {name: value for name, value in environment.items() if not name.startswith(_OURS)}
    own = variables | dict(assigned)  # as the agent will see it
    logged_in = _logged_in(agent, variables, exists)
    variables |= rollout.env | _base_url_variables(rollout)
    if not logged_in:
        variables |= _missing_keys(agent, own, rollout.key)
    variables |= {ROLLOUT: rollout.id, ROLLOUT_KEY: rollout.key, **_direct(variables, service_host)}
    home = agent.home if folder and _not_configured(agent.home, variables, exists) else None
    if home and folder:
        variables[home.variable] = str(folder)
    endpoint = AgentEndpoint(
        words=(*command, *words),
        base_urls=rollout.base_urls,
        bare_urls={name: bare(url, rollout.id) for name, url in rollout.base_urls.items()},
        environment={**assigned, **variables},
        logged_in=logged_in,
    )
    seen = LaunchContext(
        words=words,
        environment=own,
        home=PurePath(own.get("HOME", "")),
        exists=exists,
        read=read,
    )
    variables |= agent.variables(endpoint)
    flags = agent.flags(endpoint) if match and match.place is not None else ()
    return PreparedCommand(
        agent=agent.name,
        known=match is not None,
        address=agent.address,
        added=_added(variables, environment, flags) if match else None,
        bypasses=_past(command, match, agent, endpoint) + agents.said(agent.bypasses, seen),
        trajectory=agent.trajectory(seen) if agent.trajectory else None,
        command=recognition.insert(command, match, flags) if match else tuple(command),
        environment=variables,
        files={folder / name: text for name, text in home.files.items()} if home and folder else {},
    )


def _added(variables: Mapping[str, str], inherited: Mapping[str, str], flags: Sequence[str]) -> str:
    """Return what an agent is given: the names of variables, and words of its command."""
    new = sorted(name for name, value in variables.items() if inherited.get(name) != value)
    words = f"; to its command: {shlex.join(flags)}" if flags else ""
    return f"added to its environment: {', '.join(new)}{words}"


def _past(
    command: Sequence[str], match: RecognisedAgent | None, agent: Agent, endpoint: AgentEndpoint
) -> tuple[str, ...]:
    """Return why a command itself keeps its agent from what it needs."""
    if match is None:
        name = agents.in_shell(command)
        why = f"{name} is in a shell's text, so nothing of its own was added: use `--agent {name}`"
        return (why,) if name else ()
    needed = _BASE_URLS.keys() | agent.variables(endpoint).keys()
    replaced = sorted(needed & match.assigned.keys())
    unheard = match.place is None and agent.flags(endpoint)
    reasons = {
        f"the command sets {', '.join(replaced)} itself": replaced,
        "the shell's text does not name it: it cannot get the flags it needs": unheard,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def bare(base_url: str, rollout_id: str) -> str:
    """Return a rollout's base URL without its secret."""
    segment = f"/r/{quote(rollout_id, safe='')}"
    before, _, after = base_url.partition(segment + "~")
    return base_url if not after else before + segment + "/" + after.partition("/")[2]


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
