"""Properties of any bytes in code without sockets.

They cover framings, the observer, targets, headers and usage injection. Input comes from hypothesis
or a coverage-guided fuzzer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from classifier.records import Ending
from proxy.capture.observer import ObserverLimits
from proxy.capture.usage_injection import UsageFilter, with_usage
from proxy.routing import headers as http_headers
from proxy.routing.errors import Refusal
from proxy.routing.keys import Keyring
from proxy.routing.target import address
from proxy.routing.upstreams import Auth, allow_list
from proxy.wire.framing import (
    EventStreamFeeder,
    JsonArrayFeeder,
    NdjsonFeeder,
    SseFeeder,
    Unreadable,
    decoder,
)
from tests.fakes.answers import CODERS
from tests.privacy.ways import PATHS
from tests.proxy.wire.observing import observing
from tests.proxy.wire.samples import SAMPLES

LIMIT: Final = 4096
KEYRING: Final = Keyring(b"k" * 32)
UPSTREAMS: Final = allow_list({"openai": {"url": "https://api.example/prefix"}})

_TYPES: Final = (
    "application/json", "text/event-stream", "application/x-ndjson", "text/html", "",
    "application/vnd.amazon.eventstream",
)  # fmt: skip
_CODINGS: Final = ("", "", "gzip", "deflate", "br", "zstd", "gzip, br", "x")
_FEEDERS: Final[tuple[Callable[[int], Any], ...]] = (
    SseFeeder, NdjsonFeeder, JsonArrayFeeder, EventStreamFeeder,
)  # fmt: skip
# Pieces of what is really sent, so that more than the first byte is looked at.
_PIECES: Final = (
    b"data: ", b"data:", b"event: error\n", b"\n\n", b"\r\n\r\n", b"\r", b"\n", b"[DONE]", b": x\n",
    b"{", b"}", b"[", b"]", b",", b'"', b"\\", b'{"a":1}', b'"usage":null', b"null", b"0", b"1e999",
    b'"choices":[]', b'"error":{"message":"m","code":"c"}', b"\xff", b"\xef\xbb\xbf", b"\x1f\x8b",
    *(sample.body for sample in SAMPLES if len(sample.body) < 400),
)  # fmt: skip

said: Final = st.lists(st.sampled_from(_PIECES) | st.binary(max_size=30), max_size=12)
places: Final = st.lists(st.integers(0, 600), max_size=6)


def cut(body: bytes, at: Sequence[int]) -> list[bytes]:
    """A body in pieces."""
    ends = [0, *sorted(min(place, len(body)) for place in at), len(body)]
    return [body[a:b] for a, b in pairwise(ends)]


def fed(feeder: Any, pieces: Sequence[bytes]) -> list[Any] | None:
    """What a framing makes of pieces; None where it gave up."""
    try:
        return [one for piece in pieces for one in feeder.feed(piece)] + list(feeder.remains())
    except Unreadable:
        return None


def framings(kind: int, pieces: list[bytes], at: list[int]) -> None:
    """A framing gives up or tells the same events, however its bytes are cut."""
    make, body = _FEEDERS[kind], b"".join(pieces)
    whole, parts = fed(make(1 << 20), [body]), fed(make(1 << 20), cut(body, at))
    assert whole is None or parts is None or whole == parts
    assert (whole is None) == (parts is None)
    fed(make(16), cut(body, at))


def encodings(coding: int, pieces: list[bytes], times: int, at: list[int], *, true: bool) -> None:
    """An encoding is undone to what was encoded, within its bound, or given up."""
    name, plain = _CODINGS[coding], b"".join(pieces) * times
    true = true and name in CODERS
    encode = CODERS[name] if true else bytes
    undone = b""
    try:
        undo = decoder([name.encode()], LIMIT)
        for piece in cut(encode(plain), at) if undo is not None else ():
            undone += undo.feed(piece) if undo is not None else b""
    except Unreadable:
        assert not (true and len(plain) <= LIMIT)
        return
    assert len(undone) <= LIMIT
    assert undo is None or not true or undone == plain


def observer(
    path: int, type_: int, coding: int, status: int, pieces: list[bytes], at: list[int]
) -> None:
    """The observer follows any answer or says that it cannot; nothing unforeseen happens in it."""
    headers = {"content-encoding": _CODINGS[coding]} if _CODINGS[coding] else {}
    body = b"".join(pieces)
    ear = observing(
        PATHS[path], status=status, type_=_TYPES[type_], headers=headers, request=body,
        limits=ObserverLimits(line_bytes=LIMIT, body_bytes=LIMIT, inflate_bytes=LIMIT),
    )  # fmt: skip
    for number, piece in enumerate(cut(body, at)):
        ear.on_response_body(piece, 101.0 + number)
    for ending in Ending:
        exchange = ear.finish(ending, 200.0)
        assert "while the" not in (exchange.unreadable_reason or "")
        assert exchange.response_bytes == len(body)


def addressing(path: bytes, query: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
    """A target is in an upstream's prefix and one request line long, or there is none."""
    try:
        target = address(path, query, pairs, upstreams=UPSTREAMS, keyring=KEYRING)
    except Refusal as refusal:
        assert 400 <= refusal.status < 500
        return
    assert target.upstream in UPSTREAMS.values()
    assert target.forwarded.startswith(target.upstream.prefix + b"/")
    assert re.fullmatch(rb"[\x21-\x7e]+", target.forwarded)
    segments = re.split(rb"[/\\]", unquote_to_bytes(target.path))
    assert not {b".", b".."} & set(segments)
    assert 1 <= len(target.rollout_id) <= 200
    assert not target.proven, "nobody guesses a secret"


