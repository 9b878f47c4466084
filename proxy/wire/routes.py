"""Route a method and a path to the dialect, the kind of call and the model.

No provider is named: whoever serves a known path uses its dialect.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import unquote

from classifier.records import UNREAD_API, Kind
from proxy.wire import jobs
from proxy.wire.dialect import NAME_LIMIT, Dialect, Payload, model_name
from proxy.wire.dialects import (
    anthropic,
    bedrock,
    gemini,
    openai,
    others,
)

UPGRADE: Final = "UPGRADE"  # the request that opens a WebSocket
WEBSOCKET: Final = "WEBSOCKET"  # a call inside one

Shapes: TypeAlias = tuple[tuple[Dialect, str], ...]  # dialects, and their APIs' names
_INFERENCE, _EMBEDDING, _PROBE, _OTHER = Kind.INFERENCE, Kind.EMBEDDING, Kind.PROBE, Kind.OTHER
_CONTINUATION, _ACTIVITY = Kind.CONTINUATION, Kind.ACTIVITY
_GENERATING: Final = frozenset((_INFERENCE, _CONTINUATION, _ACTIVITY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The facts in a call's method and path.

    ``model`` is named by the path at some providers. ``streams`` is True if the path alone asks
    for a stream. ``shapes`` are the dialects that share the path, so that the first payload
    decides. ``continues`` is the id of the response that the path names. ``answers`` is true if a
    model's output is looked for in the response (and ``inferred`` false: none was read by its shape
    so far), ``by_shape`` if parts that the dialect does not understand are read by their shape too.
    ``one_shape``: its clients read no other dialect than this one.
    ``infers``: output that is found makes it an inference call, whatever the kind. ``windows``:
    only the beginning and the end of a long answer are read. ``jobs``: batches and their results.
    ``media``: bytes that are not text count as output too.
    """

    dialect: Dialect
    api: str
    kind: Kind
    model: str | None = None
    streams: bool = False
    shapes: Shapes = ()
    continues: str | None = None
    answers: bool = False
    inferred: bool | None = None
    by_shape: bool = False
    one_shape: bool = False
    infers: bool = False
    windows: bool = False
    jobs: bool = False
    media: bool = False


@dataclass(frozen=True, slots=True)
class _RouteRow:
    suffix: re.Pattern[str]
    dialect: Dialect
    api: str
    kind: Kind = _INFERENCE
    streams: bool = False
    shapes: Shapes = ()


def _row(
    suffix: str,
    dialect: Dialect,
    api: str,
    kind: Kind = _INFERENCE,
    *,
    streams: bool = False,
    shapes: Shapes = (),
) -> _RouteRow:
    return _RouteRow(re.compile(f"(?:{suffix})$"), dialect, api, kind, streams, shapes)


