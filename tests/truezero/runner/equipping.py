"""A rollout, and commands that are equipped for it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import PurePath

from truezero.models import RolloutRegistered
from truezero.runner.equipment import PreparedCommand, prepare

SECRET = "s3cret"
BASE = f"http://127.0.0.1:9/r/a%2Fb~{SECRET}"
KEY = f"tz-YS9i.{SECRET}"
ROLLOUT = RolloutRegistered(
    id="a/b",
    key=KEY,
    admitted=True,
    error=None,
    base_urls={
        "openai": f"{BASE}/openai/v1",
        "anthropic": f"{BASE}/anthropic",
        "gemini": f"{BASE}/gemini",
        "openrouter": f"{BASE}/openrouter/v1",
    },
    env={"OPENAI_BASE_URL": f"{BASE}/openai/v1", "ANTHROPIC_BASE_URL": f"{BASE}/anthropic"},
)
HOME = {"HOME": "/home/u", "PATH": "/bin"}


def told(
    *command: str, files: tuple[str, ...] = (), chosen: str | None = None, **environment: str
) -> PreparedCommand:
    return seen_with(environment, *command, files=files, chosen=chosen)


def seen_with(
    environment: Mapping[str, str],
    *command: str,
    files: tuple[str, ...] = (),
    chosen: str | None = None,
) -> PreparedCommand:
    return prepare(
        command,
        ROLLOUT,
        {**HOME, **environment},
        service_host="127.0.0.1",
        folder=PurePath("/run/home"),
        exists=lambda path: str(path) in files,
        chosen=chosen,
    )


def codex_settings(
    equipment: PreparedCommand, words: tuple[str, ...] | None = None
) -> Mapping[str, object]:
    words = words or equipment.command
    lines = [words[place + 1] for place, word in enumerate(words) if word == "-c"]
    settings = tomllib.loads("\n".join(lines))
    provider = settings["model_providers"][settings["model_provider"]]
    assert isinstance(provider, dict)
    return provider
