"""A rollout's keys and base URLs, of its agent and of other roles."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from proxy.routing.keys import AGENT, Keyring
from proxy.routing.upstreams import Upstream
from truezero import models


def grant(
    keyring: Keyring,
    upstreams: Mapping[str, Upstream],
    rollout_id: str,
    *,
    role: str = AGENT,
    public_url: str,
    proven: bool,
) -> models.RoleAccess:
    """Return the access of one role in a rollout; nothing of it is stored.

    Arguments:
        proven: base URLs carry a secret; such a call is looked up in every process at once.
    """
    segment = quote(rollout_id, safe="")
    if proven:
        segment += "~" + keyring.secret_of(rollout_id, role)
    if role != AGENT:
        segment += f"/as/{role}"
    urls = {
        name: f"{public_url}/r/{segment}/{name}{upstream.base_path}"
        for name, upstream in upstreams.items()
        if upstream.url is not None
    }
    return models.RoleAccess(
        key=keyring.mint(rollout_id, role), base_urls=urls, env=_env(urls, upstreams)
    )


def _env(urls: Mapping[str, str], upstreams: Mapping[str, Upstream]) -> dict[str, str]:
    """Map the environment variables of common agents to base URLs."""
    return {
        variable: urls[name]
        for name, upstream in upstreams.items()
        for variable in upstream.env
        if name in urls
    }
