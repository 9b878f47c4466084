"""One call's parts without a server: a recorder in memory, an agent and its ASGI messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from proxy.capture.request import Call
from proxy.inbound.asgi import Message, Receive
from proxy.relay.call import AgentWatch, CallProgress
from proxy.relay.context import CallLimits
from proxy.routing.headers import Pairs
from tests.fakes.relaying import Book, make_context


class Agent:
    """An `AgentConnection` that keeps what it is sent; ``leave`` ends it."""

    def __init__(self) -> None:
        self.passed: list[bytes] = []
        self.messages: list[Message] = []
        self.has_room = True
        self.when_gone: Callable[[], None] | None = None

    @property
    def paused(self) -> bool:
        return not self.has_room

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        raise AssertionError(f"{status} {headers} {body!r}: nothing here sends a whole response")

    def pass_on(self, part: bytes) -> bool:
        if self.has_room:
            self.passed.append(part)
        return self.has_room

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        self.when_gone = when_gone

    def reset(self) -> bool:
        return False

    def leave(self) -> None:
        assert self.when_gone is not None, "nobody watches"
        self.when_gone()


def parts_of_call(limits: CallLimits | None = None) -> tuple[CallProgress, AgentWatch, Agent, Book]:
    """A call to OpenAI's chat API that has just begun, in the task that runs."""
    book, agent = Book(), Agent()
    context = make_context("http://provider", book, limits=limits or CallLimits())
    call = Call(
        id="x1",
        rollout_id="r1",
        upstream="openai",
        method="POST",
        path=b"/v1/chat/completions",
        started_at=time.time(),
        began=time.monotonic(),
    )
    progress = CallProgress(context, call)
    return progress, AgentWatch(agent, agent.send, context.limits, progress), agent, book


def receiving(*parts: bytes, leaves: bool = False) -> Receive:
    """An agent's request in these parts; one that ``leaves`` does so behind them."""
    messages: Iterator[Message] = iter(
        [
            {"type": "http.request", "body": part, "more_body": leaves or number < len(parts)}
            for number, part in enumerate(parts, 1)
        ]
    )

    async def receive() -> Message:
        await asyncio.sleep(0)
        return next(messages, {"type": "http.disconnect"})

    return receive
