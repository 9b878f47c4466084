"""Where settings are written: a file and the environment, as tables of raw values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from proxy.routing.upstreams import normalised

PREFIX = "TRUEZERO_"
CONFIG_FILE = "truezero.toml"

# Variables with our prefix that only the runner's side reads.
_RUNNERS = frozenset({"URL", "TOKEN", "CONFIG", "CORPUS", "OUTCOMES", "OUTCOME_PATIENCE_S"})
_UPSTREAM = re.compile(r"UPSTREAM_([A-Z0-9_]+)\Z")
_KEY = re.compile(r"KEY_([A-Z0-9_]+)\Z")


class SettingsError(ValueError):
    """An invalid setting: one sentence that names it and says what is wrong."""


def named_file(environment: Mapping[str, str]) -> Path | None:
    """Return the file that the environment names, else the working directory's, if any."""
    if named := environment.get(PREFIX + "CONFIG"):
        return Path(named)
    here = Path(CONFIG_FILE)
    return here if here.is_file() else None


def from_file(path: Path | None) -> dict[str, Any]:
    """Read a `truezero.toml`; no file has no settings.

    Raises:
        SettingsError: the file cannot be read.
    """
    if path is None:
        return {}
    try:
        return _lower_names(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: invalid TOML: {error}") from None


def from_token_file(path: Any) -> str:
    """Read the admin token from its file.

    Raises:
        SettingsError: the file cannot be read or is empty.
    """
    try:
        token = Path(str(path)).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"admin_token_file: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"admin_token_file: {path} is not text") from None
    if not token:
        raise SettingsError(f"admin_token_file: {path} is empty")
    return token


def _lower_names(table: dict[str, Any]) -> dict[str, Any]:
    """Normalise the names of upstreams, and lift the settings below `[policy]` to the top level."""
    if isinstance(table.get("policy"), dict):
        table |= table.pop("policy")
    for name in ("upstreams", "keys"):
        if isinstance(table.get(name), dict):
            table[name] = {normalised(key): value for key, value in table[name].items()}
    return table


def from_environment(environment: Mapping[str, str], known: Collection[str]) -> dict[str, Any]:
    """Read the variables of settings; an empty one is none.

    Arguments:
        known: the names of settings, in lower case.

    Raises:
        SettingsError: a variable with our prefix names no setting.
    """
    given: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        if named := _UPSTREAM.match(name):
            given.setdefault("upstreams", {})[normalised(named[1])] = {"url": value}
        elif named := _KEY.match(name):
            given.setdefault("keys", {})[normalised(named[1])] = value
        elif name.lower() in known:
            given[name.lower()] = value
        elif name not in _RUNNERS:
            raise SettingsError(f"unknown setting {variable} (see docs/reference/settings.md)")
    return {name: value for name, value in given.items() if value != ""}


def merged_tables(file: Any, env: Mapping[str, Any]) -> dict[str, Any]:
    """Combine a table of the file with one of the environment, which goes before, key by key."""
    table = dict(file) if isinstance(file, dict) else {}
    for name, change in env.items():
        before = table.get(name)
        both = isinstance(before, dict) and isinstance(change, dict)
        table[name] = {**before, **change} if both and before is not None else change
    return table
