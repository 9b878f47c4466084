"""API keys: those that prove a call's rollout, and the operator's, which replace a caller's key.

A rollout's keys are made and checked with one server secret. They open no control route, and none
is stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import unquote_plus

from proxy.routing.upstreams import Auth, Upstream, asks_for_no_key

_SECRET_BYTES = 18  # 144 bits, 24 characters in a URL
_MINTED = "tz-"

AGENT = "agent"  # the role of whoever shows no other role's secret


@dataclass(frozen=True, slots=True)
class Keyring:
    """Make and check the secrets of rollouts.

    ``secret`` is the server's own, the same in every process on one database.
    """

    secret: bytes = field(repr=False)

    def secret_of(self, rollout_id: str, role: str = AGENT) -> str:
        """Return the secret behind ``~`` in the base_url of a rollout's agent, or other role."""
        named = "rollout" if role == AGENT else f"role\0{role}"
        message = f"{named}\0{rollout_id}".encode()
        digest = hmac.digest(self.secret, message, hashlib.sha256)
        return base64.urlsafe_b64encode(digest[:_SECRET_BYTES]).decode()

    def opens(self, rollout_id: str, secret: str, role: str = AGENT) -> bool:
        """Return True if the secret is that rollout's and role's, in constant time."""
        return hmac.compare_digest(self.secret_of(rollout_id, role).encode(), secret.encode())

    def mint(self, rollout_id: str, role: str = AGENT) -> str:
        """Make the API key that names and proves a rollout and a role.

        ``tz-<id>.<secret>`` is an agent's, ``tz-<id>.<role>.<secret>`` another role's.
        """
        name = base64.urlsafe_b64encode(rollout_id.encode()).decode().rstrip("=")
        middle = "" if role == AGENT else f"{role}."
        return f"{_MINTED}{name}.{middle}{self.secret_of(rollout_id, role)}"

    def rollout_of(self, key: str) -> str | None:
        """Return the rollout that an agent's key proves, or None for any other key."""
        holder = self.holder_of(key)
        return holder[0] if holder is not None and holder[1] == AGENT else None

    def holder_of(self, key: str) -> tuple[str, str] | None:
        """Return the rollout and the role that a key proves, or None for any other key."""
        parts = key.removeprefix(_MINTED).split(".")
        if not (key.startswith(_MINTED) and len(parts) in (2, 3)):
            return None
        name, role, secret = parts[0], AGENT if len(parts) == 2 else parts[1], parts[-1]
        try:
            rollout_id = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
        return (rollout_id, role) if self.opens(rollout_id, secret, role) else None


# --- operator's keys ---------------------------------------------------------------------------


class KeyUse(Enum):
    """The owner of the key that a call takes to its provider."""

    CALLERS = "what the caller shows"
    EITHER = "it depends on what the caller shows, or on which credentials the operator has"
    OPERATORS = "the operator's"
    NOBODYS = "whatever the caller shows, to a server that may ask for none"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorKeys:
    """The operator's keys, and how they are used.

    ``static``: upstream name → key. ``signed``: the kinds of authentication for which the service
    may have credentials of its own. ``replace``: they take the place of what callers show; else
    they go in where callers show none. ``any_path``: they open any path of their upstream.
    ``guards_keyless``: a server that asks for no key opens model calls only.
    """

    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    signed: Collection[Auth] = ()
    replace: bool = False
    any_path: bool = False
    guards_keyless: bool = False

    def use(self, upstream: Upstream) -> KeyUse:
        """Return whose key a call to an upstream takes, as far as the upstream decides it."""
        if upstream.name in self.static and upstream.auth is not Auth.NONE:
            return KeyUse.OPERATORS if self.replace else KeyUse.EITHER
        if upstream.auth in self.signed:
            return KeyUse.EITHER
        keyless = self.guards_keyless and asks_for_no_key(upstream)
        return KeyUse.NOBODYS if keyless else KeyUse.CALLERS

    def identity(self, upstream: Upstream) -> bytes:
        """Return what the digest of the operator's key is taken of.

        Credentials that are renewed by the hour are one key: what tells them apart is the
        upstream's kind of authentication.
        """
        key = self.static.get(upstream.name)
        return key.encode() if key is not None else b"signer:" + upstream.auth.value.encode()


# Query parameters that name a key, an account or who pays, in lower case with ``-`` for ``_``:
# Gemini and Google's system parameters (cloud.google.com/apis/docs/system-parameters), Azure
# (learn.microsoft.com/azure/ai-foundry/openai/realtime-audio-reference), API Management.
_PARAMETERS = frozenset(
    {
        "key", "api-key", "apikey", "x-api-key", "x-goog-api-key", "access-token", "oauth-token",
        "token", "auth", "authorization", "subscription-key", "ocp-apim-subscription-key",
        "userproject", "quotauser", "x-goog-user-project", "x-goog-quota-user",
        "openai-organization", "openai-project",
    }
)  # fmt: skip
_SIGNED = "x-amz-"  # a presigned URL: AWS Signature Version 4
# Google reads headers and the method from `$httpHeaders` and `$httpMethod` too.
_SYSTEM, _FORMAT = "$", "$alt"


def without_keys(query: bytes) -> bytes:
    """Remove from a raw query what names a key or an account; the rest stays as it is."""
    if not query:
        return query
    return b"&".join(part for part in query.split(b"&") if not _names_a_key(part))


def _names_a_key(part: bytes) -> bool:
    """Return True if a parameter names a key, also for servers that separate two by ``;``."""
    return any(_is_key(pair.partition(b"=")[0]) for pair in part.split(b";"))


def _is_key(raw: bytes) -> bool:
    name = unquote_plus(raw.decode("latin-1"), "latin-1").strip().lower()
    if name.startswith(_SYSTEM):
        return name != _FORMAT
    name = re.sub(r"[_.]", "-", name)
    return name in _PARAMETERS or name.startswith(_SIGNED)
