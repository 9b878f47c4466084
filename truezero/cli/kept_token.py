"""The admin token of a service on this machine, found where `truezero token` finds it.

It reads the settings unchecked: to load and check them takes longer than most commands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from truezero.sdk.addresses import is_on_loopback
from truezero.sdk.errors import ServiceError

_PREFIX = "TRUEZERO_"
_SETTINGS = ("admin_token", "admin_token_file", "database_url")


def kept_token(url: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the token that the settings here name or `truezero serve --make-token` keeps here.

    Arguments:
        url: the service's address; one elsewhere is shown no token that it did not give.

    Returns:
        None if there is none, or this user may not read it: the service says what it needs.
    """
    from proxy.server.admin_token import token_file  # noqa: PLC0415  loads no service

    try:
        if not is_on_loopback(url):
            return None
    except (ServiceError, ValueError):  # as the connection will say
        return None
    given = _table(environment) | {
        name: value for name in _SETTINGS if (value := environment.get(_PREFIX + name.upper()))
    }
    if token := given.get("admin_token"):
        return str(token)
    try:
        return token_file(given).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _table(environment: Mapping[str, str]) -> dict[str, object]:
    file = Path(environment.get(_PREFIX + "CONFIG") or "truezero.toml")
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):  # which the service says
        return {}