def headers(pairs: list[tuple[bytes, bytes]], auth: Auth, real: str | None) -> None:
    """What is forwarded has one host, nothing of this hop, of ours, or of another key."""
    up = http_headers.for_upstream(pairs, host=b"h", auth=auth, real_key=real)
    names = [name for name, _ in up]
    assert up[0] == (b"host", b"h")
    assert names.count(b"host") == 1
    assert not http_headers.HOP_BY_HOP & set(names)
    assert not any(name.startswith(b"x-truezero-") for name in names)
    assert http_headers.minted_key(up) is None
    shown = [value for name, value in up if name in http_headers.KEY_HEADERS]
    assert real is None or not any(real.encode() in value for value in shown) or len(shown) == 1
    down = http_headers.for_agent(pairs, "x1")
    assert down[-1] == (b"x-truezero-exchange", b"x1")
    assert not any(re.search(rb"[\r\n\x00]", name + value) for name, value in down)


def asked(body: bytes) -> None:
    """A request that is asked for its usage says all that it said, and nothing else."""
    changed = with_usage(body)
    if changed is None:
        return
    before, after = orjson.loads(body), orjson.loads(changed)
    assert before["stream"] is True
    assert "include_usage" not in (before.get("stream_options") or {})
    wanted = {**(before.pop("stream_options", None) or {}), "include_usage": True}
    assert after.pop("stream_options") == wanted
    assert after == before
    assert with_usage(changed) is None


def unasked(chunks: list[dict[str, Any]], null_at: list[int], usage: Any, at: list[int]) -> None:
    """What is stripped of an asked stream is what the unasked one would have been."""
    direct, told = [], []
    for number, chunk in enumerate(chunks):
        assume("usage" not in chunk)
        direct.append(_event(orjson.dumps(chunk)))
        told.append(_event(_with_null(chunk, null_at[number % len(null_at)])))
    last = _event(orjson.dumps({"id": "c", "choices": [], "usage": usage}))
    done = b"data: [DONE]\n\n"
    stripper = UsageFilter()
    stream = b"".join((*told, last, done))
    observed = b"".join(stripper.feed(piece) for piece in cut(stream, at)) + stripper.flush()
    assert observed == b"".join((*direct, done))


def stripping(pieces: list[bytes], at: list[int]) -> None:
    """Any other stream passes as it is, as far as it says nothing of usage."""
    body = b"".join(pieces)
    stripper = UsageFilter()
    observed = b"".join(stripper.feed(piece) for piece in cut(body, at)) + stripper.flush()
    assert observed == body or b'"usage"' in body


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _with_null(chunk: dict[str, Any], place: int) -> bytes:
    items = list(chunk.items())
    at = place % (len(items) + 1)
    return orjson.dumps(dict([*items[:at], ("usage", None), *items[at:]]))


