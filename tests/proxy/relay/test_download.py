"""The response's body: every chunk is observed once, and the last one waits for the record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from classifier.records import Ending
from proxy.capture.usage_injection import UsageStripper
from proxy.inbound.asgi import Message
from proxy.relay.call import Download
from tests.fakes import answers
from tests.proxy.relay.calls import Agent, parts_of_call

EVENTS = [event + b"\n\n" for event in answers.chat_stream().content.split(b"\n\n")[:-1]]


class Body:
    """A response's body: chunks that are offered to the callback, and read if it declines."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = list(chunks)
        self._pass_on: Callable[[bytes], bool] | None = None

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        self._pass_on = pass_on

    async def aclose(self) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._chunks:
            chunk = self._chunks.pop(0)
            if self._pass_on is None or not self._pass_on(chunk):
                if self._chunks:  # arrived before its reader went on
                    chunk += self._chunks.pop(0)
                yield chunk


def received(agent: Agent) -> bytes:
    sent = [message["body"] for message in agent.messages]
    return b"".join([*agent.passed, *sent])


@pytest.mark.parametrize("has_room", [True, False])
async def test_every_chunk_is_observed_once_and_passed_on_once(has_room: bool) -> None:
    progress, watch, agent, book = parts_of_call()
    progress.observer.on_response_head(200, [(b"content-type", b"text/event-stream")], 0.0)
    agent.has_room = has_room
    await Download(agent, watch, progress, None).relay(Body(EVENTS))
    progress.record(Ending.COMPLETE)
    body = b"".join(EVENTS)
    assert received(agent) == body
    assert progress.received == len(body)
    assert book.only.response_bytes == len(body)
    assert book.only.usage.output_tokens is not None


@pytest.mark.parametrize("reads", [True, False])
async def test_while_the_agent_does_not_read_silence_is_not_the_providers(reads: bool) -> None:
    progress, watch, agent, _ = parts_of_call()
    progress.observer.on_response_head(200, [(b"content-type", b"text/event-stream")], 0.0)
    agent.has_room = reads
    later = progress.clock() + 10_000
    stalled: list[bool] = []

    async def send(_message: Message) -> None:
        stalled.append(progress.observer.finish(Ending.LEFT_BY_AGENT, later).failed)

    watch.send = send
    download = Download(agent, watch, progress, None)
    await download.relay_without_usage(Body(EVENTS[:2]), UsageStripper([]))
    assert set(stalled) == {reads}
    assert progress.observer.finish(Ending.LEFT_BY_AGENT, later).failed  # it reads again


async def test_the_last_chunk_is_sent_when_the_call_is_on_record() -> None:
    progress, watch, agent, book = parts_of_call()
    progress.observer.on_response_head(200, [(b"content-type", b"text/plain")], 0.0)
    await Download(agent, watch, progress, 4).relay(Body([b"on", b"e."]))
    assert (agent.passed, [message["body"] for message in agent.messages]) == ([b"on"], [b"e."])
    assert book.only.ending is Ending.COMPLETE
