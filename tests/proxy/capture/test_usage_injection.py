"""Usage that only the proxy asked for: the record has it, the agent's bytes are a direct call's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Ending, UsageSource
from proxy.capture.usage_injection import BODY_LIMIT, UsageFilter, with_usage
from proxy.routing.upstreams import BUILT_IN, allow_list
from tests.fakes import answers, caller
from tests.fakes.provider import Answer, Cut, Framing, Pause, Provider, Request
from tests.fakes.relaying import Relaying, relaying
from tests.proxy.wire.chunks import cut, places
from tests.proxy.wire.samples import delta, dump, last, sse
from tests.tables import each

CHAT = "/v1/chat/completions"
STREAM = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}], "stream": True}
ASKING = {"openai": {"include_usage": True}}


def unasked(stream: Answer) -> Answer:
    """Return the stream as OpenAI sends it to a caller who did not request usage."""
    kept = []
    for event in stream.content.split(b"\n\n")[:-1]:
        data = event.removeprefix(b"data: ")
        chunk = None if data == b"[DONE]" else json.loads(data)
        if chunk is None:
            kept.append(event + b"\n\n")
        elif chunk.pop("usage") is None:
            kept.append(answers.data(chunk))
    return Answer(headers=answers.SSE, body=tuple(kept), framing=Framing.CHUNKED)


ASKED = answers.chat_stream()
UNASKED = unasked(ASKED)


def as_openai(asked: Answer = ASKED, otherwise: Answer = UNASKED) -> object:
    """Run a provider that adds usage where it is requested, and only there."""

    def answer(request: Request) -> Answer:
        body = request.body
        if request.header("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return asked if asks(body) else otherwise

    return answer


def asks(body: bytes) -> bool:
    options = json.loads(body).get("stream_options") or {}
    return options.get("include_usage") is True


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(as_openai()) as running:  # type: ignore[arg-type]
        yield running


@pytest.fixture
def relay(provider: Provider) -> Iterator[Relaying]:
    with relaying(provider.url, upstreams=ASKING) as running:
        yield running


def raw(url: str, **more: object) -> tuple[httpx.Response, bytes]:
    """Return a response and its body's bytes as they came."""
    with caller.stream("POST", url, **({"json": STREAM} | more)) as answer:  # type: ignore[arg-type]
        return answer, b"".join(answer.iter_raw())


def test_the_agent_gets_a_direct_calls_bytes_and_the_record_the_usage(
    provider: Provider, relay: Relaying
) -> None:
    _, direct = raw(provider.url + CHAT)
    answer, relayed = raw(relay.base() + CHAT)
    assert relayed == direct == UNASKED.content != ASKED.content
    assert answer.headers["content-type"] == UNASKED.headers[0][1]
    alone, asked = provider.requests
    assert not asks(alone.body)
    assert asks(asked.body)
    usage = relay.book.only.usage
    assert (usage.input_tokens, usage.output_tokens) == (
        answers.INPUT_TOKENS,
        answers.OUTPUT_TOKENS,
    )
    assert usage.source is UsageSource.PROVIDER


@each("framing", list(Framing))
def test_it_does_in_every_framing(provider: Provider, relay: Relaying, framing: Framing) -> None:
    provider.plays(Answer(headers=answers.SSE, body=ASKED.body, framing=framing))
    answer, relayed = raw(relay.base() + CHAT)
    assert relayed == UNASKED.content
    assert answer.headers.get("content-length") in (None, str(len(relayed)))
    assert relay.book.exchanges[-1].ending is Ending.COMPLETE


@each("coding", ["gzip", "deflate", "br", "zstd"])
def test_an_encoded_stream_comes_without_its_encoding_and_without_the_usage(
    provider: Provider, relay: Relaying, coding: str
) -> None:
    provider.plays(answers.encoded(ASKED, coding))
    answer, relayed = raw(relay.base() + CHAT, headers={"accept-encoding": coding})
    assert relayed == UNASKED.content
    assert "content-encoding" not in answer.headers
    assert provider.requests[-1].header("accept-encoding") == coding
    assert relay.book.exchanges[-1].usage.output_tokens == answers.OUTPUT_TOKENS


def test_a_stream_in_a_broken_encoding_is_cut(provider: Provider, relay: Relaying) -> None:
    broken = (*answers.SSE, ("content-encoding", "gzip"))
    provider.plays(Answer(headers=broken, body=(b"no gzip",), framing=Framing.CHUNKED))
    with pytest.raises(httpx.RemoteProtocolError):
        raw(relay.base() + CHAT)
    assert relay.book.only.ending is Ending.CUT_UPSTREAM


