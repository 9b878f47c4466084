"""All kinds of calls: every route, streamed or not, healthy or failing, with canaries in each text.

It only builds them and sends nothing.
"""
# ruff: noqa: SLF001
# Private: the rows of the table of routes.

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from proxy.wire import routes
from proxy.wire.dialect import Dialect
from proxy.wire.framing import _STRAY_LIMIT, EventStreamFeeder, decoder
from proxy.wire.response import ReadLimits
from tests.answers.table import DOCUMENTED
from tests.answers.table import Answer as Labelled
from tests.fakes import answers
from tests.fakes.provider import Answer, Cut, Framing, Hang
from tests.privacy.canaries import ARGUMENTS, COMPLETION, HEADER, MESSAGE, PROMPT, QUERY, key
from tests.proxy.wire.samples import EVENTS, SAMPLES, SSE, Sample, frame
from tests.proxy.wire.test_routes import POSTS

CHAT: Final = "/v1/chat/completions"
ECHO: Final = f"{MESSAGE.text}: your key {key('echoed')} may not ask {PROMPT.text}"

# What an answer says about itself; everything else in it is somebody's text.
_NAMES: Final = frozenset(
    ("type", "object", "role", "model", "modelVersion", "id", "status", "event", "index",
     "finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "code", "call_id",
     "item_id", "is_finished", "event_type", "service_tier", "@type", "reason", "quotaId")
)  # fmt: skip
_ARGUMENTS: Final = frozenset(("arguments", "input", "partial_json", "args"))
# Rows that no path of the table's own tests reaches.
_FURTHER: Final = (
    "/v1/messages/count_tokens", "/v1/models/m:countTokens", "/model/m/count-tokens",
    "/v1/projects/p/models/count-tokens@1:rawPredict", "/v1/responses/input_tokens", "/tokenize",
    "/api/show", "/v1/responses/compact", "/v1/complete", "/v1beta/models/e:embedContent",
    "/v1/projects/p/publishers/mistralai/models/m:streamRawPredict", "/v2/embed", "/v1/embed",
    "/generate", "/api/embed", "/v2/rerank", "/v1/rerank", "/v1/embeddings",
    "/v1/images/generations", "/v1/audio/speech", "/v1/videos", "/v1/messages/batches",
    "/v1/batches", "/v1/files", "/v1/ocr", "/v1/models/veo:predict", "/model/m/async-invoke",
    "/v1/responses/resp_1/cancel", "/generate_stream", "/v1/threads/t/messages",
    "/v1/models/imagen-4:predict", "/v1/predictions/p/cancel", "/v1beta/interactions/v1_1/cancel",
)  # fmt: skip
PATHS: Final = tuple(dict.fromkeys((*(s.path for s in SAMPLES), *POSTS, *_FURTHER)))
SOCKETS: Final = ("/v1/responses", "/v1/realtime")
_LIMITS: Final = ReadLimits()
_LARGE: Final = 10_000  # bytes
_TURNS: Final = 8  # rows of a dialect until each failure was had again


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One call: what is asked where, and what comes back."""

    name: str
    path: str = CHAT
    method: str = "POST"
    answer: Answer
    model: str = "m-1"
    streamed: bool = False


def asked(way: Way) -> dict[str, Any]:
    """A request with what every dialect asks, in each of its places."""
    call = {
        "id": "c",
        "function": {"name": "look", "arguments": json.dumps({"at": ARGUMENTS.text})},
    }
    turns = [
        {"role": "user", "content": PROMPT.text},
        {"role": "assistant", "content": COMPLETION.text, "tool_calls": [call]},
    ]
    return {
        "model": way.model, "stream": way.streamed, "messages": turns, "prompt": PROMPT.text,
        "input": [PROMPT.text], "system": PROMPT.text, "instructions": PROMPT.text,
        "contents": [{"role": "user", "parts": [{"text": PROMPT.text}]}], "user": PROMPT.text,
        "metadata": {"user_id": PROMPT.text}, "tools": [{"name": ARGUMENTS.text}],
    }  # fmt: skip


def ways(*, every: bool = True) -> list[Way]:
    """Every sample of an answer, every sample of an error, and failures; none of them twice.

    Arguments:
        every: whether each row of the table has every failure; else each dialect has every one,
            and a further row of it some, in turn.
    """
    found: dict[Way, Way] = {}
    for way in (*_samples(), *_errors(), *_rows(every=every), *_odd()):
        found.setdefault(replace(way, name=""), way)
    return list(found.values())


def few() -> list[Way]:
    """An answer of every dialect, whole and streamed, and every failure not large; each once."""
    samples: dict[object, Way] = {}
    for sample in SAMPLES:
        dialect = routes.route("POST", sample.path.encode()).dialect
        for change in (_natural, _everything):
            said = Way(name=f"{sample.name} {change.__name__}", **_sampled(sample, change))
            samples.setdefault((dialect, sample.type, change), said)
    fine = list(samples.values())
    small = {n: each for n, each in _FAILURES.items() if sum(map(_size, each.body)) < _LARGE}
    failing = zip(itertools.cycle(fine), small.items(), strict=False)
    return [*fine, *(replace(way, name=name, answer=answer) for way, (name, answer) in failing)]


def _size(step: object) -> int:
    return len(step) if isinstance(step, bytes) else 0


def _samples() -> Iterator[Way]:
    for sample in SAMPLES:
        yield Way(name=f"{sample.name} as it is", **_sampled(sample, _natural))
        yield Way(name=f"{sample.name} all text", **_sampled(sample, _everything))


def _errors() -> Iterator[Way]:
    for number, error in enumerate(DOCUMENTED):
        for name, change in (("natural", _natural), ("all text", _everything)):
            yield Way(name=f"error {number} {name}", answer=_erring(error, change))


def _rows(*, every: bool) -> Iterator[Way]:
    failures, heard = [*_FAILURES.items(), *_large_failures()], set[str]()
    for number, path in enumerate(one_path_a_row()):
        dialect = routes.route("POST", path.encode()).dialect.name
        whole = every or dialect not in heard
        heard.add(dialect)
        failing = failures if whole else failures[number % _TURNS :: _TURNS]
        for name, answer in (*_fine(path).items(), *failing):
            yield Way(name=f"{path}: {name}", path=path, answer=answer, streamed="stream" in name)


def one_path_a_row() -> list[str]:
    """A path for each row of the table.

    Raises:
        LookupError: a row is there that no known path leads to; name one in ``_FURTHER``.
    """
    found: dict[int, str] = {}
    for path in PATHS:
        row = next((n for n, row in enumerate(routes._POSTS) if row.suffix.search(path)), None)
        if row is not None:
            found.setdefault(row, path)
    missing = [row.suffix.pattern for n, row in enumerate(routes._POSTS) if n not in found]
    if missing:
        raise LookupError(f"no path is known for {missing}")
    return list(found.values())


def spoken() -> set[str]:
    """The names of the dialects that a sample of an answer is in."""
    return {routes.route("POST", sample.path.encode()).dialect.name for sample in SAMPLES}


def known(rows: tuple[routes._RouteRow, ...] = routes._POSTS) -> set[str]:
    """The names of the dialects that rows name and that are read."""
    return {row.dialect.name for row in rows if row.dialect.known}


# -- texts put in place ---------------------------------------------------------------------

Change = Callable[[object], object]


def _natural(value: object, under: str = "") -> object:
    """The same with every text replaced, and every name kept."""
    if isinstance(value, dict):
        return {name: _natural(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_natural(part, under) for part in value]
    if under == "bytes" and isinstance(value, str):
        inner = _natural(json.loads(base64.b64decode(value)))
        return base64.b64encode(json.dumps(inner).encode()).decode()
    if not isinstance(value, str) or not value or under in _NAMES:
        return value
    if under in _ARGUMENTS:
        return ARGUMENTS.text
    return COMPLETION.text if under in ("content", "text", "delta") else ECHO


def _everything(value: object) -> object:
    """The same with every text and every name replaced."""
    if isinstance(value, dict):
        return {name: _everything(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_everything(part) for part in value]
    return ECHO if isinstance(value, str) else value


def _sampled(sample: Sample, change: Change) -> dict[str, Any]:
    headers = {**sample.headers, "content-type": sample.type}
    body = _retold(_plain(sample), sample.type, change)
    headers.pop("content-encoding", None)
    answer = Answer(headers=tuple(headers.items()), body=(body,))
    streamed = sample.type != answers.JSON[0][1]
    return {"path": sample.path, "answer": answer.in_pieces(61), "streamed": streamed}


def _plain(sample: Sample) -> bytes:
    coding = sample.headers.get("content-encoding")
    undo = decoder([coding.encode()], 1 << 24) if coding else None
    return undo.feed(sample.body) if undo else sample.body


def _retold(body: bytes, type_: str, change: Change) -> bytes:
    if type_ == EVENTS:
        return b"".join(_reframed(body, change))
    try:
        return json.dumps(change(json.loads(body))).encode()
    except ValueError:
        return b"\n".join(_relined(line, change) for line in body.split(b"\n"))


def _reframed(body: bytes, change: Change) -> Iterator[bytes]:
    for message in EventStreamFeeder(1 << 24).feed(body):
        headers = {n.removeprefix(":").replace("-", "_"): v for n, v in message.headers.items()}
        yield frame(change(json.loads(message.payload)), **headers)


def _relined(line: bytes, change: Change) -> bytes:
    start = line.find(b"{")
    try:
        return line[:start] + json.dumps(change(json.loads(line[start:]))).encode()
    except ValueError:
        return line


def _erring(error: Labelled, change: Change) -> Answer:
    if error.headers.get("content-type") == SSE:
        body = _retold(error.sent(), SSE, change)
        return Answer(headers=tuple(error.headers.items()), body=(body,))
    return answers.whole(ECHO if isinstance(error.body, str) else change(error.body), error.status)


def _fine(path: str) -> Mapping[str, Answer]:
    """An answer in the path's own dialect, whole or streamed, and one that nobody can read."""
    dialect = routes.route("POST", path.encode()).dialect
    return {"unreadable": answers.whole({COMPLETION.text: [COMPLETION.text]}), **_of(dialect)}