# What answers at Cohere's path: Writer has an OpenAI-like chat there.
_CHATS: Final[Shapes] = (
    (openai.CHAT, "openai.chat"),
    (openai.RESPONSES, "openai.responses"),
    (gemini.GENERATE, "gemini.generateContent"),
    (others.COHERE_CHAT, "cohere.v1.chat"),
)
# TGI and vLLM have the same path, in formats that cannot be read.
_GENERATES: Final[Shapes] = ((others.SGLANG_GENERATE, "sglang.generate"),)
# Gemini's (ai.google.dev/api/interactions-api), Vertex's, and LiteLLM's own at its root: others
# call records of customers so.
_INTERACTIONS: Final = r"(?:^|/v\d+\w*|/locations/[^/]+)/interactions"
_POSTS: Final = (
    # A message that is put into a conversation, which asks no model:
    # platform.openai.com/docs/api-reference/messages, chat rooms.
    _row("/(?:threads|channels|rooms)/[^/]+/messages", others.OPAQUE, "opaque", _OTHER),
    # Counting and looking things up are probes: they make no model answer.
    _row("/messages/count_tokens", others.OPAQUE, "anthropic.count_tokens", _PROBE),
    _row("/count-tokens(?:@[^/]*)?:rawPredict", others.OPAQUE, "anthropic.count_tokens", _PROBE),
    _row("[:/]countTokens|:computeTokens", others.OPAQUE, "gemini.countTokens", _PROBE),
    _row("/model/.+/count-tokens", others.OPAQUE, "bedrock.count-tokens", _PROBE),
    _row("/responses/input_tokens", others.OPAQUE, "openai.input_tokens", _PROBE),
    _row("/(?:tokenize|detokenize)", others.OPAQUE, "tokenize", _PROBE),
    _row("/api/(?:show|event_logging/batch)", others.OPAQUE, "probe", _PROBE),
    # What is generated without tokens that are read: platform.openai.com/docs/api-reference,
    # docs.claude.com/en/api/creating-message-batches, docs.mistral.ai/api, ai.google.dev/api
    # (batch mode, Imagen, Veo), docs.aws.amazon.com/bedrock/latest/APIReference.
    _row("/images/(?:generations|edits|variations)", jobs.MEDIA, "openai.images", _ACTIVITY),
    _row("/audio/(?:speech|transcriptions|translations)", jobs.MEDIA, "openai.audio", _ACTIVITY),
    # And docs.x.ai (generations, edits and extensions of videos).
    _row("/videos(?:/(?:generations|edits|extensions|[^/]+/remix))?", jobs.JOBS, "openai.videos",
         _ACTIVITY),
    _row("/messages/batches(?:/[^/]+/cancel)?", jobs.JOBS, "anthropic.batches", _ACTIVITY),
    _row("/(?:batches|batch/jobs)(?:/[^/]+/cancel)?", jobs.JOBS, "openai.batches", _ACTIVITY),
    _row("/files|/uploads(?:/[^/]+/(?:parts|complete))?", others.OPAQUE, "openai.files",
         _ACTIVITY),
    _row("/ocr", jobs.MEDIA, "mistral.ocr", _ACTIVITY),
    _row("/models/(?:imagen|lyria)[^/:]*:predict", jobs.MEDIA, "gemini.media", _ACTIVITY),
    _row(":batchGenerateContent|/models/(?:imagen|veo|lyria)[^/:]*:(?:predictLongRunning"
         "|fetchPredictOperation|predict)|/batchPredictionJobs", jobs.JOBS, "gemini.media",
         _ACTIVITY),
    _row("/model-invocation-job|/async-invoke", jobs.JOBS, "bedrock.jobs", _ACTIVITY),
    # OpenAI and compatible APIs. platform.openai.com/docs/api-reference
    _row("/chat/completions", openai.CHAT, "openai.chat"),
    _row("/completions", openai.COMPLETIONS, "openai.completions"),
    _row("/responses", openai.RESPONSES, "openai.responses"),
    _row("/responses/compact", openai.RESPONSES, "openai.responses"),
    _row("/responses/[^/]+/cancel", openai.RESPONSES, "openai.responses",
         _CONTINUATION),
    # Anthropic, also at Vertex. docs.claude.com/en/api/claude-on-vertex-ai
    _row("/messages", anthropic.MESSAGES, "anthropic.messages"),
    _row("/complete", anthropic.MESSAGES, "anthropic.complete"),
    _row("/publishers/anthropic/models/[^/]+:rawPredict", anthropic.MESSAGES, "anthropic.messages"),
    _row("/publishers/anthropic/models/[^/]+:streamRawPredict", anthropic.MESSAGES,
         "anthropic.messages", streams=True),
    _row("/publishers/[^/]+/models/[^/]+:rawPredict", openai.CHAT, "openai.chat"),
    _row("/publishers/[^/]+/models/[^/]+:streamRawPredict", openai.CHAT, "openai.chat",
         streams=True),
    # Gemini and Vertex. ai.google.dev/api/generate-content; v1internal is gemini-cli's
    _row(":generateContent", gemini.GENERATE, "gemini.generateContent"),
    _row(":streamGenerateContent", gemini.GENERATE, "gemini.streamGenerateContent", streams=True),
    _row(_INTERACTIONS, gemini.INTERACTIONS, "gemini.interactions"),
    _row(f"{_INTERACTIONS}/[^/]+/cancel", gemini.INTERACTIONS, "gemini.interactions",
         _CONTINUATION),
    _row(":(?:embedContent|batchEmbedContents|embedText)", gemini.EMBED, "gemini.embed",
         _EMBEDDING),
    # Bedrock. docs.aws.amazon.com/bedrock/latest/APIReference
    _row("/model/.+/converse", bedrock.CONVERSE, "bedrock.converse"),
    _row("/model/.+/converse-stream", bedrock.CONVERSE, "bedrock.converse-stream", streams=True),
    _row("/model/.+/invoke", bedrock.INVOKE, "bedrock.invoke"),
    _row("/model/.+/invoke-with-response-stream", bedrock.INVOKE, "bedrock.invoke-stream",
         streams=True),
    # Ollama. github.com/ollama/ollama docs/api.md
    _row("/api/chat", others.OLLAMA_CHAT, "ollama.chat"),
    _row("/api/generate", others.OLLAMA_CHAT, "ollama.generate"),
    _row("/api/embed(?:dings)?", others.OLLAMA_EMBED, "ollama.embed", _EMBEDDING),
    # Cohere. docs.cohere.com/reference; /v1/chat is also an OpenAI-like one at Writer
    _row("/v2/chat", others.COHERE_CHAT, "cohere.v2.chat"),
    _row("/v1/chat", others.COHERE_CHAT, "cohere.v1.chat", shapes=_CHATS),
    _row("/v2/embed", others.COHERE_LISTS, "cohere.v2.embed", _EMBEDDING),
    _row("/v1/embed", others.COHERE_LISTS, "cohere.v1.embed", _EMBEDDING),
    _row("/v2/rerank", others.COHERE_LISTS, "cohere.v2.rerank", _OTHER),
    _row("/rerank", others.COHERE_LISTS, "cohere.v1.rerank", _OTHER),
    _row("/embeddings", openai.LISTS, "openai.embeddings", _EMBEDDING),
    # SGLang's own, github.com/sgl-project/sglang docs/basic_usage/native_api.ipynb
    _row("/generate", others.OPAQUE, "opaque", shapes=_GENERATES),
    # Model calls in formats that are read by their shape: TGI, llama.cpp, Cohere's older generate,
    # Workers AI, Snowflake, Replicate, OpenAI's assistants, DashScope.
    _row("/generate_stream|/completion|/infill|/ai/run/.+|inference:complete|/predictions"
         "|/threads/(?:[^/]+/)?runs|/threads/[^/]+/runs/[^/]+/submit_tool_outputs"
         "|/services/aigc/(?:text|multimodal)-generation/generation", others.OPAQUE, "opaque"),
    _row("/predictions/[^/]+/cancel|/threads/[^/]+/runs/[^/]+/cancel", others.OPAQUE, "opaque",
         _CONTINUATION),
)  # fmt: skip

