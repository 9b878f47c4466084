"""What fuzzing has found, each as the smallest case that shows it."""

from __future__ import annotations

import socket
import threading

import pytest

from classifier.records import Ending
from tests.fakes import answers
from tests.fakes.provider import Provider, Wait
from tests.fakes.relaying import relaying

ASK = b"GET /r/r1/openai/v1/models HTTP/1.1\r\nhost: h\r\n\r\n"
BEHIND = {"garbage": b"\x00garbage\r\n\r\n", "its end": b"", "another call": ASK}


@pytest.mark.parametrize("behind", BEHIND)
def test_a_call_whose_connection_ends_under_it_was_left_by_its_agent(
    behind: str, caplog: pytest.LogCaptureFixture
) -> None:
    left = threading.Event()
    slow = answers.whole({}).stopping_after(0, Wait(left))
    with (
        Provider(slow) as provider,
        relaying(provider.url) as relay,
        socket.create_connection(("127.0.0.1", relay.port)) as agent,
    ):
        agent.sendall(ASK)
        provider.wait_for(1)
        agent.sendall(BEHIND[behind])
        agent.shutdown(socket.SHUT_WR)
        relay.book.wait_for(1)
        left.set()
    endings = {each.ending for each in relay.book.exchanges}
    assert endings == {Ending.LEFT_BY_AGENT}
    assert "Exception in ASGI" not in caplog.text


def test_no_refusal_is_written_into_an_answer_under_way() -> None:
    going = threading.Event()
    begun = answers.streamed(b"data: 1\n\n", b"data: 2\n\n").stopping_after(1, Wait(going))
    with (
        Provider(begun) as provider,
        relaying(provider.url) as relay,
        socket.create_connection(("127.0.0.1", relay.port)) as agent,
    ):
        agent.sendall(ASK)
        heard = agent.recv(65536)
        while b"data: 1" not in heard:
            heard += agent.recv(65536)
        agent.sendall(BEHIND["garbage"])
        relay.book.wait_for(1)  # the garbage ended the call
        going.set()
        while more := agent.recv(65536):
            heard += more
    assert heard.count(b"HTTP/1.1 ") == 1
