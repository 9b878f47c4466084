"""The relay against a real provider socket: what `tests.golden.calls` does not play."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from classifier import judge
from classifier.records import AnswerState, Ending, RolloutRecord
from classifier.verdicts import Health, Subcategory
from proxy.outbound import dial
from proxy.relay.context import CallLimits
from proxy.routing.headers import key_digest
from tests.fakes import answers, caller
from tests.fakes.provider import Answer, Pause, Provider, closed_port
from tests.fakes.relaying import KEYRING, Relaying, relaying
from tests.tables import each

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(answers.healthy) as running:
        yield running


@pytest.fixture
def relay(provider: Provider) -> Iterator[Relaying]:
    with relaying(provider.url) as running:
        yield running


def test_a_call_passes_byte_for_byte_with_its_doubled_headers_in_order(
    provider: Provider, relay: Relaying
) -> None:
    asked = b'{ "model":"gpt-5",\r\n"messages":[]  }'
    said = b'{"id":"1",  "spaced" : "out",\n "n":1}'
    doubled = (("set-cookie", "a=1"), ("x-z", "1"), ("set-cookie", "b=2"))
    provider.plays(Answer(headers=doubled, body=(said,)))
    target = f"{CHAT}?a=%2F&b"
    lines = (f"POST /r/r1/openai{target} HTTP/1.1", "Host: x", f"Content-Length: {len(asked)}",
             "X-B: 2", "X-A: a b", "X-B: 3", "Authorization: Bearer k", "Connection: close",
             "", "")  # fmt: skip
    head, _, body = relay.raw("\r\n".join(lines).encode() + asked).partition(b"\r\n\r\n")
    (seen,) = provider.requests
    assert (seen.body, seen.target, seen.method) == (asked, target, "POST")
    assert [(name.lower(), value) for name, value in seen.headers] == [
        ("host", provider.url.removeprefix("http://")), ("content-length", str(len(asked))),
        ("x-b", "2"), ("x-a", "a b"), ("x-b", "3"), ("authorization", "Bearer k"),
    ]  # fmt: skip
    assert body == said
    assert b"set-cookie: a=1\r\nx-z: 1\r\nset-cookie: b=2\r\n" in head.lower()


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


def test_under_a_time_limit_the_later_calls_of_a_connection_pass_too(provider: Provider) -> None:
    with relaying(provider.url, limits=CallLimits(read_s=60)) as relay, caller.Client() as agent:
        said = [agent.post(relay.base() + CHAT, json=ASK).status_code for _ in range(3)]
    assert said == [200] * 3
    assert len(provider.requests) == 3


@each("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_passes(provider: Provider, relay: Relaying, method: str) -> None:
    provider.plays(Answer(status=200, body=(b"{}",)))
    answer = caller.request(method, relay.base() + "/v1/models/x")
    assert provider.requests[-1].method == method
    assert answer.status_code == 200
    assert answer.headers["content-length"] == "2"
    assert answer.content == (b"" if method == "HEAD" else b"{}")


def test_any_content_type_and_binary_bodies_pass(provider: Provider, relay: Relaying) -> None:
    blob = os.urandom(300_000)
    provider.plays(Answer(headers=(("content-type", "audio/mpeg"),), body=(blob,)))
    answer = caller.post(
        relay.base() + "/v1/audio/speech", content=blob, headers={"content-type": "x/y"}
    )
    assert answer.content == blob
    assert provider.requests[0].body == blob
    assert relay.book.only.api == "openai.audio"


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


@each(
    "path",
    ["/v1/a%2Fb", "/v1/a%20b", "/v1/~x", "/v1//x", "/v1/%7Ex", "/v1/a:b@c", "/v1/x;y=1", "/"],
)
def test_paths_pass_as_they_were_written(provider: Provider, relay: Relaying, path: str) -> None:
    relay.raw(f"GET /r/r1/openai{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert provider.requests[-1].target == path


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