_GETS: Final = (
    _row("/responses/[^/]+", openai.RESPONSES, "openai.responses", _CONTINUATION),
    _row(f"{_INTERACTIONS}/[^/]+", gemini.INTERACTIONS, "gemini.interactions", _CONTINUATION),
    # replicate.com/docs/reference/http, platform.openai.com/docs/api-reference/runs,
    # help.aliyun.com/zh/model-studio (asynchronous tasks)
    _row(
        "/predictions/[^/]+|/threads/[^/]+/runs/[^/]+|/api/v1/tasks/[^/]+",
        others.OPAQUE,
        "opaque",
        _CONTINUATION,
    ),
    # What a batch or a job generated, once it is there.
    _row("/files/[^/]+/content|/files/[^/]+:download", jobs.JOBS, "openai.files", _ACTIVITY),
    _row("/videos/[^/]+/content", jobs.MEDIA, "openai.videos", _ACTIVITY),
    _row("/videos/[^/]+", jobs.JOBS, "openai.videos", _ACTIVITY),
    _row("/messages/batches/[^/]+(?:/results)?", jobs.JOBS, "anthropic.batches", _ACTIVITY),
    _row("/(?:batches|batch/jobs)/[^/]+", jobs.JOBS, "openai.batches", _ACTIVITY),
    _row("/(?:operations|batchPredictionJobs)/[^/]+", jobs.JOBS, "gemini.media", _ACTIVITY),
    _row("/model-invocation-job/.+|/async-invoke/.+", jobs.JOBS, "bedrock.jobs", _ACTIVITY),
)

# Over a WebSocket every message that requests a response is a call of its own: OpenAI's
# WebSocket mode (developers.openai.com/api/docs/guides/websocket-mode) and realtime.
_SOCKETS: Final = (
    _row("/responses", openai.RESPONSES, "openai.responses", streams=True),
    _row("/realtime", openai.REALTIME, "openai.realtime", streams=True),
)

