"""What a request chooses beside its model: account, region, tier, routing, beta and version.

An agent that chooses otherwise than before can make its own call fail; a digest tells.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import parse_qsl

import orjson

from proxy.wire.dialect import Payload

Selected = tuple[tuple[str, bytes], ...]

# OpenAI: platform.openai.com/docs/api-reference/authentication; Google:
# cloud.google.com/apis/docs/system-parameters. With the operator's key they are not forwarded.
_ACCOUNT = frozenset((b"openai-organization", b"openai-project", b"x-goog-user-project"))
# docs.claude.com/en/api/beta-headers and /versioning; platform.openai.com/docs/assistants
_OTHERS = frozenset((b"anthropic-beta", b"anthropic-version", b"openai-beta"))
HEADERS = _ACCOUNT | _OTHERS  # of which any may choose something
# Anthropic's only version, which all its SDKs send: it chooses nothing.
_USUAL = {b"anthropic-version": b"2023-06-01"}
_QUERY = "api-version"  # learn.microsoft.com/azure/ai-foundry/openai/reference
# platform.openai.com/docs/api-reference/chat/create (service_tier), openrouter.ai/docs
# (provider, models, route), docs.aws.amazon.com/bedrock (anthropic_beta in the body).
_FIELDS = frozenset(("service_tier", "provider", "models", "route", "anthropic_beta"))

MODEL = b'"model"'
ESCAPE = b"\\u006"
_ESCAPED = re.compile(rb"\\u006([0-9a-fA-F])")  # of the letters of "model", all are 0x6…
# Keys are case-insensitive to servers written in Go (pkg.go.dev/encoding/json, Unmarshal).
_SPELLINGS = frozenset(
    "".join(letter.upper() if bits >> at & 1 else letter for at, letter in enumerate("model"))
    for bits in range(1, 32)
)


def in_head(headers: Mapping[bytes, bytes], query: bytes, *, operators_key: bool) -> Selected:
    """Return what headers (names in lower case) and a raw query choose.

    Arguments:
        operators_key: the operator's key is put in, and what chooses an account is removed.
    """
    names = _OTHERS if operators_key else HEADERS
    found = [
        (name.decode(), value)
        for name in sorted(names.intersection(headers))
        if (value := headers[name].strip()) and value != _USUAL.get(name)
    ]
    versions = [
        (_QUERY, text.encode("latin-1", "replace"))
        for name, text in (parse_qsl(query.decode("latin-1")) if query else ())
        if name.lower() == _QUERY
    ]
    return (*found, *versions)


def in_body(payload: Payload) -> Selected:
    """Return what a JSON request body chooses."""
    return tuple(
        (name, _written(payload[name]))
        for name in sorted(_FIELDS.intersection(payload))
        if payload[name] is not None
    )


def _written(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeper than orjson writes, though it reads it
        return b"deep"


@lru_cache(maxsize=1024)
def digest(selected: Selected, salt: bytes) -> str | None:
    """Return a salted 8-byte digest of what was chosen; None for nothing."""
    if not selected:
        return None
    hashed = hashlib.blake2b(key=salt[:64], digest_size=8)
    for name, value in selected:
        hashed.update(b"%d %s %d " % (len(name), name.encode(), len(value)))
        hashed.update(value)
    return hashed.hexdigest()


def writes_model_twice(body: bytes, payload: Payload) -> bool:
    """Whether a JSON body has two keys that a server may take for its model.

    What is written twice in one object is there once when it was read and is written again.
    """
    if not _SPELLINGS.isdisjoint(payload):
        return "model" in payload or len(_SPELLINGS.intersection(payload)) > 1
    if ESCAPE in body:
        body = _ESCAPED.sub(lambda match: bytes((0x60 + int(match[1], 16),)), body)
    try:
        return body.count(MODEL) > orjson.dumps(payload).count(MODEL)
    except orjson.JSONEncodeError:  # as above
        return True


UNUSUAL = _FIELDS | _SPELLINGS  # keys of a body that is to be looked at more closely
