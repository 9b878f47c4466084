"""One response as it arrives: encoding, framing, payloads."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
import zstandard

from classifier.records import Flaw
from proxy.wire import routes
from proxy.wire.framing import Unreadable
from proxy.wire.response import ReadLimits, ResponseReader
from tests.proxy.wire.samples import EVENTS, JSON, NDJSON, SSE, chat, chunk, delta, lines, sse
from tests.tables import each

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
STREAM = sse(delta(content="a"), delta("stop"))
CHAT, INVOKE = "/v1/chat/completions", "/model/m/invoke-with-response-stream"


def reader(
    type_: str, path: str = CHAT, *, status: int = 200, most: int = 1000, **headers: str
) -> ResponseReader:
    one = ResponseReader(routes.route("POST", path.encode()), ReadLimits(body_bytes=most))
    pairs = [(b"content-type", type_.encode())]
    pairs += [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    one.head(status, pairs, dict(pairs))
    return one


@pytest.mark.parametrize(
    ("type_", "body", "path", "framed"),
    [
        (SSE, STREAM, CHAT, True),
        (JSON, STREAM, CHAT, True),  # content types are often wrong
        (SSE, chat(USAGE), CHAT, False),
        (NDJSON, lines(delta("stop")), CHAT, True),
        (EVENTS, chunk({"outputText": "a", "completionReason": "FINISH"}), INVOKE, True),
        (JSON, chat(USAGE), CHAT, False),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_first_bytes_tell_a_stream_from_a_body(
    type_: str, body: bytes, path: str, framed: bool, size: int
) -> None:
    if type_ == SSE and not framed:
        body = b"[" + body + b"]"  # no SSE begins so
    one = reader(type_, path)
    for at in range(0, len(body), size):
        one.feed(body[at : at + size])
    assert one.framed is framed
    reading, _, flaw = one.end()
    assert reading.finish_reason is not None
    assert flaw is None


def test_an_encoded_body_is_decoded() -> None:
    one = reader(JSON, content_encoding="gzip")
    one.feed(gzip.compress(chat(USAGE)))
    assert one.end()[0].total_tokens == 3


def large() -> ResponseReader:
    return reader(JSON, most=2**24, **{"content-encoding": "gzip"})  # type: ignore[arg-type]


def test_an_encoded_body_of_many_turns_is_read_as_if_it_came_at_once() -> None:
    body = chat(USAGE, content="x" * 500_000)
    one, other = large(), reader(JSON, most=10**7)
    other.feed(body)
    assert one.feed(gzip.compress(body))
    while one.decode_more():
        pass
    assert one.end() == other.end()


@each("value", [b"{}", b"[]", b"[1]", b"1,1,1,1,1,1", b"{}\n{}"])
def test_what_costs_too_much_to_parse_is_unreadable(value: bytes) -> None:
    """16 MB of `{}` take orjson seconds, in which nobody else has a turn; and 15 kB on the wire."""
    bomb = gzip.compress(b"[" + b",".join([value] * 300_000) + b"]")
    assert len(bomb) < 10_000
    one = large()
    with pytest.raises(Unreadable, match="values"):
        more = one.feed(bomb)
        while more:
            more = one.decode_more()


@pytest.mark.slow
def test_what_an_answer_with_probabilities_holds_is_readable() -> None:
    """20 alternatives for each of 5,000 tokens: more values than any other answer has."""
    entry = b",".join(b'{"token":"t%d","logprob":-%%d,"bytes":[%d]}' % (n, n) for n in range(20))
    rows = b",".join(
        b"[%b]" % entry % tuple(range(at, at + 19 * 7919 + 1, 7919)) for at in range(5000)
    )
    body = b'{"choices":[{"logprobs":[%b],"finish_reason":"stop"}]}' % rows
    one = large()
    more = one.feed(gzip.compress(body))
    while more:
        more = one.decode_more()
    assert one.end()[0].finish_reason == "stop"


def test_an_unknown_encoding_is_unreadable_unless_the_body_is_plain() -> None:
    with pytest.raises(Unreadable):
        reader(JSON, content_encoding="lz4").feed(b"\x04\x22M\x18")
    one = reader(JSON, content_encoding="UTF-8")
    one.feed(b'{"model": "m"}')
    assert one.end()[0].model == "m"


def test_a_body_over_its_limit_is_unreadable() -> None:
    one = reader(JSON)
    one.feed(b"{" + b" " * 900)
    with pytest.raises(Unreadable, match="over 1000 bytes"):
        one.feed(b" " * 200)


def test_a_stream_of_blanks_is_empty() -> None:
    one = reader(NDJSON)
    one.feed(b" \n")
    assert one.end()[2] is Flaw.EMPTY_BODY


@pytest.mark.parametrize("media_type", [JSON, NDJSON])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, zstd"])
def test_an_encoded_body_that_is_cut_before_it_says_anything_is_not_empty(
    encoding: str, media_type: str
) -> None:
    encoded = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
        "zstd": zstandard.compress,
        "gzip, zstd": lambda plain: zstandard.compress(gzip.compress(plain)),
    }[encoding]
    cut, empty = (reader(media_type, content_encoding=encoding) for _ in range(2))
    cut.feed(encoded(b'{"id": "a"}\n')[:5])
    assert cut.end()[1:] == (False, Flaw.TRUNCATED)
    empty.feed(encoded(b""))
    assert empty.end()[1:] == (False, Flaw.EMPTY_BODY)


@each("encoding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
def test_a_body_that_is_not_in_its_encoding_has_an_end(encoding: str) -> None:
    one = reader(SSE, content_encoding=encoding)
    with pytest.raises(Unreadable):
        one.feed(b"\xffdata: ")
    assert one.end()[1:] == (False, Flaw.TRUNCATED)


def test_the_end_may_be_asked_for_in_the_middle() -> None:
    one = reader(SSE)
    one.feed(STREAM[:-20])
    assert one.end()[1] is False
    one.feed(STREAM[-20:])
    assert one.end()[1] is True


def test_events_are_skimmed_between_events_once_output_was_seen() -> None:
    one = reader(SSE)
    one.feed(sse(delta(role="assistant"), done=False))
    assert one.skim is None
    one.feed(sse(delta(content="a"), done=False))
    assert one.skim is not None
    one.feed(b"data: {")
    assert one.skim is None
