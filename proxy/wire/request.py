"""Read a request body and head: model, stream flag, tools, output limit, chosen account or tier."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from proxy.wire import libraries
from proxy.wire.dialect import Payload, count, model_name, part, parts
from proxy.wire.framing import Unreadable, decoder

# --- choices beside the model: account, region, tier, routing, beta, version -------------------
# An agent that chooses otherwise than before can make its own call fail; a digest tells.


Selected = tuple[tuple[str, bytes], ...]

# OpenAI: platform.openai.com/docs/api-reference/authentication; Google:
# cloud.google.com/apis/docs/system-parameters. With the operator's key they are not forwarded.
_ACCOUNT = frozenset((b"openai-organization", b"openai-project", b"x-goog-user-project"))
# docs.claude.com/en/api/beta-headers and /versioning; platform.openai.com/docs/assistants
_OTHERS = frozenset((b"anthropic-beta", b"anthropic-version", b"openai-beta"))
# Time-outs, retries, routes and providers at gateways: envoyproxy.io/docs (router filter, HTTP
# headers), portkey.ai/docs/api-reference/headers, docs.litellm.ai/docs/proxy/request_headers,
# developers.cloudflare.com/ai-gateway/configuration, docs.helicone.ai/helicone-headers.
_GATEWAYS = re.compile(rb"(?:x-(?:envoy|portkey|litellm)|cf-aig|helicone)-")
# What only names or describes a call there differs from call to call, and chooses nothing.
_NOTES = re.compile(
    rb"trace|span|session|(?:request|call|event|user|customer)-id|metadata|property|-tags?$|otel"
    rb"|-log|external-address|attempt-count|decorator|original-(?:path|method)"
)
_SELECTING = _ACCOUNT | _OTHERS
# Versions that Anthropic's own SDKs send (docs.claude.com/en/api/versioning; anthropic-sdk-python
# from 2.0.0: the last): who takes another SDK chooses nothing.
ANTHROPIC_VERSIONS = frozenset((b"2023-01-01", b"2023-06-01", b"2026-10-21"))
_USUAL = {b"anthropic-version": ANTHROPIC_VERSIONS}
_QUERY = "api-version"  # learn.microsoft.com/azure/ai-foundry/openai/reference
# platform.openai.com/docs/api-reference/chat/create (service_tier), openrouter.ai/docs
# (provider, models, route), docs.aws.amazon.com/bedrock (anthropic_beta in the body).
# docs.claude.com/en/docs/build-with-claude/fast-mode (speed) and data-residency (inference_geo).
_FIELDS = frozenset((
    "service_tier", "provider", "models", "route", "anthropic_beta", "speed", "inference_geo",
))  # fmt: skip
# How much is reasoned: what a question has in common with a call beside what it chooses.
_ASKED_WITH = _FIELDS | {"reasoning_effort", "reasoning"}

MODEL = b'"model"'
ESCAPE = b"\\u006"
_ESCAPED = re.compile(rb"\\u006([0-9a-fA-F])")  # of the letters of "model", all are 0x6…
# Keys are case-insensitive to servers written in Go (pkg.go.dev/encoding/json, Unmarshal).
_SPELLINGS = frozenset(
    "".join(letter.upper() if bits >> at & 1 else letter for at, letter in enumerate("model"))
    for bits in range(1, 32)
)


# What clients write that is no strict JSON, and servers read: halves of a character (a text cut in
# the middle of an emoji), Python's numbers that JSON does not have, raw control characters, text
# in another encoding than UTF-8, a byte order mark. What takes their place is as long.
_LENIENT = (
    (rb"\ud", rb"\uf"), (rb"\uD", rb"\uF"), (b"NaN", b"0.0"), (b"Infinity", b"0.000000"),
)  # fmt: skip
_BLANKS = bytes.maketrans(bytes(range(0x20)), b" " * 0x20)
_BOM = b"\xef\xbb\xbf"


def may_select(headers: Mapping[bytes, bytes]) -> bool:
    """Return True if any header, its name in lower case, may choose something."""
    return not _SELECTING.isdisjoint(headers) or any(map(_GATEWAYS.match, headers))


def _at_a_gateway(name: bytes) -> bool:
    return _GATEWAYS.match(name) is not None and _NOTES.search(name) is None


def in_head(headers: Mapping[bytes, bytes], query: bytes, *, operators_key: bool) -> Selected:
    """Return what headers (names in lower case) and a raw query choose.

    Arguments:
        operators_key: the operator's key is put in, and what chooses an account is removed.
    """
    names = _OTHERS if operators_key else _SELECTING
    features = [
        (name.decode(), value)
        for name in sorted(name for name in headers if name in names or _at_a_gateway(name))
        if (value := headers[name].strip()) and value not in _USUAL.get(name, ())
    ]
    versions = [
        (_QUERY, text.encode("latin-1", "replace"))
        for name, text in (parse_qsl(query.decode("latin-1")) if query else ())
        if name.lower() == _QUERY
    ]
    return (*features, *versions)


def in_body(payload: Payload) -> Selected:
    """Return what a JSON request body chooses."""
    return tuple(
        (name, _written(payload[name]))
        for name in sorted(_FIELDS.intersection(payload))
        if payload[name] is not None
    )


def asked_with(payload: Payload) -> Selected:
    """Return what of a JSON request body a question of the proxy's own repeats.

    Without other models to fall back on, and of what is reasoned the effort alone.
    """
    chosen = [(name, value) for name, value in in_body(payload) if name != "models"]
    effort = payload.get("reasoning_effort")
    if isinstance(effort, str):
        chosen.append(("reasoning_effort", _written(effort)))
    effort = part(payload.get("reasoning")).get("effort")
    if isinstance(effort, str):
        chosen.append(("reasoning", _written({"effort": effort})))
    return tuple(chosen)


def _written(value: object) -> bytes:
    try:
        return libraries.sorted_dumps(value)
    except TypeError:  # nested deeper than orjson writes, though it reads it
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
    """Return True if a JSON body has two keys that a server may take for its model.

    A key that an object repeats is there only once after the body is parsed and written again.
    """
    if not _SPELLINGS.isdisjoint(payload):
        return "model" in payload or len(_SPELLINGS.intersection(payload)) > 1
    if ESCAPE in body:
        body = _ESCAPED.sub(lambda match: bytes((0x60 + int(match[1], 16),)), body)
    try:
        return body.count(MODEL) > libraries.dumps(payload).count(MODEL)
    except TypeError:  # as above
        return True


UNUSUAL = _FIELDS | _SPELLINGS  # keys of a body that is to be looked at more closely
_LOOKED_AT = UNUSUAL | _ASKED_WITH


# --- model, stream and tools -------------------------------------------------------------------


# The model, whether the response is to be streamed, and whether tools are offered; None is
# unknown, for a body that is no JSON object.
RequestFields = tuple[str | None, bool | None, bool | None]
UNKNOWN: RequestFields = (None, None, None)


class BodyFacts(Protocol):
    """An observer of parsed request bodies, which keeps nothing of them."""

    def take(self, payload: Payload, body: bytes) -> None:
        """Look at a JSON object, and at the bytes that it was read from."""
        ...


FEW_BYTES: Final = 512  # of a body that costs nothing to keep, and that is no agent's conversation


class RequestReader:
    """Buffer a request body, up to a limit, until it has been read.

    Arguments:
        encodings: the values of its ``Content-Encoding`` headers.
        limit: most bytes held, encoded and decoded.
        facts: looks at the whole body too; whatever goes wrong there stays there.
    """

    __slots__ = ("_asked_with", "_discarded", "_encodings", "_facts", "_fields", "_limit",
                 "_pieces", "ambiguous", "keys", "selected", "size")  # fmt: skip
    _asked_with: Selected  # unset in most

    def __init__(
        self, encodings: Sequence[bytes], limit: int, facts: BodyFacts | None = None
    ) -> None:
        self._encodings = encodings
        self._limit = limit
        self._facts = facts
        self._pieces: list[bytes] | None = []
        self._fields: RequestFields | None = None
        self._discarded = False
        self.ambiguous = False  # the model is written twice, or the body cannot be read
        self.selected: Selected = ()
        self.keys: tuple[str, ...] = ()  # of a JSON object, as it was parsed
        self.size = 0

    def feed(self, chunk: bytes, parsed: Payload | None = None) -> None:
        """Take a piece of the body as it was sent.

        Arguments:
            parsed: a whole body's object, where it is not encoded and somebody has parsed it.
        """
        self.size += len(chunk)
        if self._pieces is not None:
            self._fields = None  # a response may begin before its request's end
            self._pieces.append(chunk)
            if self.size > self._limit:
                self._pieces = None
            elif parsed is not None:
                self._fields = self._of_object(parsed, chunk)

    def payload(self) -> Payload:
        """Parse the body once more; empty where it was freed, or is no JSON object."""
        if not self._pieces:
            return {}
        body = b"".join(self._pieces)
        try:
            undo = decoder(self._encodings, self._limit)
            return part(_parse(undo.feed(body) if undo else body)[0])
        except (Unreadable, libraries.JSONDecodeError):
            return {}

    def discard(self) -> None:
        """Free the body, which is sent no more; the fields that were read stay.

        A short one can still be parsed, to tell what a stream that fails was about.
        """
        self._discarded = True
        if self.size > FEW_BYTES:
            self._pieces = None

    @property
    def asked_with(self) -> Selected:
        """Choices of the body that a question of the proxy's own repeats; most have none."""
        return getattr(self, "_asked_with", ())

    def fields(self) -> RequestFields:
        """Return the fields of the body so far; unknown for one over its limit."""
        if self._fields is None:
            self._fields = self._read() if self._pieces else UNKNOWN
        return self._fields

    def digest(self, salt: bytes, line: bytes) -> str | None:
        """Return a salted 8-byte digest of request line and body; None once discarded."""
        if self._pieces is None or self._discarded:
            return None
        digest = hashlib.blake2b(line, key=salt[:64], digest_size=8)
        for piece in self._pieces:
            digest.update(piece)
        return digest.hexdigest()

    def _read(self) -> RequestFields:
        pieces = self._pieces or [b""]
        if not self._encodings:
            # An incomplete body, or one that is no object, is not worth parsing.
            whole = pieces[-1].rstrip().endswith(b"}")
            return self._of_whole(b"".join(pieces)) if whole else UNKNOWN
        body = b"".join(pieces)
        try:
            undo = decoder(self._encodings, self._limit)
            return self._of_whole(undo.feed(body) if undo else body)
        except Unreadable:
            self.ambiguous = True
            return UNKNOWN

    def _of_whole(self, body: bytes) -> RequestFields:
        """Read a whole JSON body, decoded.

        It is parsed once, whole: one pass of orjson costs what two searches for a key cost
        (61 µs against 2 × 36 for 123 kB), and a search cannot tell a key of the request from
        the same key in an earlier tool call's arguments.
        """
        self.ambiguous = True
        try:
            payload, body = _parse(body)
        except libraries.JSONDecodeError:
            return UNKNOWN
        return self._of_object(payload, body) if isinstance(payload, dict) else UNKNOWN

    def _of_object(self, payload: Payload, body: bytes) -> RequestFields:
        self.ambiguous = False
        self.keys = tuple(payload)
        # Backwards, since CPython's search skips then: over 100 kB it takes a third of the time.
        escaped = b"\\" in body and body.rfind(ESCAPE) >= 0
        at = body.rfind(MODEL)
        once = at >= 0 and body.rfind(MODEL, 0, at) < 0
        if escaped or not once or not _LOOKED_AT.isdisjoint(payload):
            if escaped or not once or not UNUSUAL.isdisjoint(payload):
                self.ambiguous = writes_model_twice(body, payload)
                self.selected = in_body(payload)
            self._asked_with = asked_with(payload)
        if self._facts is not None:
            try:
                self._facts.take(payload, body)
            except Exception:  # observing must not break relaying, nor what follows here
                self._facts = None
        tools = not _TOOL_KEYS.isdisjoint(payload) and has_tools(payload)
        model = model_name(payload.get("model")) or _other_model(payload)
        return model, payload.get("stream") is True, tools


