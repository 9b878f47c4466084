"""Read the rollout and the upstream of a request from its raw path and headers.

Only the bytes as received count, never a URL rebuilt from the Host header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, unquote_to_bytes, urljoin, urlsplit, urlunsplit

from classifier.records import RESERVED, UNATTRIBUTED, Attribution, id_flaw
from proxy.routing import headers as http_headers
from proxy.routing import refusals
from proxy.routing.keys import AGENT, Keyring, KeyUse, OperatorKeys, without_keys
from proxy.routing.upstreams import SHARED, Upstream, normalised

# --- the rollout in W3C baggage (w3.org/TR/baggage, version of 2024) ---------------------------


HEADER = b"baggage"
ROLLOUT = b"truezero.rollout"


def rollout(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the value of the first member `truezero.rollout`, percent-encoded as it came.

    Several headers are one list (RFC 9110 §5.3). Properties behind `;` mean nothing here.
    """
    for name, value in headers:
        if name == HEADER and ROLLOUT in value:
            for member in value.split(b","):
                key, _, rest = member.partition(b"=")
                if key.strip() == ROLLOUT:
                    return rest.partition(b";")[0].strip()
    return None


# --- rollout and upstream ----------------------------------------------------------------------


_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
_BLANKS = b" \t"  # around a header's value, and no part of it (RFC 9110 §5.5)
_V1, _V1_BEGUN, _DOUBLED = b"/v1", b"/v1/", b"/v1/v1/"
_DOT_SEGMENT = re.compile(rb"(?:^|/|%2f|%5c)(?:\.|%2e){1,2}(?=/|%2f|%5c|$)", re.IGNORECASE)
_TARGET_BYTES = re.compile(rb"[\x21-\x7e]*\Z")
# What clients append to a base URL that is the service's own address, by whose client does so.
_BARE = re.compile(
    rb"/(?:"
    rb"(?P<openai>(?:v1/)?(?:chat/completions|completions|responses|embeddings|models|realtime))"
    rb"|(?P<anthropic>v1/messages(?:/count_tokens)?)"
    rb"|(?P<gemini>v1(?:beta|alpha)?/"
    rb"(?:models/[!-.0-~]+:[A-Za-z]+|interactions(?:/[!-.0-~]+(?:/cancel)?)?))"
    rb")\Z"
)

_PORTS = {"http": 80, "https": 443}

# Longer paths are not cached: they hardly repeat, and would fill the memory.
CACHED_BYTES = 2048

_NO_KEYS = OperatorKeys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The rollout and the upstream of one request.

    ``path`` is the raw path after the upstream's name, beginning with ``/``; ``query``
    is raw. ``proven``: a secret or a rollout key proves the rollout. ``keys``: the owner of the key
    that the call takes to the provider, as far as that is known yet.
    """

    rollout_id: str
    upstream: Upstream
    role: str
    path: bytes
    query: bytes
    attribution: Attribution
    proven: bool
    keys: KeyUse = KeyUse.CALLERS

    @property
    def prefix(self) -> bytes:
        """The upstream's prefix, without a `/v1` at its end if the path begins with one."""
        prefix = self.upstream.prefix
        if prefix and prefix.endswith(_V1) and self.path.startswith(_V1_BEGUN):
            return prefix[: -len(_V1)]
        return prefix

    @property
    def forwarded(self) -> bytes:
        """The request target to send: prefix, path and query as received."""
        target = self.prefix + self.path
        return target + b"?" + self.query if self.query else target


def own_location(location: bytes, raw_path: bytes, target: Target) -> bytes:
    """Return where an agent goes on whose upstream redirects it.

    A place of the upstream's own, as servers name that of a path with a slash, is a path of this
    service; another one stays as it is, but is a whole URL then.

    Arguments:
        location: as received (RFC 9110 §10.2.2).
        raw_path: that the agent asked for, as received.
    """
    upstream = target.upstream
    asked = upstream.origin + target.forwarded.decode("latin-1")
    try:
        url = urljoin(asked, location.decode("latin-1").strip())
        to = urlsplit(url)
        own = _is_same_host(to, urlsplit(upstream.origin))
    except ValueError:  # a port that is none, half an IPv6 address
        return location
    path = to.path.encode("latin-1") or b"/"
    if not own or not path.startswith(target.prefix + b"/"):
        return url.encode("latin-1")
    mount = raw_path.removesuffix(target.path).rstrip(b"/")
    rest = urlunsplit(("", "", "", to.query, to.fragment)).encode("latin-1")
    return mount + path.removeprefix(target.prefix) + rest


