"""The response to one request of an agent: written at once, by whoever has it."""

from __future__ import annotations

from collections.abc import Callable

from proxy.inbound.flow_control import FlowControl
from proxy.inbound.response_framing import CONNECTION, CONTENT_LENGTH, ResponseFraming
from proxy.routing.headers import Pairs

_FAILED = b"Internal Server Error"


class AgentResponse:
    """A response on its way out; nothing here waits for the agent to read.

    ``gone``: the agent is. ``begun``, ``complete``: the response is. ``when_gone``: called once,
    when the agent is gone; None: nobody watches.

    Arguments:
        answered: called when the response is complete.
        bodiless, keep_alive: as in `ResponseFraming`.
    """

    gone = False
    begun = False
    complete = False
    when_gone: Callable[[], None] | None = None

    def __init__(
        self, flow: FlowControl, answered: Callable[[], None], *, bodiless: bool, keep_alive: bool
    ) -> None:
        self._flow = flow
        self._answered = answered
        self.framing = ResponseFraming(bodiless=bodiless, keep_alive=keep_alive)

    @property
    def paused(self) -> bool:
        """Whether what is sent next waits for the agent to read."""
        return self._flow.write_paused

    def when_room(self, then: Callable[[], None] | None) -> None:
        """Call ``then`` once, when there is room to send or the connection is lost; None: no more.

        For one who sees that the response is `paused`.
        """
        self._flow.when_room = then

    def start(self, status: int, headers: Pairs) -> None:
        """Send the head."""
        if not self.gone:
            self.begun = True
            self._flow.transport.write(self.framing.head(status, headers))

    def pass_on(self, part: bytes) -> bool:
        """Send a part of the body now; False where it must wait or nobody reads it."""
        flow = self._flow
        if flow.write_paused or self.gone:
            return False
        framing = self.framing
        if framing.chunked:
            flow.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            flow.transport.write(framing.part(part, True))
        return True

    def finish(self) -> None:
        """Send what ends the body.

        Raises:
            RuntimeError: the body is shorter than its content-length.
        """
        if not self.gone:
            end = self.framing.part(b"", False)
            if end:
                self._flow.transport.write(end)
            self._end()

    def send_now(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response in one write."""
        if not self.gone:
            self.begun, framing = True, self.framing
            head = framing.head(status, headers)
            self._flow.transport.write(head + framing.part(body, False))
            self._end()

    def break_off(self) -> None:
        """Answer 500; a response that was begun is cut."""
        if self.begun:
            self.cut()
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (CONTENT_LENGTH, b"%d" % len(_FAILED)),
            (CONNECTION, b"close"),
        ]
        self.send_now(500, headers, _FAILED)

    def cut(self) -> None:
        """Close the connection, so that the agent sees that the response is not complete."""
        self._flow.transport.close()

    def reset(self) -> bool:
        """Reset the agent's connection."""
        if not self._flow.transport.is_closing():
            self._flow.reset()
        return True

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Call ``when_gone`` once, when the agent is gone; None stops watching."""
        self.when_gone = when_gone
        if when_gone is not None:
            if self._flow.held:
                self._flow.go_on()
            if self.gone:
                when_gone()

    def leave(self) -> None:
        """Take that the agent is gone."""
        if not self.gone:
            self.gone = True
            if self.when_gone is not None:
                self.when_gone()

    def _end(self) -> None:
        self.complete = True
        if not self.framing.keep_alive:
            self._flow.transport.close()
        self._answered()