# watsonx, OCI's serving mode, and servers of one's own.
_OTHER_MODELS = ("model_id", "modelId", "model_name")
AGENTS: Final = "agents/"  # before the name of an agent that is asked in a model's place


def _other_model(payload: Payload) -> str | None:
    for holder in (payload, part(payload.get("servingMode"))):
        for key in _OTHER_MODELS:
            if key in holder:
                return model_name(holder[key])
    agent = payload.get("agent")  # of Gemini's Interactions: ai.google.dev/gemini-api/docs/agents
    return model_name(f"{AGENTS}{agent}") if isinstance(agent, str) and agent else None


# ``functions`` is OpenAI's before tools; ``toolConfig`` holds them at Converse; Code Assist
# wraps the whole request (gemini-cli); Codex since 0.171 has them in an item of its input.
_TOOL_KEYS = frozenset(("tools", "functions", "toolConfig", "request", "input"))


def has_tools(payload: Payload) -> bool:
    """Return True if a JSON request offers tools."""
    return _tools(payload) or _tools(part(payload.get("request"))) or _added(payload)


def _added(payload: Payload) -> bool:
    items = parts(payload.get("input"))
    return any(item.get("tools") for item in items if item.get("type") == "additional_tools")


def _tools(payload: Payload) -> bool:
    configured = part(payload.get("toolConfig")).get("tools")
    return any((payload.get("tools"), payload.get("functions"), configured))