_NAMES: Final = (
    *http_headers.KEY_HEADERS, *http_headers.BORROWED, *sorted(http_headers.HOP_BY_HOP),
    http_headers.ROLLOUT_HEADER, http_headers.ROLE_HEADER, b"x-truezero-exchange",
    b"host", b"content-length", b"traceparent", b"x-a",
)  # fmt: skip
_VALUES: Final = (
    b"", b"tz-", b"Bearer tz-cjE.abc", b"bearer  sk-1", b"close, x-a", b"upgrade, authorization",
    b"AWS4-HMAC-SHA256 Credential=A/1/r/s", b"r1", b"judge", b"chunked", b"7", b"\r\nx: y", b"\x00",
)  # fmt: skip
_SEGMENTS: Final = (
    b"/", b"r", b"r1", b"as", b"judge", b"openai", b"OpenAI", b"v1", b"chat/completions", b"..",
    b".", b"%2e", b"%2F", b"%5c", b"\\", b"%", b"%00", b"~", b"~abc", b"?", b"#", b" ", b"\r\n",
    b"//", b"%c3%a4", b"\xc3", b"x" * 199, b"@", b"http://",
)  # fmt: skip
_FINE_SEGMENTS: Final = (b"v1", b"..", b"chat", b"%2e", b"a%2f..", b"models", b"x.y")

_pairs: Final = st.lists(
    st.tuples(st.sampled_from(_NAMES), st.sampled_from(_VALUES) | st.binary(max_size=12)),
    max_size=6,
)
_path: Final = st.lists(
    st.sampled_from((*_SEGMENTS, *_FINE_SEGMENTS * 6)) | st.sampled_from(_FINE_SEGMENTS), max_size=6
).map(b"/".join)
_place: Final = st.sampled_from((b"/", b"/r/r1/openai/", b"/r/r1/as/judge/openai/v1/", b"/openai/"))
_scalars: Final = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6)
_json: Final = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("stream", "stream_options", "include_usage", "usage", "choices", "a")),
            inner, max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
_requests: Final = st.fixed_dictionaries(
    {"stream": st.just(True)},
    optional={"stream_options": _json, "messages": _json, "usage": _json, "n": _scalars},
)
_chunk: Final = st.fixed_dictionaries(
    {"choices": st.lists(st.dictionaries(st.text(max_size=5), _json, max_size=3), min_size=1,
                         max_size=2)},
    optional={"id": _scalars, "x": _json, "obfuscation": st.text(max_size=5), "model": _scalars},
)  # fmt: skip
_totals: Final = st.fixed_dictionaries({"total_tokens": st.integers(0, 9)})

# What is held for which inputs.
PROPERTIES: Final[dict[str, tuple[Callable[..., None], dict[str, st.SearchStrategy[Any]]]]] = {
    "framings": (framings, {"kind": st.integers(0, 3), "pieces": said, "at": places}),
    "encodings": (encodings, {
        "coding": st.integers(0, len(_CODINGS) - 1), "pieces": said,
        "times": st.sampled_from((1, 2, 400)), "at": places, "true": st.booleans()}),
    "observer": (observer, {
        "path": st.integers(0, len(PATHS) - 1), "type_": st.integers(0, len(_TYPES) - 1),
        "coding": st.integers(0, len(_CODINGS) - 1),
        "status": st.sampled_from((200, 400, 429, 500)), "pieces": said, "at": places}),
    "addressing": (addressing, {
        "path": st.tuples(_place, _path).map(b"".join), "query": st.binary(max_size=8),
        "pairs": _pairs}),
    "headers": (headers, {
        "pairs": _pairs, "auth": st.sampled_from(Auth), "real": st.sampled_from((None, "real"))}),
    "asked": (asked, {
        "body": st.builds(orjson.dumps, _requests | _json) | said.map(b"".join)}),
    "unasked": (unasked, {
        "chunks": st.lists(_chunk, max_size=4),
        "null_at": st.lists(st.integers(0, 5), min_size=1, max_size=3),
        "usage": _totals, "at": places}),
    "stripping": (stripping, {"pieces": said, "at": places}),
}  # fmt: skip

Round = Callable[[], None]

_PATIENT: Final = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
}


def dressed(examples: int) -> Callable[[Any], Any]:
    """How a property is tried with so many examples."""
    return settings(max_examples=examples, **_PATIENT)  # type: ignore[arg-type]


def prepared(name: str, examples: int) -> Round:
    """A round of a property without a socket."""
    holds, inputs = PROPERTIES[name]
    made: Round = dressed(examples)(given(**inputs)(holds))
    return made