def _of(dialect: Dialect) -> dict[str, Answer]:
    in_it = [s for s in SAMPLES if routes.route("POST", s.path.encode()).dialect is dialect]
    return {
        f"{'whole' if sample.type == 'application/json' else 'stream'} of {dialect.name}":
            _sampled(sample, _natural)["answer"]
        for sample in in_it
    }  # fmt: skip


# -- failures, the same for each row --------------------------------------------------------

_ERROR: Final = {
    "error": {"message": ECHO, "type": ECHO, "code": key("code"), "param": PROMPT.text,
              "status": ECHO, "details": [{"reason": key("reason"), "metadata": {"raw": ECHO}}],
              "metadata": {"raw": ECHO, "flagged_input": PROMPT.text}},
    "message": ECHO, "detail": ECHO,
}  # fmt: skip
_SAID: Final = answers.data({"choices": [{"delta": {"content": COMPLETION.text}}]})
_ERROR_TEXT: Final = b"event: error\ndata: " + ECHO.encode() + b"\n\n"
_STREAM: Final = answers.streamed(_SAID, _SAID, answers.data(_ERROR))


def _bomb(more_than: int) -> Answer:
    times = more_than // len(COMPLETION.text) + 1
    body = gzip.compress(json.dumps({"content": COMPLETION.text * times}).encode())
    return Answer(headers=(*answers.JSON, ("content-encoding", "gzip")), body=(body,))