def _parse(body: bytes) -> tuple[Any, bytes]:
    """Parse JSON as lenient servers do; return its value, and the strict bytes that hold it."""
    try:
        return libraries.loads(body), body
    except libraries.JSONDecodeError:
        body = _strict(body)
        return libraries.loads(body), body


def _strict(body: bytes) -> bytes:
    """Return a JSON body with all replaced that only lenient servers read.

    A few passes of C: a hostile body of the longest length costs milliseconds.
    """
    body = body.removeprefix(_BOM).decode("utf-8", "replace").encode().translate(_BLANKS)
    for lenient, strict in _LENIENT:
        body = body.replace(lenient, strict)
    return body


# --- output limit in tokens --------------------------------------------------------------------


# OpenAI (platform.openai.com/docs/api-reference: chat/create, responses/create), Anthropic
# (docs.claude.com/en/api: messages, complete), Cohere, and the families of Bedrock's InvokeModel
# (docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html).
_LIMITS: Final = frozenset((
    "max_tokens", "max_completion_tokens", "max_output_tokens", "max_tokens_to_sample",
    "max_new_tokens", "max_gen_len", "maxTokens",
))  # fmt: skip
# Objects that hold one: Gemini (ai.google.dev/api/generate-content), Converse and Nova
# (botocore service-2.json InferenceConfiguration), Titan, Ollama (docs/api.md; -1 is unlimited),
# TGI, and the settings of a realtime response.
_HOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "generationConfig": ("maxOutputTokens", "max_output_tokens"),
    "generation_config": ("maxOutputTokens", "max_output_tokens"),
    "inferenceConfig": ("maxTokens", "max_new_tokens"),
    "textGenerationConfig": ("maxTokenCount",),
    "options": ("num_predict",),
    "parameters": ("max_new_tokens", "max_tokens"),
    "response": ("max_output_tokens",),
}
_WRAPPER: Final = "request"  # Code Assist wraps the whole request (gemini-cli)
_HOLDING: Final = frozenset((*_HOLDERS, _WRAPPER))
KEYS: Final = _LIMITS | _HOLDING  # of which any may state a limit


