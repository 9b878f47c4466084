"""The allow-list: which providers an agent can reach, as data.

No origin ever comes from a caller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from urllib.parse import urlsplit

from proxy.feature import ReadOption
from truezero.mistakes import listed, meant, unknown


class Auth(StrEnum):
    """The place in which a provider expects its key. Source: each provider's API reference."""

    BEARER = "bearer"  # Authorization: Bearer
    X_API_KEY = "x-api-key"  # Anthropic
    X_GOOG_API_KEY = "x-goog-api-key"  # Gemini
    API_KEY = "api-key"  # Azure
    AWS = "aws"  # Bedrock: an AWS signature, or an API key as Bearer
    GOOGLE = "google"  # Vertex: a short-lived access token as Bearer
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """One provider an agent may reach.

    ``url`` is ``scheme://host[:port][/prefix]``, None until an operator sets it.
    ``base_path`` is what a client's base_url ends in after the upstream's name.
    ``env`` are the variables that point common clients at that base_url. ``key`` is the
    provider key that the proxy adds where the caller sends none; it is never printed.

    ``include_usage``: request a stream's usage for the agent. True only where it is known what
    this adds, so that all of it can be stripped again: one chunk without choices, and
    ``"usage": null`` in the others, neither of which comes without it. It stays off for
    providers whose streams always state their usage (DeepSeek, Groq, Mistral, Moonshot,
    OpenRouter, Together, xAI, …), for llama.cpp (it moves its ``timings`` into the
    added chunk: tools/server/server-task.cpp), and for Azure, whose older API versions refuse
    the parameter.

    ``allow_link_local``: it may have an address that `proxy.routing.address_guard` blocks
    otherwise.

    ``options``: what its table says that features read, by key.
    """

    name: str
    url: str | None
    auth: Auth = Auth.BEARER
    base_path: str = "/v1"
    env: tuple[str, ...] = ()
    key_env: str | None = None
    include_usage: bool = False
    allow_link_local: bool = False
    options: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def origin(self) -> str:
        """Scheme, host and port: ``https://api.openai.com``."""
        parts = urlsplit(self.url or "")
        return f"{parts.scheme}://{parts.netloc}"

    @cached_property
    def prefix(self) -> bytes:
        """The path put before every forwarded path, without a trailing slash."""
        return urlsplit(self.url or "").path.rstrip("/").encode("ascii")

    @cached_property
    def host(self) -> bytes:
        """The Host header to send."""
        return urlsplit(self.url or "").netloc.encode("ascii")


def _compatible(
    name: str, url: str, base_path: str = "/v1", *, include_usage: bool = False
) -> Upstream:
    return Upstream(name=name, url=url, base_path=base_path, include_usage=include_usage)


_BUILT_IN = (
    Upstream(
        name="openai",
        url="https://api.openai.com",
        env=("OPENAI_BASE_URL",),
        include_usage=True,  # platform.openai.com/docs/api-reference/chat/create
    ),
    Upstream(
        name="anthropic",
        url="https://api.anthropic.com",
        auth=Auth.X_API_KEY,
        base_path="",
        env=("ANTHROPIC_BASE_URL",),
    ),
    Upstream(
        name="gemini",
        url="https://generativelanguage.googleapis.com",
        auth=Auth.X_GOOG_API_KEY,
        base_path="",
        env=("GOOGLE_GEMINI_BASE_URL",),
    ),
    Upstream(
        name="azure",
        url=None,
        auth=Auth.API_KEY,
        base_path="",
        env=("AZURE_OPENAI_ENDPOINT",),
    ),
    Upstream(
        name="vertex",
        url="https://aiplatform.googleapis.com",
        auth=Auth.GOOGLE,
        base_path="",
        env=("GOOGLE_VERTEX_BASE_URL",),  # python-genai: _base_url.py
    ),
    Upstream(
        name="bedrock",
        url="https://bedrock-runtime.us-east-1.amazonaws.com",
        auth=Auth.AWS,
        base_path="",
        # botocore: utils.py, service-specific endpoints; anthropic-sdk-python: lib/bedrock.
        env=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "ANTHROPIC_BEDROCK_BASE_URL"),
    ),
    _compatible("openrouter", "https://openrouter.ai/api"),
    _compatible("mistral", "https://api.mistral.ai"),
    _compatible("cohere", "https://api.cohere.com", ""),
    _compatible("xai", "https://api.x.ai"),
    _compatible("deepseek", "https://api.deepseek.com"),
    _compatible("groq", "https://api.groq.com/openai"),
    _compatible("together", "https://api.together.xyz"),
    _compatible("fireworks", "https://api.fireworks.ai/inference"),
    _compatible("perplexity", "https://api.perplexity.ai", ""),
    _compatible("cerebras", "https://api.cerebras.ai"),
    _compatible("moonshot", "https://api.moonshot.ai"),
    _compatible("zhipu", "https://open.bigmodel.cn/api/paas/v4", ""),
    # alibabacloud.com/help/en/model-studio/stream: usage comes only where it was asked for.
    _compatible("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode", include_usage=True),
    _compatible("minimax", "https://api.minimax.io"),
    _compatible("huggingface", "https://router.huggingface.co"),
    _compatible("github", "https://models.github.ai/inference", ""),
    _compatible("nvidia", "https://integrate.api.nvidia.com"),
    _compatible("sambanova", "https://api.sambanova.ai"),
    _compatible("deepinfra", "https://api.deepinfra.com/v1/openai", ""),
    _compatible("scaleway", "https://api.scaleway.ai"),
    _compatible("ollama", "http://127.0.0.1:11434", include_usage=True),  # middleware/openai.go
    # vllm/entrypoints/openai/serving_chat.py
    _compatible("vllm", "http://127.0.0.1:8000", include_usage=True),
    # docs.sglang.io/basic_usage/send_request; its chunks may have a null usage unasked
    _compatible("sglang", "http://127.0.0.1:30000"),
    _compatible("llamacpp", "http://127.0.0.1:8080"),
    _compatible("lmstudio", "http://127.0.0.1:1234"),
)

