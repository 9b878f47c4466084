"""The address of a service and the paths of its REST API; loads neither httpx nor pydantic."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import metadata
from typing import Any
from urllib.parse import quote, urlsplit

from truezero.mistakes import other_release
from truezero.sdk.errors import ServiceError

DEFAULT_URL = "http://127.0.0.1:8383"  # where `truezero serve` listens by default
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
ROLLOUTS = "/rollouts"
BATCHES = "/batches"
HEALTH = "/healthz"
EXPORT = "/rollouts/export"
CSV = {"accept": "text/csv"}
CLIENT = "x-truezero-client"  # the header with the client's version


def service_url(url: str | None) -> str:
    """Return the service's address: the one given, else ``TRUEZERO_URL``, else the default.

    Raises:
        ServiceError: ``bad_url`` if it is not an http:// or https:// URL.
    """
    url = (url or os.environ.get("TRUEZERO_URL") or DEFAULT_URL).rstrip("/")
    if re.match(r"https?://[^/]", url, re.IGNORECASE):
        return url
    mended = "" if "://" in url else f", for example http://{url}"
    raise ServiceError(
        f"the service's address {url!r} does not begin with http:// or https://: "
        f"set TRUEZERO_URL to the whole URL{mended}",
        code="bad_url",
    )


def is_on_loopback(url: str | None) -> bool:
    """Return True if the service's address names this machine.

    Raises:
        ServiceError: ``bad_url`` as ``service_url``.
        ValueError: the address cannot be parsed.
    """
    return urlsplit(service_url(url)).hostname in _LOOPBACK


def client_headers(token: str | None) -> dict[str, str]:
    """Return the headers of every request: the client's version, and the admin token.

    Arguments:
        token: by default ``TRUEZERO_ADMIN_TOKEN``.
    """
    token = token or os.environ.get("TRUEZERO_ADMIN_TOKEN")
    shown = {"authorization": f"Bearer {token}"} if token else {}
    return {CLIENT: _version(), **shown}


def present(**params: Any) -> dict[str, Any]:
    """Return the parameters of a query that have a value."""
    return {name: value for name, value in params.items() if value is not None}


def of_rollout(rollout_id: str, part: str = "") -> str:
    """Return the path of a rollout, or of a part of it."""
    return f"{ROLLOUTS}/{quote(rollout_id, safe='')}{part}"


def of_batch(batch: str, part: str = "") -> str:
    """Return the path of a batch, or of a part of it."""
    return f"{BATCHES}/{quote(batch, safe='')}{part}"


def check_version(theirs: str) -> None:
    """Check that a service is of this client's release.

    Raises:
        ServiceError: ``other_version`` if it is not.
    """
    sentence = other_release(service=theirs, client=_version())
    if sentence is not None:
        raise ServiceError(sentence, code="other_version")


@cache
def _version() -> str:
    return metadata.version("truezero")