def test_an_encoding_that_nobody_offered_passes_as_it_is(
    provider: Provider, relay: Relaying
) -> None:
    odd = (*answers.SSE, ("content-encoding", "rot13"))
    provider.plays(Answer(headers=odd, body=(b"nonsense",), framing=Framing.CHUNKED))
    answer, relayed = raw(relay.base() + CHAT)
    assert (relayed, answer.headers["content-encoding"]) == (b"nonsense", "rot13")


def test_only_the_asking_is_added_to_the_request(provider: Provider, relay: Relaying) -> None:
    body = b'{ "model":"gpt-5",\r\n"messages":[], "stream" : true  }'
    raw(
        relay.base() + CHAT,
        json=None,
        content=body,
        headers={"content-type": "application/json", "x-odd": "a b"},
    )
    (seen,) = provider.requests
    assert seen.body.replace(b'"stream_options":{"include_usage":true},', b"", 1) == body
    assert seen.header("content-length") == str(len(seen.body))
    assert seen.header("x-odd") == "a b"
    assert relay.book.only.request_bytes == len(body)


def upload() -> Iterator[bytes]:
    yield json.dumps(STREAM).encode()


UNTOUCHED: dict[str, dict[str, object]] = {
    "it says yes": {"json": STREAM | {"stream_options": {"include_usage": True}}},
    "it says no": {"json": STREAM | {"stream_options": {"include_usage": False}}},
    "it is no stream": {"json": {"model": "gpt-5", "messages": []}},
    "it speaks of streams only in its text": {
        "json": {"model": "gpt-5", "messages": [{"role": "user", "content": '"stream":true'}]}
    },
    "it is no json": {"json": None, "content": b'"stream": true, of words'},
    "it is encoded": {
        "json": None,
        "content": gzip.compress(json.dumps(STREAM).encode()),
        "headers": {"content-encoding": "gzip"},
    },
    "it only says that it is encoded": {"headers": {"content-encoding": "zstd"}},
    "it is signed": {
        "headers": {"authorization": "AWS4-HMAC-SHA256 Credential=AKID/x, Signature=1"}
    },
    "it is still being sent": {"json": None, "content": b"stream"},
    "its agent may be answered in an encoding unknown here": {
        "headers": {"accept-encoding": "gzip, dcb"}
    },
    "it is larger than is held in memory": {
        "json": STREAM | {"metadata": {"pad": "x" * BODY_LIMIT}}
    },
}


@each("why", UNTOUCHED)
def test_a_request_is_left_alone_where(provider: Provider, relay: Relaying, why: str) -> None:
    how = dict(UNTOUCHED[why])
    provider.plays(ASKED)
    if how.get("content") == b"stream":
        how["content"] = upload()
    answer, relayed = raw(relay.base() + CHAT, **how)
    assert relayed == ASKED.content
    sent = b"".join(upload()) if "still" in why else answer.request.read()
    assert provider.requests[-1].body == sent


@each(
    "method, path",
    [("POST", "/v1/embeddings"), ("POST", "/v1/responses"), ("POST", "/v1/chat/completions/x"),
     ("PUT", CHAT)],
)  # fmt: skip
def test_other_calls_are_left_alone(
    provider: Provider, relay: Relaying, method: str, path: str
) -> None:
    answer = caller.request(method, relay.base() + path, json=STREAM)
    assert provider.requests[-1].body == answer.request.read()


def test_legacy_completions_are_asked(provider: Provider, relay: Relaying) -> None:
    _, relayed = raw(relay.base() + "/v1/completions", json={"prompt": "x", "stream": True})
    assert relayed == UNASKED.content
    assert asks(provider.requests[0].body)


def test_it_is_switched_off_per_upstream(provider: Provider) -> None:
    with relaying(provider.url, upstreams={"openai": {"include_usage": False}}) as relay:
        _, relayed = raw(relay.base() + CHAT)
    assert relayed == UNASKED.content
    assert not asks(provider.requests[0].body)


def test_who_is_asked_unless_an_operator_says_otherwise() -> None:
    asked = {name for name, upstream in BUILT_IN.items() if upstream.include_usage}
    assert asked == {"openai", "qwen", "ollama", "vllm"}
    added = allow_list({"mine": {"url": "https://llm.example"}, "ollama": {"include_usage": False}})
    assert not added["mine"].include_usage
    assert not added["ollama"].include_usage
    assert allow_list({"mine": {"include_usage": True}})["mine"].include_usage


def test_a_whole_answer_to_a_stream_passes_as_it_is(provider: Provider, relay: Relaying) -> None:
    provider.plays(answers.chat())
    answer, relayed = raw(relay.base() + CHAT)
    assert relayed == answers.chat().content
    assert answer.headers["content-length"] == str(len(relayed))


