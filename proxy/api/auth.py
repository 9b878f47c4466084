"""Access to the control plane: by port, admin token, or a signed-in session on pages.

Agents' keys grant no access.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from proxy.api.sessions import COOKIE, Sessions
from proxy.routing.addresses import LocalNames, name_of
from proxy.routing.errors import Refusal
from proxy.routing.headers import first

SIGN_IN = "/ui/sign-in"

_OPEN = frozenset({"/healthz", "/readyz"})  # for probes without a token
_OPEN_PAGES = (SIGN_IN, "/ui/static/")  # needed to sign in
_PAGES = frozenset({"/", "/docs", "/help", "/openapi.json"})
_PAGE_FOLDERS = ("/ui/", "/static/docs/")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="truezero"'),)


@dataclass(frozen=True, slots=True)
class PortPolicy:
    """Which plane is served on which port.

    ``control_port`` is the control plane's own, None if both share one.
    """

    control_port: int | None = None

    def serves_agents(self, scope: dict[str, Any]) -> bool:
        """Return whether the port of this request serves agents' calls."""
        return self.control_port is None or scope["server"][1] != self.control_port

    def check(self, scope: dict[str, Any]) -> None:
        """Return if the port of this request serves the control plane.

        Raises:
            Refusal: 404 on the agents' port, except for `/healthz`.
        """
        if self.control_port is None or scope["path"] == "/healthz":
            return
        if self.serves_agents(scope):
            raise Refusal(404, "agents_only", "this port serves agents' calls only")


_LOOPBACK = LocalNames()


@dataclass(frozen=True, slots=True)
class ControlAuth:
    """Authenticates requests to the control plane.

    ``token`` is the admin token; None allows every request from this machine. ``wall`` is
    seconds since the epoch. ``names`` are those of this service.
    """

    token: bytes | None = field(repr=False)
    sessions: Sessions
    wall: Callable[[], float]
    names: LocalNames = _LOOPBACK

    def check(self, scope: dict[str, Any]) -> None:
        """Return if the request is authorized.

        Raises:
            Refusal: 401 without the admin token, or 303 to the sign-in page for a browser's
                request of a page. REST ignores the session, so that no page of another
                origin can use it. Where no token is set, 403 for a browser's request made by
                another site: cross-origin, or by DNS rebinding.
        """
        path: str = scope["path"]
        if self.token is None:
            self._check_local(scope)
            return
        if path in _OPEN or path.startswith(_OPEN_PAGES):
            return
        if self.opens(_bearer(scope["headers"])):
            return
        page = path in _PAGES or path.startswith(_PAGE_FOLDERS)
        if page and self.sessions.holds(session_of(scope["headers"]), self.wall()):
            return
        if page and b"text/html" in (first(scope["headers"], b"accept") or b""):
            raise _to_sign_in(scope)
        raise Refusal(
            401,
            "unauthorized",
            "the control plane requires `Authorization: Bearer` with TRUEZERO_ADMIN_TOKEN",
            _CHALLENGE,
        )

    def _check_local(self, scope: dict[str, Any]) -> None:
        host = (first(scope["headers"], b"host") or b"").decode("latin-1").lower()
        if not self.names.knows(host):
            raise Refusal(
                403,
                "unknown_host",
                f"host {name_of(host)[:100]!r} is not allowed without TRUEZERO_ADMIN_TOKEN; set "
                "the token, or the host in TRUEZERO_PUBLIC_URL",
            )
        origin = (first(scope["headers"], b"origin") or b"").decode("latin-1").lower()
        if origin and scope["method"] not in _SAFE and origin.partition("://")[2] != host:
            raise Refusal(403, "cross_origin", "cross-origin requests cannot change anything")

    def opens(self, token: bytes | None) -> bool:
        """Return whether this is the admin token; compared in constant time."""
        return self.token is not None and hmac.compare_digest(token or b"", self.token)


def session_of(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the session in a request's cookies, empty if there is none."""
    cookies = b";".join(value for name, value in headers if name == b"cookie")
    pairs = (cookie.strip().partition(b"=") for cookie in cookies.split(b";"))
    return next((value.decode("latin-1") for name, _, value in pairs if name == COOKIE), "")


def _bearer(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    scheme, _, token = (first(headers, b"authorization") or b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


def _to_sign_in(scope: dict[str, Any]) -> Refusal:
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    come_back = quote(f"{path}?{query}" if query else path, safe="/")
    location = f"{SIGN_IN}?next={come_back}".encode()
    return Refusal(303, "sign_in", "sign in first", ((b"location", location),))
