"""The relay against a real provider socket: bytes unchanged, one honest ending each."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx
import pytest

from classifier import judge
from classifier.causes import classify
from classifier.records import AnswerState, Attribution, Ending, RolloutRecord
from classifier.verdicts import Health, Subcategory
from proxy.capture.observer import CauseRules, SilenceLimits
from proxy.outbound import dial
from proxy.relay.context import CallLimits
from proxy.routing.headers import key_digest
from tests.fakes import answers, caller
from tests.fakes.provider import (
    Answer,
    Cut,
    Framing,
    Hang,
    Pause,
    Provider,
    Wait,
    closed_port,
)
from tests.fakes.relaying import KEYRING, Relaying, relaying

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**ASK, "stream": True}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(answers.healthy) as running:
        yield running


@pytest.fixture
def relay(provider: Provider) -> Iterator[Relaying]:
    with relaying(provider.url) as running:
        yield running


def test_an_answer_passes_byte_for_byte(provider: Provider, relay: Relaying) -> None:
    body = b'{"id":"1",  "spaced" : "out",\n "n":1}'
    provider.plays(Answer(body=(body,)))
    answer = caller.post(relay.base() + CHAT, json=ASK)
    assert (answer.status_code, answer.content) == (200, body)


def test_a_request_passes_byte_for_byte(provider: Provider, relay: Relaying) -> None:
    body = b'{ "model":"gpt-5",\r\n"messages":[]  }'
    headers = {"content-type": "application/json", "x-odd": "a b", "authorization": "Bearer k"}
    caller.post(relay.base() + CHAT + "?a=%2F&b", content=body, headers=headers)
    (seen,) = provider.requests
    assert (seen.body, seen.target, seen.method) == (body, CHAT + "?a=%2F&b", "POST")
    assert seen.header("authorization") == "Bearer k"
    assert seen.header("x-odd") == "a b"
    assert seen.header("host") == provider.url.removeprefix("http://")


def test_nothing_is_added_to_a_request(provider: Provider, relay: Relaying) -> None:
    request = b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
    relay.raw(request + b"X-B: 2\r\nX-A: 1\r\nX-B: 3\r\nConnection: close\r\n\r\n{}")
    (seen,) = provider.requests
    names = [name.lower() for name, _ in seen.headers]
    assert names == ["host", "content-length", "x-b", "x-a", "x-b"]
    assert [value for name, value in seen.headers if name.lower() == "x-b"] == ["2", "3"]


def test_duplicate_answer_headers_keep_their_order(provider: Provider, relay: Relaying) -> None:
    doubled = (("set-cookie", "a=1"), ("x-z", "1"), ("set-cookie", "b=2"))
    provider.plays(answers.chat().with_headers(*doubled))
    answer = caller.post(relay.base() + CHAT, json=ASK)
    kept = [pair for pair in answer.headers.multi_items() if pair[0] in ("set-cookie", "x-z")]
    assert kept == list(doubled)


def test_conversations_are_followed_by_where_their_connections_come_from(relay: Relaying) -> None:
    ask = {**ASK, "tools": [{"type": "function", "function": {"name": "look"}}]}
    more = [
        *ASK["messages"],
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "b"},
    ]
    for asked, source in ((ask, "127.0.0.1"), ({**ask, "messages": more}, "127.0.0.1"),
                          (ask, "127.0.0.2")):  # fmt: skip
        place = urlsplit(relay.base())
        agent = HTTPConnection(place.netloc, source_address=(source, 0))
        agent.request("POST", place.path + CHAT, json.dumps(asked).encode())
        assert agent.getresponse().read()
        agent.close()
    first, second, third = relay.book.exchanges
    assert (first.begun_elsewhere, first.continues) == (False, None)
    assert (second.begun_elsewhere, second.continues) == (None, first.id)
    assert (third.begun_elsewhere, third.continues) == (True, None)


def test_cookies_never_cross_rollouts(provider: Provider, relay: Relaying) -> None:
    provider.plays(answers.chat().with_headers(("set-cookie", "a=1; Path=/")))
    for rollout in ("one", "two"):
        caller.post(relay.base(rollout) + CHAT, json=ASK)
    assert all(request.header("cookie") is None for request in provider.requests)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_encoded_answers_stay_encoded_and_are_still_read(
    provider: Provider, relay: Relaying, coding: str
) -> None:
    answer = answers.encoded(answers.chat(), coding)
    provider.plays(answer)
    with caller.stream("POST", relay.base() + CHAT, json=ASK) as got:
        assert b"".join(got.iter_raw()) == answer.content
        assert got.headers["content-encoding"] == coding
    usage = relay.book.only.usage
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_passes(provider: Provider, relay: Relaying, method: str) -> None:
    provider.plays(Answer(status=200, body=(b"{}",)))
    answer = caller.request(method, relay.base() + "/v1/models/x")
    assert provider.requests[0].method == method
    assert answer.status_code == 200
    assert answer.headers["content-length"] == "2"
    assert answer.content == (b"" if method == "HEAD" else b"{}")


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body_pass(provider: Provider, relay: Relaying, status: int) -> None:
    provider.plays((f"HTTP/1.1 {status} X\r\nx-a: 1\r\n\r\n".encode(),))
    answer = caller.get(relay.base() + "/v1/x")
    assert (answer.status_code, answer.headers["x-a"], answer.content) == (status, "1", b"")
    assert relay.book.only.ending is Ending.COMPLETE


def test_any_content_type_and_binary_bodies_pass(provider: Provider, relay: Relaying) -> None:
    blob = os.urandom(300_000)
    provider.plays(Answer(headers=(("content-type", "audio/mpeg"),), body=(blob,)))
    answer = caller.post(
        relay.base() + "/v1/audio/speech", content=blob, headers={"content-type": "x/y"}
    )
    assert answer.content == blob
    assert provider.requests[0].body == blob
    assert relay.book.only.api == "openai.audio"


def test_a_streamed_request_body_arrives_while_it_is_sent(
    provider: Provider, relay: Relaying
) -> None:
    def parts() -> Iterator[bytes]:
        yield b"0" * 1000
        deadline = time.monotonic() + caller.PATIENCE_S
        while not relay.book.opens and time.monotonic() < deadline:
            time.sleep(0.01)  # until the relay has begun the call
        for number in range(1, 5):
            yield str(number).encode() * 1000

    caller.post(relay.base() + CHAT, content=parts())
    (seen,) = provider.requests
    assert seen.body == b"".join(str(n).encode() * 1000 for n in range(5))
    assert seen.header("transfer-encoding") == "chunked"
    assert relay.book.only.request_bytes == 5000


def test_chunks_arrive_when_they_are_sent(provider: Provider, relay: Relaying) -> None:
    go_on = threading.Event()
    provider.plays(answers.chat_stream().stopping_after(1, Wait(go_on)))
    with caller.stream("POST", relay.base() + CHAT, json=STREAM) as got:
        chunks = got.iter_raw()
        first = next(chunks)
        go_on.set()
        rest = b"".join(chunks)
    assert first + rest == answers.chat_stream().content
    exchange = relay.book.only
    assert exchange.ending is Ending.COMPLETE
    assert exchange.timing.first_token_s is not None
    assert exchange.timing.duration_s is not None
    assert exchange.timing.first_token_s <= exchange.timing.duration_s


def test_the_last_byte_waits_for_the_commit(provider: Provider, relay: Relaying) -> None:
    """A client that stops reading at [DONE] is counted too (contract §5)."""
    provider.plays(answers.chat_stream().stopping_after(2, Pause(0.1)))
    relay.book.hold.set()
    assert b"[DONE]" not in relay.until_silent(CHAT, STREAM)
    relay.book.hold.clear()
    assert relay.book.only.ending is Ending.COMPLETE


def test_a_plain_answer_waits_for_the_commit_too(provider: Provider, relay: Relaying) -> None:
    relay.book.hold.set()
    with pytest.raises(httpx.ReadTimeout):
        caller.post(relay.base() + CHAT, json=ASK, timeout=caller.LEAVES)
    relay.book.hold.clear()
    assert caller.post(relay.base() + CHAT, json=ASK).status_code == 200


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=429, body=()),
        Answer(status=204, body=()),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n",),
    ],
)
def test_an_answer_without_a_body_waits_before_its_head(
    provider: Provider, relay: Relaying, answer: Answer
) -> None:
    provider.plays(answer)
    relay.book.hold.set()
    with pytest.raises(httpx.ReadTimeout):
        caller.post(relay.base() + CHAT, json=ASK, timeout=caller.LEAVES)
    relay.book.hold.clear()


def test_every_answer_names_its_exchange(relay: Relaying) -> None:
    answer = caller.post(relay.base() + CHAT, json=ASK)
    assert answer.headers["x-truezero-exchange"] == relay.book.only.id


def test_an_unreachable_upstream_is_said_and_recorded() -> None:
    with relaying(f"http://127.0.0.1:{closed_port()}") as relay:
        answer = caller.post(relay.base() + CHAT, json=ASK)
        exchange = relay.book.only
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-truezero-refusal"] == "upstream_unreachable"
    assert exchange.ending is Ending.NEVER_CONNECTED
    assert exchange.status is None
    assert exchange.cause is not None
    assert exchange.cause.subcategory is Subcategory.PROVIDER_ERROR


def test_our_own_lack_of_descriptors_is_no_failure_of_a_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def short(_: dial.Address) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(dial, "_connected", short)
    with relaying(f"http://127.0.0.1:{closed_port()}") as relay:
        answer = caller.post(relay.base() + CHAT, json=ASK)
        exchange = relay.book.only
    assert answer.status_code == 503
    assert answer.headers["x-truezero-refusal"] == "out_of_resources"
    assert (exchange.ending, exchange.cause) == (Ending.LOST, None)
    verdict = judge(RolloutRecord(id="r1", exchanges=(exchange,)))
    assert (verdict.health, verdict.rule) == (Health.UNDECIDED, "undecided")


@pytest.mark.parametrize("reset", [True, False])
def test_a_connection_cut_before_any_answer(
    provider: Provider, relay: Relaying, reset: bool
) -> None:
    provider.plays((Cut(reset=reset),))
    answer = caller.post(relay.base() + CHAT, json=ASK)
    assert answer.status_code == 502
    assert answer.headers["x-truezero-refusal"] == "upstream_disconnected"
    assert relay.book.only.ending is Ending.CUT_UPSTREAM


def test_a_kept_connection_that_went_stale_is_repeated_once(
    provider: Provider, relay: Relaying
) -> None:
    provider.plays(answers.chat(), (Cut(),), answers.chat())
    with caller.Client() as http:
        assert http.post(relay.base() + CHAT, json=ASK).status_code == 200
        assert http.post(relay.base() + CHAT, json=ASK).status_code == 200
    assert [exchange.ending for exchange in relay.book.wait_for(2)] == [Ending.COMPLETE] * 2


def test_a_slow_agent_gets_every_chunk_of_a_stream(provider: Provider, relay: Relaying) -> None:
    chunk = answers.data({"choices": [{"index": 0, "delta": {"content": "x" * 60_000}}]})
    stream = answers.streamed(*[chunk] * 200, b"data: [DONE]\n\n")
    provider.plays(stream)
    with caller.stream("POST", relay.base() + CHAT, json=STREAM) as answer:
        time.sleep(0.3)
        assert b"".join(answer.iter_raw()) == stream.content
    assert relay.book.only.ending is Ending.COMPLETE


@pytest.mark.parametrize("reset", [True, False])
def test_a_stream_cut_midway_is_cut_for_the_agent_too(
    provider: Provider, relay: Relaying, reset: bool
) -> None:
    provider.plays(answers.chat_stream().stopping_after(2, Pause(0.05), Cut(reset=reset)))
    got = b""
    with (
        pytest.raises(httpx.RemoteProtocolError),
        caller.stream("POST", relay.base() + CHAT, json=STREAM) as answer,
    ):
        for chunk in answer.iter_raw():
            got += chunk
    assert got
    assert answers.chat_stream().content.startswith(got)
    exchange = relay.book.only
    assert exchange.ending is Ending.CUT_UPSTREAM
    assert exchange.cause is not None
    assert exchange.cause.transient


def test_an_agent_that_leaves_cancels_the_upstream_call(
    provider: Provider, relay: Relaying
) -> None:
    provider.plays(answers.chat_stream().stopping_after(2, Hang()))
    with caller.stream("POST", relay.base() + CHAT, json=STREAM) as answer:
        next(answer.iter_raw())
    provider.wait_until_left()
    exchange = relay.book.only
    assert exchange.ending is Ending.LEFT_BY_AGENT
    assert exchange.cause is None


def test_an_agent_that_leaves_before_the_head_is_noticed(
    provider: Provider, relay: Relaying
) -> None:
    provider.plays((Hang(),))
    with pytest.raises(httpx.ReadTimeout):
        caller.post(relay.base() + CHAT, json=ASK, timeout=caller.LEAVES)
    provider.wait_until_left()
    assert relay.book.only.ending is Ending.LEFT_BY_AGENT


def test_a_provider_that_was_silent_too_long_stalled(provider: Provider) -> None:
    """A call its agent left is the provider's failure after a long silence."""
    provider.plays((Hang(),))
    causes = CauseRules(silence=SilenceLimits(whole_answer_s=0.1), classify=classify)
    with relaying(provider.url, causes=causes) as relay:
        with pytest.raises(httpx.ReadTimeout):
            caller.post(relay.base() + CHAT, json=ASK, timeout=caller.LEAVES)
        cause = relay.book.only.cause
    assert cause is not None
    assert (cause.subcategory, cause.reason) == (Subcategory.PROVIDER_ERROR, "stalled")


