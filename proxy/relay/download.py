"""The response's body on its way to the agent: its last byte leaves when the call is recorded."""

from __future__ import annotations

import asyncio

from classifier.records import Ending
from proxy.capture.usage_injection import UsageStripper
from proxy.inbound.asgi import AgentConnection
from proxy.outbound import errors
from proxy.outbound.request import ResponseBody
from proxy.relay.agent_watch import AgentWatch
from proxy.relay.progress import CallProgress
from proxy.wire.framing import Unreadable


class Download:
    """Passes a response's body on, chunk by chunk, and observes each chunk once.

    Most chunks are passed on in the callback that brings them, without a turn of the event loop.
    One that has to wait, for its record or for room, is observed there too, and comes again as the
    beginning of the next chunk that is read.

    Arguments:
        length: of the body as its head states, in bytes; None where it does not.
    """

    __slots__ = ("_agent", "_length", "_observed", "_progress", "_terminal", "_watch")

    def __init__(
        self, agent: AgentConnection, watch: AgentWatch, progress: CallProgress, length: int | None
    ) -> None:
        self._agent = agent
        self._watch = watch
        self._progress = progress
        self._length = length
        self._observed = 0  # bytes of the next chunk that were observed in the callback
        self._terminal = False  # what was observed last completes the response

    async def relay(self, body: ResponseBody) -> None:
        """Pass the body on unchanged."""
        body.through(self._pass_on)
        async for chunk in body:
            observed, self._observed = self._observed, 0
            if observed < len(chunk):
                self._observe(chunk[observed:])
            await self._record_terminal()
            await self._send(chunk)

    async def relay_without_usage(self, body: ResponseBody, stripper: UsageStripper) -> None:
        """Pass the body on without the usage that only the proxy asked for.

        Raises:
            errors.DecodingError: its encoding is broken.
        """
        try:
            async for chunk in body:
                self._observe(chunk)
                await self._record_terminal()
                for part in stripper.feed(chunk):
                    await self._send(part)
                    if stripper.decodes:  # others have their turn between two parts
                        await asyncio.sleep(0)
        except Unreadable as error:
            raise errors.DecodingError(str(error)) from error
        except errors.UpstreamError:
            await self._send(stripper.flush())
            raise
        self._progress.record(Ending.COMPLETE)
        await self._progress.durable()
        await self._send(stripper.flush())

    def _pass_on(self, chunk: bytes) -> bool:
        """Pass a chunk on as it arrives; False where it has to wait."""
        if self._observe(chunk) or not self._agent.pass_on(chunk):
            self._observed = len(chunk)
            return False
        return True

    def _observe(self, chunk: bytes) -> bool:
        progress = self._progress
        progress.received += len(chunk)
        if (
            progress.observer.on_response_body(chunk, progress.clock())
            or progress.received == self._length
        ):
            self._terminal = True
            return True
        return False

    async def _record_terminal(self) -> None:
        if self._terminal:
            self._terminal = False
            progress = self._progress
            if progress.observer.behind:
                ended = await progress.caught_up()
                if not ended and progress.received != self._length:
                    return
            progress.record(Ending.COMPLETE)
            await progress.durable()

    async def _send(self, part: bytes) -> None:
        if not part:
            return
        message = {"type": "http.response.body", "body": part, "more_body": True}
        if not self._agent.paused:
            await self._watch.send(message)
            return
        progress = self._progress
        progress.observer.hold()
        await self._watch.send(message)
        progress.observer.await_provider(progress.clock())