_TELLING: Final = tuple(
    (name, ECHO.partition("\n")[0].encode().decode("latin-1"))
    for name in ("x-request-id", "request-id", "x-amzn-errortype", "retry-after", "x-should-retry",
                 "x-ratelimit-reset-requests", "location", "x-litellm-response-cost", "set-cookie",
                 "openai-organization", "www-authenticate", HEADER.word)
)  # fmt: skip

_FAILURES: Final[Mapping[str, Answer]] = {
    **{
        f"status {status}": answers.whole(_ERROR, status)
        for status in (400, 401, 403, 404, 429, 500, 529)
    },
    "telling headers": answers.whole(_ERROR, 429).with_headers(*_TELLING),
    "redirect": Answer(status=307, headers=(("location", f"http://x/?k={QUERY.word}"),)),
    "text": Answer(status=500, headers=(("content-type", "text/plain"),), body=(ECHO.encode(),)),
    "page": Answer(status=502, body=(b"<html>" + ECHO.encode(),)),
    "page in a 200": Answer(body=(b"<!doctype html>" + ECHO.encode(),)),
    "nothing": Answer(body=()),
    "half a body": Answer(body=(json.dumps(_ERROR).encode()[:-40],)),
    "stream, error in it": _STREAM,
    "stream, error as text": answers.streamed(_SAID, _ERROR_TEXT),
    "stream, cut": _STREAM.stopping_after(1, Cut()),
    "stream, reset": _STREAM.stopping_after(1, Cut(reset=True)),
    "stream, no stream": answers.streamed(ECHO.encode()),
    "body, cut": replace(answers.whole(_ERROR, 500), length=99_999, framing=Framing.LENGTH,
                         body=(json.dumps(_ERROR).encode(), Cut())),
    "garbage said to be gzip": answers.whole(_ERROR).with_headers(("content-encoding", "gzip")),
    "an encoding nobody knows":
        answers.whole(_ERROR).with_headers(("content-encoding", HEADER.word)),
    "said to be an event stream":
        Answer(headers=(("content-type", EVENTS),), body=(ECHO.encode(),)),
}  # fmt: skip


def _large_failures() -> Iterator[tuple[str, Answer]]:
    """Further ones, which take long to make."""
    yield "bomb", _bomb(_LIMITS.body_bytes)
    # More lines that are no events than are kept, for an error in them.
    line = ECHO.encode() * (_STRAY_LIMIT // len(ECHO) + 1)
    yield "stream, lines that are no events", answers.streamed(b"data: " + line + b"\n\n")


def _odd() -> Iterator[Way]:
    """Calls that are odd themselves, and answers too large to be had in every dialect."""
    fine = answers.chat()
    hangs = _STREAM.stopping_after(2, Hang())
    yield Way(name="stream, silent", answer=hangs, streamed=True)
    line = ECHO.replace("\n", " ").encode() * (_LIMITS.line_bytes // len(ECHO) + 1)
    deaf = answers.streamed(b"data: " + line + b"\n\n")
    yield Way(name="stream, deaf", answer=deaf, streamed=True)
    yield Way(name="bomb of which not all is decoded", answer=_bomb(_LIMITS.inflate_bytes))
    for model in (PROMPT.text, key("model"), f"m {ARGUMENTS.word}"):
        yield Way(name="a model that is none", answer=fine, model=model)
    for path in (
        f"/v1/{QUERY.word}/unknown", f"/v1beta/models/{QUERY.word}%20x:generateContent",
        f"/v1/models/{QUERY.word}",
    ):  # fmt: skip
        for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            yield Way(name=f"{method} {path}", path=path, method=method, answer=fine)