_ROWS: Final = {"POST": _POSTS, "GET": _GETS, WEBSOCKET: _SOCKETS}

# Reading what is there: lists of models, health, what Claude Code asks at its start.
_PROBES: Final = re.compile(
    r"(?:^|/(?:models(?:/.*)?|api/(?:hello|tags|ps|version|claude_cli/.*)|inference-profiles"
    r"|health(?:z|_check)?|readyz?|ping|version|key|credits|user|props))/?$"
)
# The model or deployment that a path names: Gemini and Vertex, Azure, Bedrock; Databricks and
# SageMaker, Workers AI, Replicate, Triton and KServe.
_MODELS: Final = re.compile(
    r"/models/([^/:]+):[a-zA-Z]+$|/deployments/([^/]+)/|/model/(.+)/[a-z-]+$|/engines/([^/]+)/"
    r"|/(?:serving-)?endpoints/([^/]+)/(?:invocations(?:-response-stream)?)$|/ai/run/(.+)$"
    r"|/models/(.+)/predictions$|/v2/models/([^/]+)/(?:generate(?:_stream)?|infer)$",
    re.IGNORECASE,
)
_RESPONSE_ID: Final = re.compile(
    r"/(?:responses|interactions|predictions|runs|tasks)/([^/]+)(?:/cancel)?$"
)
# A path that every server reads alike: what else is in it stands in a model's name.
_PLAIN: Final = re.compile(r"(?:[\w/.~@:+,=$!*'()&-]|%(?:20|2[BDFbdf]|3[Aa]|40))*", re.ASCII)
_DECODINGS: Final = 3
_END_OF_PATH: Final = re.compile(r"[?#\x00]")
_AROUND_SEGMENT: Final = re.compile(r"^[\x00-\x20\x7f]+|[\x00-\x20\x7f]+$")
_API_LENGTH: Final = 64  # characters, as stored
_OPAQUE: Final = Route(dialect=others.OPAQUE, api="opaque", kind=_OTHER)
_UNKNOWN: Final = Route(
    dialect=others.OPAQUE,
    api="opaque",
    kind=_OTHER,
    answers=True,
    inferred=False,
    by_shape=True,
    infers=True,
    windows=True,
)
# APIs of any model's own format; and a path that others than its API's clients call.
_ANY_SHAPE: Final = frozenset(("bedrock.invoke", "bedrock.invoke-stream", "anthropic.complete"))
UNKNOWN_GET: Final = _OPAQUE  # of which one may fetch what an earlier answer began
_PROBED: Final = Route(dialect=others.OPAQUE, api="probe", kind=_PROBE)
_UPGRADE: Final = Route(dialect=others.OPAQUE, api="websocket", kind=_PROBE)


@lru_cache(maxsize=2048)
def route(method: str, path: bytes) -> Route:
    """Look up the dialect, the kind and, where the path names one, the model of a call.

    Arguments:
        method: as on the request line, upper case; or UPGRADE, or WEBSOCKET.
        path: raw, percent-encoded, after the upstream; without the query.
    """
    if method in ("HEAD", "OPTIONS"):
        return _PROBED
    if method == UPGRADE:
        return _UPGRADE
    raw = path.decode("latin-1")
    text = re.sub("//+", "/", raw).rstrip("/")
    rows = _ROWS.get(method, ())
    if _PLAIN.fullmatch(text):
        for row in rows:
            if row.suffix.search(text):
                return _route(row, text)
    lists = method not in ("POST", WEBSOCKET) and _PROBES.search(text)
    found = _respelled(rows, raw, text)
    if found is None and method == "POST":
        model = _model(text)
        return replace(_UNKNOWN, model=model) if model else _UNKNOWN
    return found or (_PROBED if lists else _OPAQUE)


# Keys that hold a question: of chats and completions, of Gemini, of agents' own APIs.
_QUESTIONS: Final = frozenset(("messages", "contents", "prompt"))
_NAMED_QUESTION: Final = frozenset(("model", "input"))
_SEGMENT: Final = re.compile(r"[A-Za-z][A-Za-z_.-]{0,23}\d{0,2}(?::[A-Za-z]{1,24})?")


