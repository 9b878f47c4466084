"""Rewrite request headers for the provider and response headers for the agent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from proxy.routing.upstreams import Auth

Pairs = list[tuple[bytes, bytes]]

# RFC 9110 §7.6.1: meant for one connection only, never forwarded.
HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip

KEY_HEADERS = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key"})
ROLLOUT_HEADER = b"x-truezero-rollout"
ROLLOUT_KEY_HEADER = b"x-truezero-key"  # a minted key beside the provider's own
ROLE_HEADER = b"x-truezero-role"
INJECTED_HEADER = b"x-truezero-injected"  # on each fault of a drill: no provider made it

# Session headers that agents already send (wire-facts §7), strongest first.
BORROWED = (
    b"x-session-id", b"session_id", b"session-id", b"x-claude-code-session-id",
    b"helicone-session-id", b"x-litellm-session-id", b"x-litellm-trace-id",
    b"x-portkey-trace-id", b"x-bf-session-id",
)  # fmt: skip

_OURS = b"x-truezero-"
_IN_ONE_HEADER = frozenset({Auth.X_API_KEY, Auth.X_GOOG_API_KEY, Auth.API_KEY})
_NOT_FORWARDED = HOP_BY_HOP | {b"host", b"expect"}
# What a value and a name must not contain (RFC 9110 §5). Deleting all that values may contain,
# and checking whether anything is left, takes a quarter of a search's time.
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BAD_NAME = re.compile(rb'[\x00-\x20\x7f()<>@,;:\\\[\]={}"/?]')
_IN_VALUES = bytes(byte for byte in range(256) if not _BAD_VALUE.search(bytes((byte,))))
_MINTED = b"tz-"
_NAMES_NONE = frozenset({b"keep-alive", b"close", b"Keep-Alive"})  # what clients mostly send
_CONNECTION = b"connection"
_NAME, _VALUE = itemgetter(0), itemgetter(1)

# AWS Signature Version 4: a signature names the host it was made for, so one made for this
# proxy's address is worth nothing at the provider's.
# docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
_SIGV4 = b"AWS4-HMAC-SHA256"
_SIGV4_KEY = re.compile(rb"Credential=([^/,\s]+)")
SIGNATURE_HEADERS = frozenset(
    {b"authorization", b"x-amz-date", b"x-amz-security-token", b"x-amz-content-sha256"}
)


# What else carries a credential, or chooses the account and who pays; none of it goes along with
# the operator's key. OpenAI: platform.openai.com/docs/api-reference/authentication; Google:
# cloud.google.com/apis/docs/system-parameters; Hugging Face's router; gateways' own headers.
_CREDENTIALS = KEY_HEADERS | SIGNATURE_HEADERS | {
    b"cookie", b"openai-organization", b"openai-project", b"x-goog-user-project",
    b"x-goog-iam-authorization-token", b"x-goog-iam-authority-selector", b"x-hf-bill-to",
    b"x-auth-token", b"x-access-token", b"ocp-apim-subscription-key", b"helicone-auth",
    b"cf-aig-authorization", b"x-portkey-api-key", b"x-litellm-api-key", b"x-bf-vk",
    # Not the method whose path was allowed: cloud.google.com/apis/docs/http-headers
    b"x-http-method-override", b"x-http-method", b"x-method-override",
}  # fmt: skip
_NOT_WITH_OPERATORS = _NOT_FORWARDED | _CREDENTIALS


class _Plan(NamedTuple):
    """The treatment of headers that follows from their names, which rarely differ between calls.

    ``passes`` is true for each header that is forwarded, ``keys`` are the places of API keys,
    ``unfit`` is true if a name is not valid.
    """

    passes: tuple[bool, ...]
    keys: tuple[int, ...]
    names_hops: bool  # there is a connection header
    unfit: bool


def _plan(names: tuple[bytes, ...], dropped: frozenset[bytes], ours: bytes | None) -> _Plan:
    return _Plan(
        passes=tuple(
            not (name in dropped or (ours is not None and name.startswith(ours))) for name in names
        ),
        keys=tuple(at for at, name in enumerate(names) if name in KEY_HEADERS),
        names_hops=_CONNECTION in names,
        unfit=any(map(_BAD_NAME.search, names)),
    )


@lru_cache(maxsize=256)
def _request_plan(names: tuple[bytes, ...]) -> _Plan:
    return _plan(names, _NOT_FORWARDED, _OURS)


@lru_cache(maxsize=256)
def _operators_plan(names: tuple[bytes, ...]) -> _Plan:
    """Plan a request with the operator's key; to some servers ``_`` in a name is ``-``."""
    return _plan(tuple(name.replace(b"_", b"-") for name in names), _NOT_WITH_OPERATORS, _OURS)


@lru_cache(maxsize=256)
def _response_plan(written: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], _Plan]:
    """Return the names in lower case, and the plan; a provider cannot speak for us."""
    names = tuple(map(bytes.lower, written))
    return names, _plan(names, HOP_BY_HOP, _OURS)


def _keys(headers: Sequence[tuple[bytes, bytes]]) -> Iterable[bytes]:
    """Return the values of the headers that carry keys."""
    return [headers[at][1] for at in _request_plan(tuple(map(_NAME, headers))).keys]


