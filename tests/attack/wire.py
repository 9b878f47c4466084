"""Attacks by bytes: framings, trailers, heads, counts, and calls that are left hanging."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

from tests.attack.claims import claim
from tests.attack.stage import (
    BOGUS,
    CHAT,
    SILENT_S,
    Response,
    Rollout,
    Stage,
    chat_claiming,
    received,
)
from tests.fakes import answers
from tests.fakes.provider import Answer, Framing, Wait
from tests.proxy.relay.test_smuggling import CASES

_MIB = 2**20
_TRAILER = 64 * _MIB
_ALLOWED = 24 * _MIB  # of memory, for 64 MiB that are not kept


def _trailing(stage: Stage, wire: bytes) -> tuple[int, Response]:
    """Write a request, then a trailer of 64 MiB; return how much was taken, and the answer."""
    taken = 0
    with stage.connection() as connection:
        connection.sendall(wire + b"x-t: ")
        with contextlib.suppress(ConnectionError):
            while taken < _TRAILER:
                connection.sendall(b"a" * _MIB)
                taken += _MIB
            connection.sendall(b"\r\n\r\n")
        return taken, received(connection)


@claim("an agent's trailer of 64 MiB is cut off, and held in no memory")
def endless_trailer_of_an_agent(stage: Stage) -> None:
    before = stage.memory()
    chunked = ("Transfer-Encoding: chunked", "Connection: close")
    head = stage.head(stage.rollout(), *chunked, upstream="mistral")
    taken, _ = _trailing(stage, head + b"%x\r\n%b\r\n0\r\n" % (len(CHAT), CHAT))
    assert taken < _TRAILER
    assert stage.memory() - before < _ALLOWED
    assert stage.service.http.get("/healthz").is_success


@claim("a provider's trailer of 64 MiB is cut off, and held in no memory")
def endless_trailer_of_a_provider(stage: Stage) -> None:
    before = stage.memory()
    body = answers.chat().content
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    trailer = (b"a" * _MIB,) * (_TRAILER // _MIB)
    stage.provider.plays((head, b"%x\r\n%b\r\n0\r\nx-t: " % (len(body), body), *trailer))
    stage.chat(stage.rollout())
    assert stage.memory() - before < _ALLOWED
    assert stage.service.http.get("/healthz").is_success


@claim("a head without an end is refused")
def endless_head(stage: Stage) -> None:
    head = stage.head(stage.rollout(), "x-a: " + "a" * 200_000)
    answer = stage.send(head)
    assert answer.status in (0, 431), answer  # 0: cut while the attacker still wrote
    assert stage.provider.requests == []


@claim("no count of tokens breaks a list or a sum")
def absurd_counts(stage: Stage) -> None:
    rollout = stage.rollout(batch="absurd")
    claims = (2**53 - 1, 2**63, 10**400, -1, "1e308", "9" * 4000, "true")
    for claimed in claims:
        stage.provider.plays(chat_claiming(claimed))
        assert stage.chat(rollout).status == 200
    assert [each["total_tokens"] for each in stage.exchanges(rollout)] == [None] * len(claims)
    stage.judged(rollout)
    for path in ("/rollouts", "/batches/absurd", "/metrics", f"/rollouts/{rollout.id}/result"):
        assert stage.service.http.get(path).status_code == 200, path


@claim("1,030 answers that claim 2^53-1 tokens each leave every list readable", slow=True)
def absurd_sums(stage: Stage) -> None:
    stage.provider.plays(chat_claiming(2**53 - 1))
    rollout = stage.rollout(batch="sums")
    url = f"{stage.service.url}{rollout.path}/openai/v1/chat/completions"
    for _ in range(1030):
        stage.service.http.post(url, content=CHAT)
    stage.judged(rollout)
    for path in ("/rollouts", "/batches/sums", "/metrics"):
        assert stage.service.http.get(path).status_code == 200, path


_SAMPLES = ("CL.TE", "TE.CL", "two lengths that differ", "a coding behind a blank",
            "a carriage return in a header", "length b'+2'", "coding b' xchunked'",
            "a request inside a chunk", "a body longer than its length")  # fmt: skip


@claim("no request hides inside another, however its length is framed")
def smuggling(stage: Stage) -> None:
    rollout = stage.rollout()
    path = f"{rollout.path}/mistral/v1/chat/completions".encode()
    for case in _SAMPLES:
        wire = CASES[case][0].replace(b"/r/a/openai/v1/chat/completions", path)
        with stage.connection() as connection:
            connection.sendall(wire)
            stage.call(
                path.decode(), f"Authorization: Bearer {BOGUS}"
            )  # begun after what is hidden
            connection.shutdown(1)
            received(connection)
        for heard in stage.strict.heard():
            assert heard.target == b"/v1/chat/completions", case
    assert stage.service.http.get("/rollouts/smuggled/verdict").status_code == 404


@claim("connections that say nothing are closed, and others' calls go through meanwhile")
def silent_connections(stage: Stage) -> None:
    rollout = stage.rollout()
    unfinished = (
        b"",
        b"GET ",
        stage.head(rollout)[:-2],
        stage.head(rollout, "Content-Length: 9") + b"{",
    )
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(stage.connection()) for _ in range(64)]
        for connection, wire in zip(silent, itertools.cycle(unfinished), strict=False):
            connection.sendall(wire)
        assert stage.chat(rollout).status == 200
        for connection in silent:
            received(connection)  # returns when the service has closed it


def _assert_no_failure(stage: Stage, rollout: Rollout) -> None:
    stage.wait_until_ended(rollout, calls=2)
    verdict = stage.judged(rollout)
    assert (verdict["health"], verdict["failed_requests"]) == ("healthy", 0), verdict


@claim("an upload that its agent withholds is no silence of the provider")
def withheld_upload(stage: Stage) -> None:
    rollout = stage.rollout()
    assert stage.chat(rollout).status == 200
    with stage.connection() as connection:
        length = f"Content-Length: {len(CHAT)}"
        connection.sendall(stage.head(rollout, length) + CHAT[:-1])
        time.sleep(SILENT_S)
    _assert_no_failure(stage, rollout)


@claim("a stream that its agent does not read is no silence of the provider")
def unread_stream(stage: Stage) -> None:
    event = answers.data({"choices": [{"index": 0, "delta": {"content": "a" * 60_000}}]})
    end = threading.Event()
    head = (("content-type", "text/event-stream"),)
    stream = Answer(headers=head, body=(*[event] * 600, Wait(end)), framing=Framing.CHUNKED)
    rollout = stage.rollout()
    assert stage.chat(rollout).status == 200
    stage.provider.plays(stream)
    with stage.connection() as connection:
        body = CHAT[:-1] + b',"stream":true}'
        connection.sendall(stage.head(rollout, f"Content-Length: {len(body)}") + body)
        connection.recv(100)
        time.sleep(SILENT_S)
    end.set()
    _assert_no_failure(stage, rollout)
