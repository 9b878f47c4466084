"""Access with the operator's API key: which calls use it, and which paths it opens.

A server that asks for no key gives agents what an operator's key would: the same paths are open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from classifier.records import KeySource, Kind
from proxy.capture.request import response_digest
from proxy.relay.context import RelayContext, Signer
from proxy.routing import headers as http_headers
from proxy.routing import refusals
from proxy.routing.errors import Refusal
from proxy.routing.keys import KeyUse, without_keys
from proxy.routing.target import Target
from proxy.routing.upstreams import Auth
from proxy.wire import routes

# --- paths that the operator's key opens -------------------------------------------------------
# Paths of model calls only. Files, batches, fine-tuning, assistants, vector stores and stored
# responses belong to the account, so rollouts that share its key would share them. A server that
# asks for no key opens the same paths, and none by which it is managed: SGLang's
# ``/abort_request``, ``/flush_cache`` and ``/update_weights_from_…``, vLLM's ``/pause`` and
# ``/sleep``, llama.cpp's ``/slots`` (which shows others' prompts), Ollama's ``/api/delete``.
#
# Paths are compared as written: one that has to be decoded first is not among them. A call to a
# model is one that is read as such.


@dataclass(frozen=True, slots=True)
class OpenPath:
    """A path that the operator's key opens; ``continues`` is the id of the response it is about."""

    continues: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Paths, whole, after the upstream; ``is_read``: calls there must be read as model calls."""

    methods: frozenset[str]
    path: str
    is_read: bool


# Characters of a name in a path; percent-encoding that could be decoded twice is not among them.
_CHARACTER: Final = r"[\w.~@:+,=-]|%(?:20|2[BFbf]|3[Aa]|40)"
_NAME: Final = f"(?:{_CHARACTER})+"
_NAMES: Final = f"(?:{_CHARACTER}|/)+"
# What providers, and gateways in front of them, put before the paths below.
_MOUNT: Final = (
    r"(?:/(?:v\d+(?:(?:alpha|beta)\d*)?|openai|anthropic|api|inference|beta|paas|models"
    r"|compatible-mode|compatibility|cortex|backend-api|codex|serving-endpoints))*"
    rf"(?:/client/v4/accounts/{_NAME}/ai(?:/v1)?)?"  # Workers AI
    rf"(?:/projects/{_NAME}/locations/{_NAME}/endpoints/{_NAME})?"  # Vertex
    rf"(?:/(?:deployments|engines)/{_NAME})?"  # Azure, and OpenAI's first API
)
_GOOGLE: Final = rf"/v\d+\w*(?:/projects/{_NAME}/locations/{_NAME})?"
_GOOGLE_MODEL: Final = (
    rf"(?:{_GOOGLE}/(?:(?:publishers/{_NAME}/)?models|tunedModels|endpoints)/{_NAME}|/v1internal)"
)


def _row(methods: str, path: str, *, is_read: bool = False) -> _Row:
    return _Row(methods=frozenset(methods.split()), path=path, is_read=is_read)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(f"(?:{path})/?", re.ASCII)


# Sources of the paths: as in proxy/wire/routes.py; OpenAI's platform.openai.com/docs/api-reference.
_ROWS: Final = (
    # Calls to models, embeddings and token counts.
    _row("POST", rf"{_MOUNT}/(?:chat/completions|completions|complete|embeddings"
                 r"|responses(?:/compact|/input_tokens)?|messages(?:/count_tokens)?)",
         is_read=True),
    _row("POST", rf"{_MOUNT}/(?:chat|generate|embed|embeddings|show)", is_read=True),
    _row("POST", rf"{_MOUNT}/(?:generate_stream|completion|infill|tokenize|detokenize)",
         is_read=True),
    _row("POST", rf"{_MOUNT}/(?:inference:complete|run/{_NAMES})", is_read=True),
    _row("POST", rf"{_MOUNT}(?:/{_NAME}/{_NAME})?/predictions", is_read=True),  # Replicate
    _row("POST", rf"{_GOOGLE_MODEL}[:/][a-zA-Z]+", is_read=True),
    _row("POST", rf"(?:{_GOOGLE})?/interactions", is_read=True),
    _row("POST", f"/model/{_NAMES}/[a-z-]+", is_read=True),  # Bedrock
    _row("POST", "/api/event_logging/batch", is_read=True),  # Claude Code
    # Stateless calls to models that are no chat: no tokens are read of them.
    _row("POST", rf"{_MOUNT}/(?:images/(?:generations|edits|variations)|moderations|rerank"
                 r"|audio/(?:speech|transcriptions|translations)"
                 # docs.vllm.ai/serving/openai_compatible_server; sglang docs/basic_usage/
                 # native_api; llama.cpp tools/server/README.md
                 r"|score|classify|pooling|encode|embedding|reranking|apply-template)"),
    _row("POST", rf"{_GOOGLE}(?:/publishers/google)?/models/"
                 rf"(?:imagen|text-?embedding|multimodalembedding){_NAME}:predict"),
    # Models, and whether the server is there.
    _row("GET", rf"{_MOUNT}/models(?:/{_NAME}){{0,2}}"),
    _row("GET", rf"{_GOOGLE}/publishers/{_NAME}/models(?:/{_NAME})?"),
    _row("GET", "/inference-profiles|/foundation-models"),  # Bedrock
    _row("GET", rf"/api/(?:hello|tags|ps|version|claude_cli/{_NAME})"),
    _row("GET", r"|(?:/v1)?/(?:health|healthz|health_check|readyz?|ping|version|props)"),
    _row("GET", "/health_generate|/(?:get_)?model_info"),  # SGLang
    # Sockets on which every request for a response is read.
    _row(routes.UPGRADE, rf"{_MOUNT}/(?:responses|realtime)"),
    # What goes on with a response. developers.openai.com/api/docs/guides/background
    _row("GET DELETE", rf"{_MOUNT}/responses/(?P<id>[\w-]+)"),
    _row("GET", rf"{_MOUNT}/responses/(?P<id>[\w-]+)/input_items"),
    _row("POST", rf"{_MOUNT}/responses/(?P<id>[\w-]+)/cancel"),
    # ai.google.dev/api/interactions-api
    _row("GET DELETE", rf"(?:{_GOOGLE})?/interactions/(?P<id>[\w-]+)"),
    _row("POST", rf"(?:{_GOOGLE})?/interactions/(?P<id>[\w-]+)/cancel"),
    _row("GET", rf"{_MOUNT}/(?:predictions|tasks)/(?P<id>[\w-]+)"),  # Replicate, DashScope
    _row("POST", rf"{_MOUNT}/predictions/(?P<id>[\w-]+)/cancel"),
    _row("GET", rf"{_MOUNT}/chat/deferred-completion/(?P<id>[\w-]+)"),  # docs.x.ai
)  # fmt: skip
_READ: Final = frozenset({Kind.INFERENCE, Kind.EMBEDDING, Kind.PROBE})
_ASKS_NOTHING: Final = frozenset({"HEAD", "OPTIONS"})


def compile_patterns() -> None:
    """Compile now what the first calls would wait for; on import they would delay every start."""
    for row in _ROWS:
        _pattern(row.path)


@lru_cache(maxsize=2048)
def open_path(method: str, path: bytes) -> OpenPath | None:
    """Return what the operator's key opens there; None if it opens nothing.

    Arguments:
        method: as on the request line, upper case; or `routes.UPGRADE`.
        path: raw, after the upstream, without the query.
    """
    text = re.sub("//+", "/", path.decode("latin-1"))
    for row in _ROWS:
        if method not in row.methods and method not in _ASKS_NOTHING:
            continue
        match = _pattern(row.path).fullmatch(text)
        if match is None or (row.is_read and routes.route(method, path).kind not in _READ):
            continue
        return OpenPath(match.groupdict().get("id"))
    return None


# --- access of one call ------------------------------------------------------------------------


class OperatorAccess:
    """Settles whose key a call takes, and refuses what the operator's does not open."""

    def __init__(self, context: RelayContext) -> None:
        self._keys = context.operator_keys
        self._signers: Mapping[Auth, Signer] = context.signers
        self._access = context.access
        self._salt = context.salt
        if (self._keys.static or self._keys.guards_keyless) and not self._keys.any_path:
            compile_patterns()

    async def resolve(
        self,
        target: Target,
        method: str,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        shows_own_key: bool = False,
    ) -> Target:
        """Return a call's target with the key that it takes.

        Arguments:
            method: as on the request line, or `routes.UPGRADE`.
            shows_own_key: the caller shows one elsewhere than in a header.

        Raises:
            Refusal: 403, the path is not open; 503, nobody can say.
        """
        if target.keys is KeyUse.EITHER:
            own = shows_own_key or http_headers.shows_own_key(headers, target.upstream.auth)
            if own and not await self._replaces(target):
                return replace(target, keys=KeyUse.CALLERS)
            query = without_keys(target.query) if self._keys.replace else target.query
            target = replace(target, keys=KeyUse.OPERATORS, query=query)
        if not self._keys.any_path:
            await self._check_path(target, method)
        return target

    def resolve_cached(
        self, target: Target, method: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> Target | None:
        """Return what `resolve` does where nothing is to be waited for; None elsewhere."""
        if target.upstream.auth in self._signers:
            return None
        if target.keys is KeyUse.EITHER:
            if http_headers.shows_own_key(headers, target.upstream.auth):
                return replace(target, keys=KeyUse.CALLERS)
            query = without_keys(target.query) if self._keys.replace else target.query
            target = replace(target, keys=KeyUse.OPERATORS, query=query)
        if not self._keys.any_path:
            opened = open_path(method, target.path)
            if opened is None or opened.continues is not None:
                return None
        return target

    async def _replaces(self, target: Target) -> bool:
        """Return True if the operator's credentials replace a key that the caller shows."""
        signer = self._signers.get(target.upstream.auth)
        return self._keys.replace and signer is not None and await signer.available()

    async def _check_path(self, target: Target, method: str) -> None:
        opened = open_path(method, target.path)
        if opened is None:
            raise _not_allowed(target, "this path is not one of a model call")
        if opened.continues is not None and not await self._was_answered(target, opened.continues):
            raise _not_allowed(target, "this rollout was not answered that response")

    async def _was_answered(self, target: Target, response_id: str) -> bool:
        if self._access is None:
            return False
        digest = response_digest(response_id, self._salt)
        return await self._access.was_answered(target, digest)


def _not_allowed(target: Target, why: str) -> Refusal:
    keyless = target.keys is KeyUse.NOBODYS
    what = "a server that may ask for no key" if keyless else "the operator's key"
    return refusals.path_not_allowed(what, why)


# --- headers with the operator's key -----------------------------------------------------------


def operator_headers(
    context: RelayContext, target: Target, headers: Sequence[tuple[bytes, bytes]]
) -> tuple[http_headers.Pairs, Signer | None]:
    """Return the headers for the provider, and who still has to add a credential to them."""
    keys, upstream = context.operator_keys, target.upstream
    real_key = keys.static.get(upstream.name)
    rewrite = http_headers.for_upstream_as_operator if keys.replace else http_headers.for_upstream
    rewritten = rewrite(headers, host=upstream.host, auth=upstream.auth, real_key=real_key)
    return rewritten, context.signers.get(upstream.auth) if real_key is None else None


def shown_key(
    context: RelayContext, target: Target, headers: http_headers.Pairs
) -> tuple[str | None, KeySource | None]:
    """Return the digest of the key that a call takes to its provider, and whose that is."""
    if target.keys is KeyUse.OPERATORS:
        key: bytes | None = context.operator_keys.identity(target.upstream)
        replaced = context.operator_keys.replace
        source = KeySource.OPERATOR if replaced else KeySource.ADDED
    else:
        key = http_headers.shown_key(headers)
        own = target.upstream.name not in context.operator_keys.static
        source = KeySource.AGENT if own else KeySource.OVERRIDE
    return http_headers.key_digest(key, context.salt), None if key is None else source