def named(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """Return the first value of each header, by its lower-case name."""
    return dict(reversed(headers))


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the first value of a header, by its lower-case name; `named` is for several."""
    for header, value in headers:
        if header == name:
            return value
    return None


def shown_key(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the caller's own API key, in whichever provider's header, without ``Bearer``.

    For an AWS signature it is the access key id: the rest of it differs from call to call. A
    rollout key is none: it goes to no provider.
    """
    for value in _keys(headers):
        if value and not (_MINTED in value and _is_minted(value)):
            signer = _SIGV4_KEY.search(value) if is_signature(value) else None
            return signer[1] if signer else _bare(value)
    return None


def is_signature(authorization: bytes) -> bool:
    """Return True if an Authorization header is an AWS signature, which covers host and body."""
    return authorization.startswith(_SIGV4)


def shows_own_key(headers: Sequence[tuple[bytes, bytes]], auth: Auth) -> bool:
    """Return True if a caller shows a key of its own to an upstream with this authentication.

    An upstream that takes AWS signatures rejects one made for the proxy's address.
    """
    return any(
        not (_is_minted(value) or (auth is Auth.AWS and is_signature(value)))
        for value in _keys(headers)
    )


def minted_key(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the rollout key that a caller sends where a provider takes its key."""
    for at in _request_plan(tuple(map(_NAME, headers))).keys:
        value = headers[at][1]
        if _MINTED in value and _is_minted(value):
            return _bare(value)
    return None


@lru_cache(maxsize=1024)
def key_digest(key: bytes | None, salt: bytes) -> str | None:
    """Digest a key for storage: 4 bytes, salted, ``key-3f9a01bc`` (contract §6)."""
    if not key:
        return None
    return "key-" + hashlib.blake2b(key, digest_size=4, key=salt).hexdigest()


def for_upstream(
    headers: Sequence[tuple[bytes, bytes]], *, host: bytes, auth: Auth, real_key: str | None
) -> Pairs:
    """Rewrite an agent's headers for the provider; order and duplicates stay.

    Arguments:
        headers: as received, names in lower case.
        host: the Host header of the upstream.
        auth: where the provider expects its key.
        real_key: added where the caller sends a rollout key or none.

    At an upstream that takes AWS signatures the caller's own signature is removed.
    """
    plan = _request_plan(tuple(map(_NAME, headers)))
    passing: Iterable[tuple[bytes, bytes]] = compress(headers, plan.passes)
    keys = [headers[at] for at in plan.keys]
    dropped = _by_connection(headers) if plan.names_hops else _NONE
    if auth is Auth.AWS and any(map(is_signature, map(_VALUE, keys))):
        dropped |= SIGNATURE_HEADERS
    if dropped:
        passing = (pair for pair in passing if pair[0] not in dropped)
    rewritten: Pairs = [(b"host", host), *passing]
    sends_own = False
    for pair in keys:
        if _is_minted(pair[1]):
            rewritten = [each for each in rewritten if each != pair]
        elif pair[0] not in dropped:
            sends_own = True
    if real_key is not None and not sends_own and auth is not Auth.NONE:
        rewritten.append(_credential(auth, real_key))
    return rewritten


def for_upstream_as_operator(
    headers: Sequence[tuple[bytes, bytes]], *, host: bytes, auth: Auth, real_key: str | None
) -> Pairs:
    """Rewrite an agent's headers for the provider, with nothing of the agent's that is a key.

    Arguments:
        real_key: the operator's; None if a signer adds its credential.
    """
    plan = _operators_plan(tuple(map(_NAME, headers)))
    rewritten: Pairs = [(b"host", host), *compress(headers, plan.passes)]
    if plan.names_hops and (dropped := _by_connection(headers)):
        rewritten = [pair for pair in rewritten if pair[0] not in dropped]
    if real_key is not None:
        rewritten.append(_credential(auth, real_key))
    return rewritten


def with_length(headers: Pairs, length: int) -> Pairs:
    """Replace the Content-Length, in bytes; none is added where none was."""
    stated = b"%d" % length
    return [(name, stated if name == b"content-length" else value) for name, value in headers]


def for_agent(headers: Sequence[tuple[bytes, bytes]], exchange_id: str) -> Pairs:
    """Rewrite a provider's response headers for the agent; names come out in lower case."""
    names, plan = _response_plan(tuple(map(_NAME, headers)))
    values = tuple(map(_VALUE, headers))
    rewritten = list(compress(zip(names, values), plan.passes))  # noqa: B905  of one length
    if plan.names_hops and (dropped := _by_connection(tuple(zip(names, values, strict=True)))):
        rewritten = [pair for pair in rewritten if pair[0] not in dropped]
    if plan.unfit or b"".join(values).translate(None, _IN_VALUES):
        rewritten = [pair for pair in rewritten if _is_fit(pair)]
    rewritten.append((b"x-truezero-exchange", exchange_id.encode()))
    return rewritten


def _is_fit(pair: tuple[bytes, bytes]) -> bool:
    return not (_BAD_NAME.search(pair[0]) or _BAD_VALUE.search(pair[1]))


def _is_minted(value: bytes) -> bool:
    return _MINTED in value and _bare(value).startswith(_MINTED)


def _bare(value: bytes) -> bytes:
    return value[7:].strip() if value[:7].lower() == b"bearer " else value.strip()


def _credential(auth: Auth, key: str) -> tuple[bytes, bytes]:
    if auth in _IN_ONE_HEADER:
        return auth.value.encode(), key.encode()
    return b"authorization", b"Bearer " + key.encode()


_NONE: frozenset[bytes] = frozenset()


def _by_connection(headers: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the headers that Connection names as hop-by-hop."""
    values = [value for name, value in headers if name == _CONNECTION]
    if len(values) == 1 and values[0] in _NAMES_NONE:
        return _NONE
    return frozenset(token.strip().lower() for value in values for token in value.split(b","))