def test_an_end_without_its_blank_line_waits_for_the_commit_too(
    provider: Provider, relay: Relaying
) -> None:
    body = (*ASKED.body[:-1], b"data: [DONE]\n")
    provider.plays(Answer(headers=answers.SSE, body=body, framing=Framing.CHUNKED))
    relay.book.hold.set()
    assert b"[DONE]" not in relay.until_silent(CHAT, STREAM)
    relay.book.hold.clear()
    _, relayed = raw(relay.base() + CHAT)
    assert relayed == UNASKED.content[:-1]


def test_a_stream_cut_midway_is_cut_at_the_same_byte(provider: Provider, relay: Relaying) -> None:
    halves = ASKED.body[1][:20], ASKED.body[1][20:]  # type: ignore[index]
    body = (ASKED.body[0], halves[0], Pause(0.05), Cut())
    provider.plays(Answer(headers=answers.SSE, body=body, framing=Framing.CHUNKED))
    got = b""
    with (
        pytest.raises(httpx.RemoteProtocolError),
        caller.stream("POST", relay.base() + CHAT, json=STREAM) as answer,
    ):
        for chunk in answer.iter_raw():
            got += chunk
    assert got == UNASKED.body[0] + halves[0]  # type: ignore[operator]
    assert relay.book.only.ending is Ending.CUT_UPSTREAM


# --- usage request --------------------------------------------------------------------------------

U = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
USAGE_REQUEST_ASKED = {"include_usage": True}


# -- the request ---------------------------------------------------------------------------


def test_a_stream_that_asks_for_nothing_is_asked_and_nothing_else_changes() -> None:
    body = b' {\n  "model": "m" ,"stream" : true, "messages":[ ]}\n'
    asked = with_usage(body)
    assert asked is not None
    assert json.loads(asked) == json.loads(body) | {"stream_options": USAGE_REQUEST_ASKED}
    assert asked.replace(b'"stream_options":{"include_usage":true},', b"", 1) == body


@each(
    "options, wanted",
    [
        (None, USAGE_REQUEST_ASKED),
        ({}, USAGE_REQUEST_ASKED),
        ({"include_obfuscation": False}, USAGE_REQUEST_ASKED | {"include_obfuscation": False}),
        ({"continuous_usage_stats": True}, USAGE_REQUEST_ASKED | {"continuous_usage_stats": True}),
    ],
)
def test_options_that_do_not_mention_it_are_added_to(options: object, wanted: object) -> None:
    request = {"stream": True, "stream_options": options, "n": 1}
    for body in (dump(request), json.dumps(request, indent=2).encode()):
        asked = with_usage(body)
        assert asked is not None
        assert json.loads(asked) == request | {"stream_options": wanted}


def test_options_in_an_earlier_tool_call_are_not_the_request_s() -> None:
    earlier = [{"arguments": {"stream_options": {}}}, {"x": '"stream_options":{}'}]
    request = {"messages": earlier, "stream": True, "stream_options": {"include_obfuscation": True}}
    asked = with_usage(dump(request))
    assert asked is not None
    assert json.loads(asked)["messages"] == earlier
    assert json.loads(asked)["stream_options"] == USAGE_REQUEST_ASKED | {
        "include_obfuscation": True
    }


@each(
    "request_",
    [
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_usage": None}},
        {"stream": True, "stream_options": [1]},
        {"stream": False}, {"stream": "true"}, {"model": "m"}, {}, [], "stream",
    ],
)  # fmt: skip
def test_an_answer_already_given_and_no_stream_are_respected(request_: object) -> None:
    assert with_usage(dump(request_)) is None


@given(st.binary(max_size=60))
def test_what_is_no_json_stays(body: bytes) -> None:
    assert with_usage(b'"stream":true ' + body) is None


# -- the answer ----------------------------------------------------------------------------


def stripped(pieces: list[bytes], *, nulls: bool = True) -> bytes:
    stripper = UsageFilter(nulls=nulls)
    return b"".join([stripper.feed(piece) for piece in pieces]) + stripper.flush()


def asked_and_unasked(end: bytes = b"\n") -> tuple[bytes, bytes]:
    """Return the same stream with usage requested, and without."""
    chunks = [delta(role="assistant", content=""), delta(content='say "usage":null, twice'),
              delta(content="é" * 9) | {"obfuscation": "xY"}, delta("stop")]  # fmt: skip
    with_nulls = [
        {"id": "c1", "usage": None} | chunk if place == 1 else chunk | {"usage": None}
        for place, chunk in enumerate(chunks)
    ]
    with_nulls[2] = {k: with_nulls[2][k] for k in ("id", "object", "model", "choices", "usage",
                                                   "obfuscation")}  # fmt: skip
    return sse(*with_nulls, last(U), end=end), sse(*chunks, end=end)