def output_limit(payload: Payload) -> int | None:
    """Return the smallest limit that a JSON request states; None if it states none."""
    return min(output_limits(payload), default=None)


def output_limits(payload: Payload) -> list[int]:
    """Return all limits that a JSON request states."""
    limits = [count(payload[key]) for key in _LIMITS.intersection(payload)]
    if not _HOLDING.isdisjoint(payload):
        limits += _held(payload)
    return [limit for limit in limits if limit]


def _held(payload: Payload) -> Iterator[int | None]:
    """Yield the limits in objects inside; what is no whole number from 1 on is None or 0."""
    for holder in _HOLDERS.keys() & payload.keys():
        inner = part(payload[holder])
        for key in _HOLDERS[holder]:
            yield count(inner.get(key))
    if _WRAPPER in payload:
        wrapped = part(payload[_WRAPPER])
        if _WRAPPER not in wrapped:
            yield from output_limits(wrapped)


# OpenAI (chat/create, completions/create) and Gemini (generate-content, in its configuration).
_CHOICES: Final = ("n", "best_of", "candidateCount", "candidate_count")
_MOST_CHOICES: Final = 128  # of any API: platform.openai.com/docs/api-reference/chat/create


def choices(payload: Payload) -> int:
    """Return how many answers a JSON request asks for at once."""
    holders = (payload, part(payload.get("generationConfig")), part(payload.get("parameters")))
    stated = [count(each.get(name)) or 1 for each in holders for name in _CHOICES]
    return min(max(stated), _MOST_CHOICES)


# --- words of a prompt, estimated from samples -------------------------------------------------


_LEAST_BYTES: Final = 8_192  # of a body that is worth sampling
_WINDOWS: Final = 8
_WINDOW: Final = 128  # bytes

# Letters are one byte, a blank is another, all else a third: then two words beside each other
# are "a a". Each is a token at least: no tokenizer in use joins words over a blank.
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CLASSES: Final = bytes(
    0x61 if byte in _LETTERS else 0x20 if byte == 0x20 else 0x2E for byte in range(256)
)
_PAIR: Final = b"a a"


def prompt_words(body: bytes) -> int | None:
    """Return how many words a body has, rather too few; None for a short one.

    A word is a run of ASCII letters beside another one, with one blank between: what is base64,
    hex, blanks, JSON's own or another script has next to none, so that they need not be told
    apart.
    """
    size = len(body)
    if size < _LEAST_BYTES:
        return None
    step = (size - _WINDOW) // (_WINDOWS - 1)
    windows = [body[at : at + _WINDOW] for at in range(0, step * _WINDOWS, step)]
    pairs = b".".join(windows).translate(_CLASSES).count(_PAIR)
    return pairs * size // (_WINDOWS * _WINDOW)
