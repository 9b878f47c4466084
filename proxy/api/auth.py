"""Authentication of the control plane: by port, admin token, or a signed-in session on pages.

Agents' keys grant no access.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

from proxy.routing.address_guard import LocalNames, name_of
from proxy.routing.errors import Refusal
from proxy.routing.headers import first

# --- sessions and sign-in links ----------------------------------------------------------------
# A signed cookie reveals nothing about the token. Only sessions that were signed out are stored.


COOKIE = b"truezero_session"
LIFE_S = 12 * 3600
LINK_LIFE_S = 600


@dataclass(frozen=True, slots=True)
class Sessions:
    """Issues and checks sessions and form tokens.

    ``key`` is derived from the deployment's secret and its admin token, so that every
    process accepts what any of them issued, and a new token ends every session. ``ended`` are
    the names of signed-out sessions.
    """

    key: bytes = field(repr=False)
    ended: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def of(cls, secret: bytes, token: bytes | None) -> Self:
        """Make the sessions of one deployment."""
        return cls(hmac.digest(secret, b"session\0" + (token or b""), hashlib.sha256))

    def issue(self, now: float, nonce: str) -> str:
        """Issue a session that ends LIFE_S seconds after ``now`` (epoch seconds).

        Arguments:
            nonce: distinguishes sessions of the same second; without a dot.
        """
        text = f"{int(now + LIFE_S)}.{nonce}"
        return f"{text}.{self._seal(b'ends', text)}"

    def holds(self, value: str, now: float) -> bool:
        """Return True for a valid session; compared in constant time."""
        text, _, seal = value.rpartition(".")
        if not hmac.compare_digest(self._seal(b"ends", text).encode(), seal.encode()):
            return False
        return _end(text) > now and self._name(value) not in self.ended

    def end(self, session: str) -> tuple[str, int]:
        """End a valid session in this process.

        Returns:
            Its name, which grants no access, and its end (epoch seconds), to announce to others.
        """
        name = self._name(session)
        self.ended.add(name)
        return name, _end(session)

    def invite(self, now: float, nonce: str) -> str:
        """Issue the secret of a sign-in link that ends LINK_LIFE_S after ``now`` (epoch seconds).

        Arguments:
            nonce: distinguishes links of the same second; without a dot.
        """
        text = f"{int(now + LINK_LIFE_S)}.{nonce}"
        return f"{text}.{self._seal(b'link', text)}"

    def invited(self, secret: str, now: float) -> tuple[str, int] | None:
        """Check the secret of a sign-in link; compared in constant time.

        Returns:
            Its name, which grants no access, and its end (epoch seconds); None if it was not
            issued here or has expired. A caller must record the name: it opens once.
        """
        text, _, seal = secret.rpartition(".")
        valid = hmac.compare_digest(self._seal(b"link", text).encode(), seal.encode())
        return (self._name(secret), _end(text)) if valid and _end(text) > now else None

    def form_token(self, session: str) -> str:
        """Return the CSRF token of a session's forms."""
        return self._seal(b"form", session)

    def accepts(self, form_token: str, session: str) -> bool:
        """Return True if a form came from a page of this session; compared in constant time."""
        return hmac.compare_digest(self.form_token(session).encode(), form_token.encode())

    def _name(self, session: str) -> str:
        return self._seal(b"name", session)[:32]

    def _seal(self, purpose: bytes, text: str) -> str:
        return hmac.digest(self.key, purpose + b"\0" + text.encode(), hashlib.sha256).hex()


def _end(session: str) -> int:
    return int(session.partition(".")[0])


# --- access to routes --------------------------------------------------------------------------


SIGN_IN = "/ui/sign-in"

_OPEN = frozenset({"/healthz", "/readyz"})  # for probes without a token
STATUS = "/status"
_OPEN_PAGES = (SIGN_IN, "/ui/static/")  # needed to sign in
_PAGES = frozenset({"/", "/docs", "/help", "/openapi.json", STATUS})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="truezero"'),)


@dataclass(frozen=True, slots=True)
class PortPolicy:
    """The planes that each port serves.

    ``control_port`` is the control plane's own, None if both share one.
    """

    control_port: int | None = None

    def serves_agents(self, scope: dict[str, Any]) -> bool:
        """Return True if the port of this request serves agents' calls."""
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
    seconds since the epoch. ``names`` are those of this service. ``status_public`` opens the
    short form of the status to everybody.
    """

    token: bytes | None = field(repr=False)
    sessions: Sessions
    wall: Callable[[], float]
    names: LocalNames = _LOOPBACK
    status_public: bool = False

    def check(self, scope: dict[str, Any]) -> None:
        """Return if the request is authorized.

        Raises:
            Refusal: 401 without the admin token, or 303 to the sign-in page for a browser's
                request of a page. REST ignores the session, so that no page of another
                origin can use it. If no token is set, 403 for a browser's request made by
                another site: cross-origin, or by DNS rebinding.
        """
        path: str = scope["path"]
        if self.token is None:
            self._check_local(scope)
            return
        if path in _OPEN or path.startswith(_OPEN_PAGES) or self.authorized(scope):
            return
        if path == STATUS and self.status_public:
            return
        page = _is_page(path)
        if page and b"text/html" in (first(scope["headers"], b"accept") or b""):
            raise _to_sign_in(scope)
        raise Refusal(
            401,
            "unauthorized",
            "the control plane requires `Authorization: Bearer` with TRUEZERO_ADMIN_TOKEN",
            _CHALLENGE,
        )

    def authorized(self, scope: dict[str, Any]) -> bool:
        """Return True for a request that shows the admin token, or a session for a page.

        Without a token every request that `check` lets in is authorized.
        """
        if self.token is None or self.opens(_bearer(scope["headers"])):
            return True
        session = session_of(scope["headers"])
        return _is_page(scope["path"]) and self.sessions.holds(session, self.wall())

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
        """Return True for the admin token; compared in constant time."""
        return self.token is not None and hmac.compare_digest(token or b"", self.token)


def _is_page(path: str) -> bool:
    return path in _PAGES or path.startswith("/ui/")


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