def test_an_agent_that_leaves_while_uploading_is_noticed(
    provider: Provider, relay: Relaying
) -> None:
    head = (
        b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", relay.port)) as connection:
        connection.sendall(head + b'{"model":')
        deadline = time.monotonic() + caller.PATIENCE_S
        while not relay.book.opens and time.monotonic() < deadline:
            time.sleep(0.01)
    assert relay.book.only.ending is Ending.LEFT_BY_AGENT


def test_an_upstream_that_says_nothing_times_out(provider: Provider) -> None:
    provider.plays((Hang(),))
    with relaying(provider.url, limits=CallLimits(read_s=0.2)) as relay:
        answer = caller.post(relay.base() + CHAT, json=ASK)
        exchange = relay.book.only
    assert (answer.status_code, answer.headers["x-truezero-refusal"]) == (504, "upstream_timeout")
    assert exchange.ending is Ending.TIMED_OUT


def test_a_stream_that_falls_silent_times_out(provider: Provider) -> None:
    provider.plays(answers.chat_stream().stopping_after(2, Hang()))
    with relaying(provider.url, limits=CallLimits(read_s=0.2)) as relay:
        with (
            pytest.raises(httpx.RemoteProtocolError),
            caller.stream("POST", relay.base() + CHAT, json=STREAM) as answer,
        ):
            list(answer.iter_raw())
        assert relay.book.only.ending is Ending.TIMED_OUT


def test_a_body_over_the_limit_is_refused_before_it_is_read(provider: Provider) -> None:
    provider.plays(answers.chat())
    with relaying(provider.url, limits=CallLimits(body_bytes=100)) as relay:
        answer = caller.post(relay.base() + CHAT, content=b"x" * 101)
        assert caller.post(relay.base() + CHAT, content=b"x" * 100).status_code == 200
    assert answer.status_code == 413
    assert answer.headers["x-truezero-refusal"] == "body_too_large"
    assert len(provider.requests) == 1


def test_a_body_of_unknown_length_is_cut_at_the_limit(provider: Provider) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    with relaying(provider.url, limits=CallLimits(body_bytes=5000)) as relay:
        answer = caller.post(relay.base() + CHAT, content=endless())
        relay.book.wait_for(1)
    assert answer.status_code == 413
    assert answer.headers["x-truezero-refusal"] == "body_too_large"


def test_an_expected_continue_is_answered(provider: Provider, relay: Relaying) -> None:
    head = b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
    with socket.create_connection(("127.0.0.1", relay.port), caller.PATIENCE_S) as connection:
        connection.sendall(head + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    assert provider.requests[0].header("expect") is None


def test_an_upstreams_interim_answers_do_not_confuse(provider: Provider, relay: Relaying) -> None:
    hints = ((103, (("link", "</a>"),)),)
    provider.plays(Answer(body=(b"{}",), interim=hints))
    assert caller.post(relay.base() + CHAT, json=ASK).content == b"{}"


@pytest.mark.parametrize("framing", list(Framing))
def test_bodies_pass_in_every_framing(
    provider: Provider, relay: Relaying, framing: Framing
) -> None:
    provider.plays(Answer(body=(b"one", b"two"), framing=framing))
    assert caller.post(relay.base() + CHAT, json=ASK).content == b"onetwo"
    assert relay.book.only.ending is Ending.COMPLETE


GARBAGE: dict[str, tuple[bytes | Cut, ...]] = {
    "no http": (b"\x00\xff\xfenot http at all\r\n\r\n", Cut()),
    "half a head": (b"HTTP/1.1 200 OK\r\ncontent-le", Cut()),
    "status out of range": (b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",),
    "status of letters": (b"HTTP/1.1 abc Odd\r\n\r\n", Cut()),
    "negative length": (b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", Cut()),
    "two lengths": (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}", Cut()),
    "broken chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", Cut()),
    "control bytes in a header": (
        b"HTTP/1.1 200 OK\r\nx-a: a\x01b\r\ncontent-length: 2\r\n\r\n{}",
        Cut(),
    ),
    "endless header": (b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * 1_000_000 + b"\r\n\r\n", Cut()),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_from_an_upstream_ends_in_one_recorded_exchange(
    provider: Provider, relay: Relaying, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider.plays(GARBAGE[name])
    try:
        answer = caller.post(relay.base() + CHAT, json=ASK)
        assert answer.status_code in (200, 502)
    except httpx.RemoteProtocolError:
        pass  # cut midway, as direct
    assert relay.book.only.ending in (Ending.CUT_UPSTREAM, Ending.COMPLETE)
    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text


def test_a_body_shorter_than_its_content_length_is_cut(provider: Provider, relay: Relaying) -> None:
    provider.plays((b'HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{"choices":[]}', Cut()))
    with pytest.raises(httpx.RemoteProtocolError):
        caller.post(relay.base() + CHAT, json=ASK)
    assert relay.book.only.ending is Ending.CUT_UPSTREAM


def test_a_body_longer_than_its_content_length_ends_there(
    provider: Provider, relay: Relaying
) -> None:
    provider.plays((b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}and more", Cut()))
    assert caller.post(relay.base() + CHAT, json=ASK).content == b"{}"


def test_half_a_json_is_relayed_as_it_is(provider: Provider, relay: Relaying) -> None:
    provider.plays(Answer(body=(b'{"choices":[{"mess',)))
    assert caller.post(relay.base() + CHAT, json=ASK).content == b'{"choices":[{"mess'
    assert relay.book.only.status == 200


def test_garbage_from_an_agent_is_relayed_as_it_is(provider: Provider, relay: Relaying) -> None:
    provider.plays(answers.chat())
    junk = os.urandom(5000)
    assert caller.post(relay.base() + CHAT, content=junk).status_code == 200
    assert provider.requests[0].body == junk
    assert relay.book.only.model is None


def test_a_ten_megabyte_sse_line_flows_through(provider: Provider, relay: Relaying) -> None:
    line = b'data: {"choices":[{"delta":{"content":"' + b"x" * 10_000_000 + b'"}}]}\n\n'
    provider.plays(
        Answer(
            headers=answers.SSE, body=(line, b"data: [DONE]\n\n"), framing=Framing.CHUNKED
        ).in_pieces(65536)
    )
    with caller.stream("POST", relay.base() + CHAT, json=STREAM) as got:
        assert b"".join(got.iter_raw()) == line + b"data: [DONE]\n\n"
    assert relay.book.only.response_bytes == len(line) + 14


def test_the_real_key_stands_in_for_a_missing_one(provider: Provider) -> None:
    with relaying(provider.url, real_keys={"openai": "sk-real", "anthropic": "sk-ant"}) as relay:
        caller.post(relay.base() + CHAT, json=ASK)
        caller.post(relay.base() + CHAT, json=ASK, headers={"authorization": "Bearer mine"})
        minted = KEYRING.mint("r1")
        caller.post(
            relay.base(upstream="anthropic") + "/v1/messages", headers={"x-api-key": minted}
        )
    none, own, ours = provider.requests
    assert none.header("authorization") == "Bearer sk-real"
    assert own.header("authorization") == "Bearer mine"
    assert ours.header("x-api-key") == "sk-ant"
    digests = [exchange.key_digest for exchange in relay.book.exchanges]
    assert digests == [key_digest(key, b"salt") for key in (b"sk-real", b"mine", b"sk-ant")]


def test_without_a_real_key_a_minted_one_is_still_not_forwarded(
    provider: Provider, relay: Relaying
) -> None:
    caller.post(
        relay.url + "/openai" + CHAT,
        json=ASK,
        headers={"authorization": f"Bearer {KEYRING.mint('r9')}"},
    )
    assert provider.requests[0].header("authorization") is None
    assert relay.book.only.rollout_id == "r9"
    assert relay.book.only.attribution is Attribution.MINTED_KEY


def test_a_rollout_key_in_its_own_header_is_proof_and_goes_to_no_provider(
    provider: Provider,
) -> None:
    minted = KEYRING.mint("r9")
    with relaying(provider.url, proof_required=True) as relay:
        beside = {"authorization": "Bearer sk-own", "X-Truezero-Key": minted}
        assert caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=beside).is_success
        beside["X-Truezero-Key"] += "x"
        wrong = caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=beside)
        assert (wrong.status_code, wrong.headers["x-truezero-refusal"]) == (401, "unknown_key")
    (request,) = provider.requests
    assert request.header("authorization") == "Bearer sk-own"
    assert minted not in "".join(map("".join, request.headers))
    assert (relay.book.only.rollout_id, relay.book.only.attribution) == ("r9", "minted_key")
    assert relay.book.only.key_digest == key_digest(b"sk-own", b"salt")


def test_where_proof_is_required_a_bare_path_writes_on_no_rollout(provider: Provider) -> None:
    with relaying(provider.url, proof_required=True) as relay:
        bare = caller.post(relay.base() + CHAT, json=ASK)
        secret = KEYRING.secret_of("r1")
        stolen = caller.post(relay.base(f"r2~{secret}") + CHAT, json=ASK)
        proven = caller.post(relay.base(f"r1~{secret}") + CHAT, json=ASK)
        keyed = caller.post(
            relay.base() + CHAT, json=ASK, headers={"x-api-key": KEYRING.mint("r1")}
        )
        named = caller.post(
            relay.url + "/openai" + CHAT, json=ASK, headers={"x-truezero-rollout": "r1"}
        )
    assert [a.status_code for a in (bare, stolen, named)] == [403, 403, 403]
    assert bare.headers["x-truezero-refusal"] == "unproven_rollout"
    assert [a.status_code for a in (proven, keyed)] == [200, 200]
    assert [exchange.rollout_id for exchange in relay.book.exchanges] == ["r1", "r1"]


@pytest.mark.parametrize("pieces", [1, 9])
def test_a_status_of_grpc_behind_the_body_is_the_call_s(
    provider: Provider, relay: Relaying, pieces: int
) -> None:
    said = (b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n3\r\nabc\r\n0\r\nGrpc-Status: 16\r\ngrpc-message: bad key\r\n\r\n")  # fmt: skip
    step = len(said) // pieces + 1
    parts = [said[at : at + step] for at in range(0, len(said), step)]
    provider.plays(tuple(each for part in parts for each in (part, Pause(0.005))))
    answer = caller.post(relay.base() + CHAT, json=ASK)
    assert (answer.status_code, answer.content) == (200, b"abc")
    cause = relay.book.only.cause
    assert cause is not None
    assert cause.subcategory is Subcategory.AUTH


def test_redirects_are_handed_on_not_followed(provider: Provider, relay: Relaying) -> None:
    provider.plays(Answer(status=307, headers=(("location", "http://127.0.0.1:1/"),)))
    answer = caller.post(relay.base() + CHAT, json=ASK, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "http://127.0.0.1:1/")
    assert len(provider.requests) == 1
    exchange = relay.book.only
    assert (exchange.answer_state, exchange.cause) == (AnswerState.UNREAD, None)
    assert exchange.unreadable_reason == "307 to 127.0.0.1:1"


def test_a_redirect_to_the_provider_s_own_path_is_one_to_ours(
    provider: Provider, relay: Relaying
) -> None:
    for place in ("", provider.url):
        provider.plays(Answer(status=308, headers=(("Location", f"{place}{CHAT}/?a=1"),)))
        answer = caller.post(relay.base() + CHAT, json=ASK, follow_redirects=False)
        assert answer.headers["location"] == f"/r/r1/openai{CHAT}/?a=1"
    assert {x.unreadable_reason for x in relay.book.exchanges} == {None}


@pytest.mark.parametrize(
    "path",
    ["/v1/a%2Fb", "/v1/a%20b", "/v1/~x", "/v1//x", "/v1/%7Ex", "/v1/a:b@c", "/v1/x;y=1", "/"],
)
def test_paths_pass_as_they_were_written(provider: Provider, relay: Relaying, path: str) -> None:
    relay.raw(f"GET /r/r1/openai{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert provider.requests[0].target == path


def test_the_answer_to_a_call_is_read_into_the_record(relay: Relaying) -> None:
    caller.post(relay.base() + CHAT, json=ASK, headers={"authorization": "Bearer sk-1"})
    exchange = relay.book.only
    expected = json.loads(answers.chat().content)["usage"]
    assert (exchange.upstream, exchange.api, exchange.model) == ("openai", "openai.chat", "gpt-5")
    assert exchange.usage.input_tokens == expected["prompt_tokens"]
    assert exchange.usage.output_tokens == expected["completion_tokens"]
    assert exchange.status == 200
    assert exchange.finish_reason == "stop"
    assert exchange.response_bytes == len(answers.chat().content)
    assert relay.book.opens[0].ending is None


def test_compressed_requests_are_read_too(provider: Provider, relay: Relaying) -> None:
    packed = gzip.compress(json.dumps(STREAM).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    caller.post(relay.base() + CHAT, content=packed, headers=headers)
    assert provider.requests[0].body == packed
    assert relay.book.only.model == "gpt-5"


def test_an_early_answer_to_a_long_upload_arrives(provider: Provider, relay: Relaying) -> None:
    provider.plays(Answer(status=429, body=(b"{}",), early=True))

    def slow() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 1000
            time.sleep(0.01)

    # The provider resets what it did not read, and may take its own answer with it.
    with contextlib.suppress(httpx.WriteError, httpx.RemoteProtocolError):
        assert caller.post(relay.base() + CHAT, content=slow()).status_code in (429, 502)
    assert relay.book.only.status in (429, None)


def test_the_path_names_the_rollout_and_the_role(relay: Relaying) -> None:
    caller.post(relay.url + "/r/a%2Fb/as/judge/openai" + CHAT, json=ASK)
    exchange = relay.book.only
    assert (exchange.rollout_id, exchange.role) == ("a/b", "judge")