@each("end", [b"\n", b"\r\n", b"\r"])
def test_the_agent_sees_what_it_would_have_seen(end: bytes) -> None:
    asked, unasked = asked_and_unasked(end)
    assert stripped([asked]) == unasked
    assert stripped([asked[i : i + 1] for i in range(len(asked))]) == unasked


def test_blanks_between_the_tokens_of_a_chunk_do_not_matter() -> None:
    asked, unasked = (
        sse(*(json.dumps(chunk).encode() for chunk in chunks))
        for chunks in (
            [delta(content="a") | {"usage": None}, {"usage": None} | delta("stop"), last(U)],
            [delta(content="a"), delta("stop")],
        )
    )
    assert b'"usage": null' in asked
    assert stripped([asked]) == unasked


@given(places)
def test_it_sees_it_however_the_stream_is_cut(where: list[int]) -> None:
    asked, unasked = asked_and_unasked()
    assert stripped(cut(asked, where)) == unasked


@each("joined", [False, True])
def test_a_null_usage_with_scalars_behind_it_goes_as_openai_writes_it(joined: bool) -> None:
    chunk = delta(content='a,"usage":null')
    after = {"obfuscation": "aB3", "n": 1.5e3, "ok": None}
    asked = [sse(chunk | {"usage": None} | after, done=False), sse(last(U))]
    unasked = sse(chunk | after)
    assert stripped([b"".join(asked)] if joined else asked) == unasked
    assert stripped(asked, nulls=False) == asked[0] + b"data: [DONE]\n\n"


def test_an_event_is_forwarded_as_soon_as_it_is_whole() -> None:
    stripper = UsageFilter()
    one = sse(delta(content="a"), done=False)
    assert stripper.feed(one) == one
    assert stripper.feed(one[:9]) == b""
    assert stripper.feed(one[9:]) == one
    assert stripper.feed(sse(last(U), done=False)) == b""


def test_a_chunk_without_choices_that_has_no_usage_stays() -> None:
    first = {"choices": [], "model": "", "prompt_filter_results": [{"prompt_index": 0}]}
    assert stripped([sse(first | {"usage": None}, last(U))]) == sse(first)


def test_usage_that_rides_on_a_chunk_with_choices_stays() -> None:
    body = sse(delta("stop") | {"usage": U})
    assert stripped([body]) == body


def test_a_null_usage_inside_a_choice_stays() -> None:
    inner = delta(content="a")
    inner["choices"][0]["usage"] = None
    assert stripped([sse(inner)]) == sse(inner)
    between = {"choices": inner["choices"], "usage": None, "tail": [1]}
    assert stripped([sse(between)]) == sse({"choices": inner["choices"], "tail": [1]})


def test_nulls_that_the_server_sends_unasked_stay() -> None:
    body = sse(delta(content="a") | {"usage": None}, done=False)
    assert stripped([body + sse(last(U))], nulls=False) == body + b"data: [DONE]\n\n"


def test_comments_named_events_and_what_is_no_json_pass() -> None:
    comment = b': {"a":1,"usage":null}\n\n'
    assert stripped([comment]) == comment
    body = (b': "usage":null\n\nevent: x\ndata: {"usage":null}\n\ndata: {"usage":null\n\n'
            b'data: {"a":1,\ndata: "usage":null}\n\ndata: "usage"')  # fmt: skip
    assert stripped([body]) == body


@given(places)
def test_a_usage_chunk_goes_wherever_it_is_cut_where_no_other_chunk_speaks_of_usage(
    where: list[int],
) -> None:
    asked, unasked = sse(delta(content="a"), last(U)), sse(delta(content="a"))
    assert stripped(cut(asked, where)) == unasked
    assert stripped(cut(asked, [*where, len(unasked) - 12])) == unasked


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [65_536, 65_537, 1_000])
def test_an_event_over_the_limit_passes_and_those_after_it_are_stripped(
    end: bytes, size: int
) -> None:
    long = b"data: " + b"x" * 1_100_000 + 2 * end
    body = long + sse(last(U), end=end)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    assert stripped(pieces) == long + sse(end=end)
    for split in (1, 2, 3, 4):
        at = len(long) - split
        assert stripped([body[:at], body[at:]]) == long + sse(end=end)


def test_the_start_of_an_event_over_the_limit_is_not_held() -> None:
    stripper = UsageFilter()
    body = b"data: " + b"x" * 1_100_000
    assert stripper.feed(body) == body
    assert stripper.feed(b"y") == b"y"


@given(st.binary(max_size=200), places)
def test_random_bytes_pass_unchanged(data: bytes, where: list[int]) -> None:
    assert stripped(cut(data, where)) == data
