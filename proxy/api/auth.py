"""Lets only the operator onto the control plane: by port, token, or a signed-in session on pages.

It knows one token and nothing of rollouts: a minted agent key opens nothing here.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

from proxy.api.sessions import COOKIE, Sessions
from proxy.routing.errors import Refusal
from proxy.routing.headers import first

SIGN_IN = "/ui/sign-in"

_OPEN = frozenset({"/healthz", "/readyz"})  # for probes that carry no token; they name nobody
_OPEN_PAGES = (SIGN_IN, "/ui/static/")  # what signing in takes
_PAGES = frozenset({"/", "/docs", "/openapi.json"})
_PAGE_FOLDERS = ("/ui/", "/static/docs/")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="truezero"'),)


@dataclass(frozen=True, slots=True)
class PortPolicy:
    """Which plane answers at which port.

    ``control_port`` is the control plane's own, None where both answer at one.
    """

    control_port: int | None = None

    def lets_agents_in(self, scope: dict[str, Any]) -> bool:
        """Whether agents' calls are answered at the port that this request came to."""
        return self.control_port is None or scope["server"][1] != self.control_port

    def check(self, scope: dict[str, Any]) -> None:
        """Return where a request of the control plane may be answered.

        Raises:
            Refusal: 404 at the port that is for agents, but for a sign of life.
        """
        if self.control_port is None or scope["path"] == "/healthz":
            return
        if self.lets_agents_in(scope):
            raise Refusal(404, "agents_only", "only agents' calls are answered at this port")


@dataclass(frozen=True, slots=True)
class ControlAuth:
    """Stands before every control route of one deployment.

    ``token`` is the admin token, None where there is none and all of this machine may
    pass. ``wall`` is seconds since the epoch. ``host`` is a name of this service besides
    ``localhost``, in lower case.
    """

    token: bytes | None = field(repr=False)
    sessions: Sessions
    wall: Callable[[], float]
    host: str | None = None

    def check(self, scope: dict[str, Any]) -> None:
        """Return where the request may pass.

        Raises:
            Refusal: 401 without the admin token, or 303 to the sign-in page where a person
                asks for a page. REST never looks at the session, so that no page of another
                origin can use it there. 403 without a token where a browser was sent by
                another site, by a link, a form or a name that it made point here.
        """
        path: str = scope["path"]
        if self.token is None:
            self._from_here(scope)
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
            "the control plane needs `Authorization: Bearer` with TRUEZERO_ADMIN_TOKEN",
            _CHALLENGE,
        )

    def _from_here(self, scope: dict[str, Any]) -> None:
        host = (first(scope["headers"], b"host") or b"").decode("latin-1").lower()
        if not (_is_here(host) or _name(host) == self.host):
            raise Refusal(
                403,
                "unknown_host",
                f"without TRUEZERO_ADMIN_TOKEN only localhost and addresses are answered, not "
                f"{_name(host)[:100]!r}: set the token, or name it in TRUEZERO_PUBLIC_URL",
            )
        origin = (first(scope["headers"], b"origin") or b"").decode("latin-1").lower()
        if origin and scope["method"] not in _SAFE and origin.partition("://")[2] != host:
            raise Refusal(403, "cross_origin", "a page of another origin may change nothing here")

    def opens(self, token: bytes | None) -> bool:
        """Whether this is the admin token; compared in constant time."""
        return self.token is not None and hmac.compare_digest(token or b"", self.token)


def _name(host: str) -> str:
    """A Host header without its port."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def _is_here(host: str) -> bool:
    """Whether a Host header is localhost or an address: no name that anybody's DNS can turn."""
    name = _name(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def session_of(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The session that a request's cookies carry; empty where there is none."""
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
