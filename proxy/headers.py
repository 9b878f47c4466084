"""How a request is dressed for the provider and an answer for the agent.

It never looks into a body, and never logs a header.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from proxy.upstreams import Auth

Pairs = list[tuple[bytes, bytes]]

# RFC 9110 §7.6.1: meant for one connection only, never forwarded.
HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip

KEY_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
ROLLOUT_HEADER = b"x-truezero-rollout"
ROLE_HEADER = b"x-truezero-role"

# Session names agents already send (wire-facts §7), strongest first.
BORROWED = (
    b"x-session-id", b"session_id", b"session-id", b"x-claude-code-session-id",
    b"helicone-session-id", b"x-litellm-session-id", b"x-litellm-trace-id",
    b"x-portkey-trace-id", b"x-bf-session-id",
)  # fmt: skip

_OURS = b"x-truezero-"
_IN_ONE_HEADER = frozenset({Auth.X_API_KEY, Auth.X_GOOG_API_KEY, Auth.API_KEY})
_NOT_FORWARDED = HOP_BY_HOP | {b"host", b"expect"}
_ONE_MESSAGE_ONLY = HOP_BY_HOP
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BAD_NAME = re.compile(rb'[\x00-\x20\x7f()<>@,;:\\\[\]={}"/?]')
_MINTED = b"tz-"
_NAMES_NONE = frozenset({b"keep-alive", b"close", b"Keep-Alive"})  # what clients mostly send

# AWS Signature Version 4: a signature names the host it was made for, so one made for this
# proxy's address is worth nothing at the provider's.
# docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
_SIGV4 = b"AWS4-HMAC-SHA256"
_SIGV4_KEY = re.compile(rb"Credential=([^/,\s]+)")
SIGNATURE_HEADERS = frozenset(
    {b"authorization", b"x-amz-date", b"x-amz-security-token", b"x-amz-content-sha256"}
)


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a header, by its lower-case name."""
    for header, value in headers:
        if header == name:
            return value
    return None


def shown_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The key a caller shows, in whichever provider's header, without ``Bearer``.

    Of an AWS signature it is the access key's id: all else in it differs from call to call.
    """
    for name, value in headers:
        if name in KEY_HEADERS and value:
            signer = _SIGV4_KEY.search(value) if is_signature(value) else None
            return signer[1] if signer else _bare(value)
    return None


def is_signature(authorization: bytes) -> bool:
    """Whether an Authorization header is an AWS signature, which covers host and body."""
    return authorization.startswith(_SIGV4)


def shows_key(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether headers dressed for a provider carry a key or a token for it."""
    return any(name in KEY_HEADERS for name, _ in headers)


def minted_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The key of ours that a caller shows, wherever he shows it."""
    for name, value in headers:
        if name in KEY_HEADERS and _bare(value).startswith(_MINTED):
            return _bare(value)
    return None


def key_digest(key: bytes | None, salt: bytes) -> str | None:
    """A key as it is stored: a salted 4-byte digest, ``key-3f9a01bc`` (contract §6)."""
    if not key:
        return None
    return "key-" + hashlib.blake2b(key, digest_size=4, key=salt).hexdigest()


def for_upstream(
    headers: Sequence[tuple[bytes, bytes]], *, host: bytes, auth: Auth, real_key: str | None
) -> Pairs:
    """Dress an agent's headers for the provider; order and duplicates stay.

    Arguments:
        headers: as received, names in lower case.
        host: the Host header of the upstream.
        auth: where the provider expects its key.
        real_key: put in where the caller shows a minted key or none.

    At an upstream that takes AWS signatures the caller's own is taken off, as none.
    """
    dropped = _NOT_FORWARDED | _named_by_connection(headers)
    if auth is Auth.AWS and is_signature(first(headers, b"authorization") or b""):
        dropped |= SIGNATURE_HEADERS
    dressed: Pairs = [(b"host", host)]
    shows_own = False
    for pair in headers:
        name, value = pair
        if name in dropped or name.startswith(_OURS):
            continue
        if name in KEY_HEADERS:
            if _bare(value).startswith(_MINTED):
                continue
            shows_own = True
        dressed.append(pair)
    if real_key is not None and not shows_own and auth is not Auth.NONE:
        dressed.append(_credential(auth, real_key))
    return dressed


def with_length(headers: Pairs, length: int) -> Pairs:
    """The same headers for a body of another length, in bytes; none where none was stated."""
    stated = b"%d" % length
    return [(name, stated if name == b"content-length" else value) for name, value in headers]


def for_agent(headers: Sequence[tuple[bytes, bytes]], exchange_id: str) -> Pairs:
    """Dress a provider's answer for the agent; names come out in lower case."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _ONE_MESSAGE_ONLY | _named_by_connection(lowered)
    dressed = [pair for pair in lowered if pair[0] not in dropped]
    if _BAD_VALUE.search(b"".join(value for _, value in dressed)):
        dressed = [pair for pair in dressed if not _BAD_VALUE.search(pair[1])]
    if _BAD_NAME.search(b"".join(name for name, _ in dressed)):
        dressed = [pair for pair in dressed if not _BAD_NAME.search(pair[0])]
    dressed.append((b"x-truezero-exchange", exchange_id.encode()))
    return dressed


def _bare(value: bytes) -> bytes:
    return value[7:].strip() if value[:7].lower() == b"bearer " else value.strip()


def _credential(auth: Auth, key: str) -> tuple[bytes, bytes]:
    if auth in _IN_ONE_HEADER:
        return auth.value.encode(), key.encode()
    return b"authorization", b"Bearer " + key.encode()


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    named: bytes | None = None
    for name, value in headers:
        if name == b"connection":
            named = value if named is None else named + b"," + value
    if named is None or named in _NAMES_NONE:
        return frozenset()
    return frozenset(token.strip().lower() for token in named.split(b","))
