"""Lets only the operator onto the control plane: by token, or on pages by a signed-in session.

It knows one token and nothing of rollouts: a minted agent key opens nothing here.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from proxy.headers import first
from proxy.refusals import Refusal
from proxy.sessions import COOKIE, Sessions

SIGN_IN = "/ui/sign-in"

_OPEN = frozenset({"/healthz", "/readyz"})  # for probes that carry no token; they name nobody
_OPEN_PAGES = (SIGN_IN, "/ui/static/")  # what signing in takes
_PAGES = frozenset({"/", "/docs", "/openapi.json"})
_PAGE_FOLDERS = ("/ui/", "/static/docs/")
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="truezero"'),)


@dataclass(frozen=True, slots=True)
class Guard:
    """Stands before every control route of one deployment.

    ``token`` is the admin token, None where there is none and all may pass. ``wall`` is
    seconds since the epoch.
    """

    token: bytes | None = field(repr=False)
    sessions: Sessions
    wall: Callable[[], float]

    def check(self, scope: dict[str, Any]) -> None:
        """Return where the request may pass.

        Raises:
            Refusal: 401 without the admin token, or 303 to the sign-in page where a person
                asks for a page. REST never looks at the session, so that no page of another
                origin can use it there.
        """
        path: str = scope["path"]
        if self.token is None or path in _OPEN or path.startswith(_OPEN_PAGES):
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

    def opens(self, token: bytes | None) -> bool:
        """Whether this is the admin token; compared in constant time."""
        return self.token is not None and hmac.compare_digest(token or b"", self.token)


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