def _is_same_host(to: SplitResult, own: SplitResult) -> bool:
    """Return True if it is the same origin, or differs by http in place of https.

    A server behind a TLS proxy does not know that it is reached by https.
    """
    if to.scheme not in _PORTS or to.hostname != own.hostname:
        return False
    if (to.port or _PORTS[to.scheme]) == (own.port or _PORTS[own.scheme]):
        return to.scheme == own.scheme
    return to.port is None and own.port is None


def is_data_plane(raw_path: bytes, upstreams: Mapping[str, Upstream]) -> bool:
    """Return True if a path is an agent's: ``/r/…``, ``/{upstream}/…`` or a bare model path."""
    if raw_path.startswith(b"/r/") or raw_path == b"/r":
        return True
    name, slash, _ = raw_path[1:].partition(b"/")
    plain = normalised(name.decode("latin-1"))
    if plain in upstreams:
        return slash != b"" or plain not in SHARED
    return _BARE.match(raw_path) is not None


def address(
    raw_path: bytes,
    query: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    *,
    upstreams: Mapping[str, Upstream],
    keyring: Keyring,
) -> Target:
    """Read a request's identity and destination (contract §1, in its order of trust).

    Arguments:
        raw_path: as received, percent-encoding kept.
        headers: names in lower case.

    Raises:
        Refusal: the path names no rollout, no known upstream, or cannot be forwarded.
    """
    return Addresses(upstreams, keyring).read(raw_path, query, headers)