def asks(keys: Collection[str]) -> bool:
    """Return True if a request with these keys seems to ask a model something."""
    return not _QUESTIONS.isdisjoint(keys) or _NAMED_QUESTION.issubset(keys)


def unread(path: bytes) -> str:
    """Return the name of the API of a question at a path of no dialect: ``unread /v1/answers``.

    A part of the path that may be an id is ``*``.
    """
    plain = "/".join(part if _SEGMENT.fullmatch(part) else "*" for part in _parts(path))
    return f"{UNREAD_API}/{plain}"[:_API_LENGTH]


def may_be_stored(path: bytes) -> bool:
    """Return True if a path to which a question was posted says nothing but where.

    At a path of no dialect a part may be anything that the agent wrote.
    """
    return not route("POST", path).infers or all(map(_SEGMENT.fullmatch, _parts(path)))


def _parts(path: bytes) -> list[str]:
    return path.decode("latin-1").strip("/").split("/")


def fetching(began: str, *, kind: Kind, model: str | None) -> Route:
    """Return the route of a GET at an unknown path, of what an earlier answer began.

    Arguments:
        began: the id that the answer gave it.
        kind: what the call that began it is on record as; one of no known kind becomes an
            inference call once there is output.
        model: that was asked.
    """
    goes_on = kind is _INFERENCE
    return Route(
        dialect=others.OPAQUE, api="opaque", kind=_CONTINUATION if goes_on else _OTHER,
        model=None if goes_on else model, continues=began, answers=True, inferred=False,
        by_shape=True, infers=not goes_on, windows=True,
    )  # fmt: skip


def _respelled(rows: Sequence[_RouteRow], path: str, text: str) -> Route | None:
    """Look up a path that a server may read as another one than is written.

    A call to a model that is spelled so still counts as one: the most lenient reading wins.
    """
    lenient = canonical(path)
    for spelling in (lenient, text):
        for row in rows:
            if re.search(row.suffix.pattern, spelling, re.IGNORECASE):
                return _route(row, spelling)
    return None


def canonical(path: str) -> str:
    """Return a path as the most lenient server reads it, but for the case of its letters.

    Percent-encoding is undone, also where it was done more than once; path parameters
    (``;a=b``, RFC 3986 §3.3), empty segments, ``.`` and ``..`` are removed; a backslash is a
    slash; a query, fragment or NUL inside ends the path; blanks and control characters around a
    segment are dropped.
    """
    for _ in range(_DECODINGS):
        path = unquote(path, "latin-1")
    path = _END_OF_PATH.split(path, maxsplit=1)[0]
    segments: list[str] = []
    for segment in path.replace("\\", "/").split("/"):
        name = _AROUND_SEGMENT.sub("", segment.partition(";")[0])
        if name == "..":
            del segments[-1:]
        elif name not in ("", "."):
            segments.append(name)
    return "/" + "/".join(segments)


def _route(row: _RouteRow, path: str) -> Route:
    return Route(
        dialect=row.dialect,
        api=row.api,
        kind=row.kind,
        model=_model(path),
        streams=row.streams,
        shapes=row.shapes,
        continues=_response_id(path) if row.kind is _CONTINUATION else None,
        answers=row.kind in _GENERATING,
        inferred=False if row.kind in _GENERATING else None,
        by_shape=row.kind in (_INFERENCE, _CONTINUATION) or row.dialect is jobs.JOBS,
        one_shape=row.kind is _INFERENCE
        and row.dialect.known
        and not (row.shapes or row.api in _ANY_SHAPE),
        jobs=row.dialect is jobs.JOBS,
        media=row.dialect is jobs.MEDIA,
        windows=row.kind in (_INFERENCE, _CONTINUATION) and not (row.dialect.known or row.shapes),
    )


def _response_id(path: str) -> str | None:
    match = _RESPONSE_ID.search(path)
    return unquote(match[1])[:NAME_LIMIT] if match else None


def _model(path: str) -> str | None:
    match = _MODELS.search(path)
    model = next((group for group in match.groups() if group), None) if match else None
    return model_name(unquote(model)) if model else None


def by_shape(payload: Payload, shapes: Shapes) -> tuple[Dialect, str] | None:
    """Return which of the dialects, and its API's name, has a payload's top-level keys."""
    for dialect, api in shapes:
        if not dialect.shape_keys.isdisjoint(payload):
            return dialect, api
    return None
