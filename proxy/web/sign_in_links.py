"""Signing in: with the admin token, or once with a link that `truezero` printed."""

from __future__ import annotations

from proxy.api.auth import ControlAuth
from proxy.control.dashboard import Dashboard


async def opens(auth: ControlAuth, dashboard: Dashboard, given: str) -> bool:
    """Return whether this is the admin token, or the secret of a link that was never used."""
    if auth.opens(given.encode()):
        return True
    link = auth.sessions.invited(given, dashboard.now())
    if link is None:
        return False
    name, ends = link
    return await dashboard.use_link(name, ends=ends)