BUILT_IN: Mapping[str, Upstream] = {upstream.name: upstream for upstream in _BUILT_IN}

# Model servers on this machine: an agent elsewhere cannot know what listens there.
LOCAL = frozenset({"ollama", "vllm", "sglang", "llamacpp", "lmstudio"})


def asks_for_no_key(upstream: Upstream) -> bool:
    """Return True if the upstream may be a model server that anyone who reaches it can manage.

    It may be one if its name is that of a local server, if it has ``auth = "none"``, or if the
    operator named it and its URL is plain HTTP: no provider on the internet is called without TLS.
    """
    if upstream.auth is Auth.NONE or upstream.name in LOCAL:
        return True
    return upstream.name not in BUILT_IN and (upstream.url or "").startswith("http://")


# First path segments the control plane answers itself.
RESERVED = frozenset(
    {
        "r", "rollouts", "batches", "fingerprints", "healthz", "readyz", "metrics", "docs",
        "digests", "redoc", "openapi.json", "static", "events", "upstreams", "key", "as", "api",
        "sign-in", "sign-out", "ui", "favicon.ico",
    }
)  # fmt: skip

# Control routes that came later, when an upstream might have had their name. Each is the one
# segment alone, which is no agent's call: an upstream of that name goes on being reached.
SHARED = frozenset({"compare", "help", "status", "turns"})

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}\Z")


def normalised(name: str) -> str:
    """Normalise an upstream's name: lower case, ``_`` read as ``-``."""
    return name.lower().replace("_", "-")


def checked_url(url: str) -> str:
    """Return the URL if it can be an upstream's.

    Raises:
        ValueError: it is not ``http(s)://host[:port][/prefix]``; the message does not repeat it,
            for it may be a key that was given for a URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            "not http(s)://host[:port][/prefix]; a provider's key is given as TRUEZERO_KEY_<NAME>"
        )
    if parts.username or parts.query or parts.fragment:
        raise ValueError("an upstream's URL has no user, query or fragment")
    if not url.isascii():
        raise ValueError("an upstream's URL must be ASCII (write the host in its xn-- form)")
    _ = parts.port  # a port out of range raises here
    return url.rstrip("/")


def checked_name(name: str) -> str:
    """Return the normalised name if an upstream can have it.

    Raises:
        ValueError: the control plane uses that name, or it has characters other than
            letters, digits, ``.`` and ``-``.
    """
    plain = normalised(name)
    if plain in RESERVED:
        raise ValueError(f"{plain!r} cannot name an upstream: the control plane uses it")
    if not _NAME.match(plain):
        raise ValueError(f"{name!r} cannot name an upstream: use letters, digits, '.', '-'")
    return plain


_NO_OPTIONS: Mapping[str, ReadOption] = {}


def allow_list(
    changes: Mapping[str, Mapping[str, object]],
    *,
    local: bool = True,
    options: Mapping[str, ReadOption] = _NO_OPTIONS,
) -> dict[str, Upstream]:
    """Combine the built-in table with an operator's changes.

    Arguments:
        changes: name → any of ``url``, ``auth``, ``key_env``, ``include_usage``,
            ``allow_link_local``, and of ``options``.
        local: model servers on this machine have their usual addresses; else only those that
            are named in ``changes``.
        options: read what features let a table say.

    Raises:
        ValueError: a name, URL or value is invalid; the message names it.
    """
    table = dict(BUILT_IN)
    if not local:
        named = map(normalised, changes)
        table |= {name: replace(BUILT_IN[name], url=None) for name in LOCAL.difference(named)}
    for raw_name, change in changes.items():
        name = checked_name(raw_name)
        table[name] = _changed(table.get(name, Upstream(name=name, url=None)), change, options)
    return table


def _changed(
    upstream: Upstream, change: Mapping[str, object], options: Mapping[str, ReadOption]
) -> Upstream:
    for key, value in change.items():
        match key, value:
            case "url", str():
                upstream = replace(upstream, url=_url(upstream.name, value))
            case "auth", str():
                upstream = replace(upstream, auth=_auth(upstream.name, value))
            case "key_env", str():
                upstream = replace(upstream, key_env=value)
            case "include_usage", bool():
                upstream = replace(upstream, include_usage=value)
            case "allow_link_local", bool():
                upstream = replace(upstream, allow_link_local=value)
            case _ if read := options.get(key):
                own = {**upstream.options, key: read(upstream.name, value)}
                upstream = replace(upstream, options=own)
            case _:
                wrong = _TYPES[key] if key in _TYPES else unknown(key, [*_TYPES, *options])
                raise ValueError(f"upstreams.{upstream.name}.{key}: {wrong}")
    return upstream


_TYPES = {
    "url": "must be text",
    "auth": "must be text",
    "key_env": "must be text, the name of a variable",
    "include_usage": "must be true or false",
    "allow_link_local": "must be true or false",
}


def _url(name: str, value: str) -> str:
    try:
        return checked_url(value)
    except ValueError as error:
        raise ValueError(f"upstreams.{name}.url: {error}") from None


def _auth(name: str, value: str) -> Auth:
    try:
        return Auth(value)
    except ValueError:
        said = f"must be {listed([*Auth])}, not {value!r}{meant(value, [*Auth])}"
        raise ValueError(f"upstreams.{name}.auth: {said}") from None