class Addresses:
    """Read requests' rollouts and destinations, with a cache of repeated paths.

    Arguments:
        upstreams: all there are, by name.
        keyring: checks rollouts' secrets and keys.
        operator_keys: for which upstreams the operator has keys.
        proof_required: rollouts are to be proven, and roles: who does not prove one is the agent.
        unattributed: called with the upstream and the headers by name of a call that names no
            rollout; raises a Refusal where it is not let in. None refuses all of them.
    """

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        keyring: Keyring,
        *,
        operator_keys: OperatorKeys = _NO_KEYS,
        proof_required: bool = False,
        unattributed: Callable[[Upstream, Mapping[bytes, bytes]], None] | None = None,
    ) -> None:
        self._unattributed = unattributed
        self._upstreams = upstreams
        self._keyring = keyring
        self._operator_keys = operator_keys
        self.proof_required = proof_required
        self._by_path = lru_cache(maxsize=4096)(self._of_path)

    def read(self, raw_path: bytes, query: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Target:
        """Read one request, as `address` does."""
        by_name = http_headers.named(headers)
        minted = by_name.get(http_headers.ROLLOUT_KEY_HEADER)
        minted = http_headers.minted_key(headers) if minted is None else minted.strip(_BLANKS)
        role = by_name.get(http_headers.ROLE_HEADER)
        if role is not None:
            role = role.strip(_BLANKS)
        if raw_path.startswith(b"/r/") or raw_path == b"/r":
            cached = len(raw_path) + len(query) + len(minted or b"") < CACHED_BYTES
            return (self._by_path if cached else self._of_path)(raw_path, query, minted, role)
        who = _header_identity(by_name, minted, self._keyring, headers)
        if who is not None:
            return self._target(who, role, raw_path, query)
        if self._unattributed is None:
            raise refusals.no_rollout(_right_path(raw_path))
        target = self._target(_NOBODY, role, raw_path, query)
        self._unattributed(target.upstream, by_name)
        return target

    def _of_path(
        self, raw_path: bytes, query: bytes, minted: bytes | None, role: bytes | None
    ) -> Target:
        segment, slash, rest = raw_path[3:].partition(b"/")
        named, rest = _path_role(slash + rest)
        claimed = named.encode() if named is not None else role
        who = _path_identity(segment, minted, claimed, self._keyring)
        return self._target(who, claimed, rest, query)

    def _target(self, who: _Identity, claimed: bytes | None, rest: bytes, query: bytes) -> Target:
        upstream, path = _upstream(rest, self._upstreams)
        keys = self._operator_keys.use(upstream)
        if who is _NOBODY and keys is not KeyUse.NOBODYS:
            keys = KeyUse.CALLERS
        return Target(
            rollout_id=who.rollout_id,
            upstream=upstream,
            role=self._role(who, claimed),
            path=_forwardable(path, query),
            query=without_keys(query) if keys is KeyUse.OPERATORS else query,
            attribution=who.attribution,
            proven=who.proven,
            keys=keys,
        )

    def _role(self, who: _Identity, claimed: bytes | None) -> str:
        named = None if claimed is None else _checked_role(claimed.decode("latin-1"))
        if self.proof_required:
            return who.role or AGENT
        return named or who.role or AGENT


@dataclass(frozen=True, slots=True)
class _Identity:
    """The rollout that a call belongs to; ``role`` is the one that a secret or a key proves."""

    rollout_id: str
    attribution: Attribution
    proven: bool
    role: str | None = None


_NOBODY = _Identity(UNATTRIBUTED, Attribution.UNATTRIBUTED, False)


def _path_identity(
    segment: bytes, minted: bytes | None, claimed: bytes | None, keyring: Keyring
) -> _Identity:
    named = _decoded(segment)
    bare, tilde, secret = named.rpartition("~")
    if tilde:
        if keyring.opens(bare, secret):
            return _Identity(checked_rollout(bare), Attribution.PATH, True)
        role = "" if claimed is None else claimed.decode("latin-1")
        if role and keyring.opens(bare, secret, role):
            return _Identity(checked_rollout(bare), Attribution.PATH, True, role)
    rollout_id = checked_rollout(named)
    holder = None if minted is None else keyring.holder_of(minted.decode("latin-1"))
    if holder is None or holder[0] != rollout_id:
        return _Identity(rollout_id, Attribution.PATH, False)
    return _Identity(rollout_id, Attribution.PATH, True, holder[1])


def _path_role(path: bytes) -> tuple[str | None, bytes]:
    if not path.startswith(b"/as/"):
        return None, path
    role, slash, rest = path[4:].partition(b"/")
    return _checked_role(_decoded(role)), slash + rest


def _header_identity(
    headers: Mapping[bytes, bytes],
    minted: bytes | None,
    keyring: Keyring,
    pairs: Sequence[tuple[bytes, bytes]],
) -> _Identity | None:
    if minted is not None:
        holder = keyring.holder_of(minted.decode("latin-1"))
        if holder is None:
            raise refusals.unknown_key()
        return _Identity(holder[0], Attribution.MINTED_KEY, True, holder[1])
    named = headers.get(http_headers.ROLLOUT_HEADER)
    if named is not None:
        named = named.strip(_BLANKS)
        return _Identity(checked_rollout(_text(named)), Attribution.HEADER, False)
    if HEADER in headers:  # proves no more than the next, but names a rollout on purpose
        carried = rollout(pairs)
        if carried:
            return _Identity(checked_rollout(_decoded(carried)), Attribution.BORROWED_HEADER, False)
    for name in http_headers.BORROWED:
        value = headers.get(name)
        value = value and value.strip(_BLANKS)
        if value:
            return _Identity(checked_rollout(_text(value)), Attribution.BORROWED_HEADER, False)
    return None


def _right_path(path: bytes) -> str | None:
    """Return a bare path of a model with a rollout and an upstream; None of any other path."""
    match = _BARE.match(path)
    if match is None:
        return None
    upstream = match.lastgroup
    version = "" if path.startswith(b"/v1") else "/v1"
    return f"/r/{{rollout}}/{upstream}{version}{path.decode('ascii')}"


def checked_rollout(rollout_id: str) -> str:
    """Return the id if it can name a rollout.

    Raises:
        Refusal: empty, reserved, longer than 200 characters, or with control characters.
    """
    if not rollout_id:
        raise refusals.bad_rollout_empty()
    if rollout_id in RESERVED:
        raise refusals.reserved_rollout(rollout_id)
    flaw = id_flaw(rollout_id)
    if flaw is not None:
        raise refusals.bad_rollout(flaw)
    return rollout_id


def _checked_role(role: str) -> str:
    if not _ROLE.match(role):
        raise refusals.bad_role()
    return role


def _decoded(segment: bytes) -> str:
    return _text(unquote_to_bytes(segment) if b"%" in segment else segment)


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise refusals.bad_rollout_encoding() from None


def _upstream(path: bytes, upstreams: Mapping[str, Upstream]) -> tuple[Upstream, bytes]:
    segment, slash, rest = path.removeprefix(b"/").partition(b"/")
    name = normalised(segment.decode("latin-1"))
    upstream = upstreams.get(name)
    if upstream is None:
        raise refusals.unknown_upstream(name, _right_path(path), upstreams)
    if upstream.url is None:
        raise refusals.unconfigured_upstream(name)
    return upstream, (slash + rest) or b"/"


def _forwardable(path: bytes, query: bytes) -> bytes:
    if path.startswith(_DOUBLED):
        path = path[3:]
    if b"." in path or b"%2" in path:
        _refuse_dot_segments(path)
    if not (_TARGET_BYTES.match(path) and _TARGET_BYTES.match(query)):
        raise refusals.bad_path_bytes()
    return path


def _refuse_dot_segments(path: bytes) -> None:
    """Refuse dot segments: one could leave an upstream's prefix."""
    if _DOT_SEGMENT.search(path):
        raise refusals.bad_path_segments()
