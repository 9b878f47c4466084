"""Signed session cookies of people who signed in, and the links with which they may.

A session reveals nothing about the token; only sessions that were signed out are stored.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Self

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
        """Return whether this is a valid session; compared in constant time."""
        text, _, seal = value.rpartition(".")
        if not hmac.compare_digest(self._seal(b"ends", text).encode(), seal.encode()):
            return False
        return _end(text) > now and self._name(value) not in self.ended

    def end(self, session: str) -> tuple[str, int]:
        """End a valid session in this process.

        Returns:
            Its name, which grants no access, and when it would have ended (epoch seconds), to
            announce to other processes.
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
            Its name, which grants no access, and when it ends (epoch seconds); None if it was not
            issued here or has expired. Whoever accepts it must note the name: it opens once.
        """
        text, _, seal = secret.rpartition(".")
        valid = hmac.compare_digest(self._seal(b"link", text).encode(), seal.encode())
        return (self._name(secret), _end(text)) if valid and _end(text) > now else None

    def form_token(self, session: str) -> str:
        """Return the CSRF token of a session's forms."""
        return self._seal(b"form", session)

    def accepts(self, form_token: str, session: str) -> bool:
        """Return whether a form came from a page of this session; compared in constant time."""
        return hmac.compare_digest(self.form_token(session).encode(), form_token.encode())

    def _name(self, session: str) -> str:
        return self._seal(b"name", session)[:32]

    def _seal(self, purpose: bytes, text: str) -> str:
        return hmac.digest(self.key, purpose + b"\0" + text.encode(), hashlib.sha256).hex()


def _end(session: str) -> int:
    return int(session.partition(".")[0])
