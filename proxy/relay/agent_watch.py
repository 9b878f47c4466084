"""Whether a call's agent is still there, and what happens when it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from classifier.records import Ending
from proxy.inbound.asgi import (
    AGENT_CONNECTION,
    AgentConnection,
    Message,
    Receive,
    Scope,
    Send,
    send_response,
)
from proxy.relay.context import AgentLeft, CallLimits
from proxy.relay.progress import CallProgress, RelayState
from proxy.routing.headers import Pairs

# An error's body is short and costs nothing; it tells an empty account from a rate limit, which
# its status alone does not. Agents that raise by the status hang up before they have read it.
_ERROR_DRAIN_S = 5.0
_ERROR_DRAIN_BYTES = 64 * 1024


def agent_connection(scope: Scope, receive: Receive, send: Send) -> AgentConnection:
    """Return the server's extension if it has one, else a connection over ASGI messages."""
    extensions = scope.get("extensions")
    connection: AgentConnection | None = extensions and extensions.get(AGENT_CONNECTION)
    return connection or MessageConnection(receive, send)


def drain_limits(limits: CallLimits, *, is_error: bool) -> tuple[float, int]:
    """How much of a response is read on without its agent: seconds and bytes."""
    if limits.drain_s or not is_error:
        return limits.drain_s, limits.drain_bytes
    return _ERROR_DRAIN_S, _ERROR_DRAIN_BYTES


class MessageConnection:
    """An `AgentConnection` on a server that has only ASGI messages."""

    __slots__ = ("_receive", "_send", "_watching")

    @property
    def paused(self) -> bool:
        """Return that it may be: no message tells."""
        return True

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._watching: asyncio.Task[None] | None = None

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response."""
        await send_response(self._send, status, headers, body)

    def pass_on(self, part: bytes) -> bool:  # AgentConnection's
        """Have every part awaited."""
        return False

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Receive in a task until the agent is gone."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if when_gone is not None:
            self._watching = asyncio.create_task(self._until_gone(when_gone))

    def reset(self) -> bool:
        """Do nothing: no message resets a connection."""
        return False

    async def _until_gone(self, when_gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        when_gone()


class AgentWatch:
    """The agent of one call: cancels the call when it leaves, or lets the response be read on.

    ``send``: sends the agent a message; raises AgentLeft where enough was read without it.
    """

    _drain_to = 0  # bytes of the response, where it is read on
    _enough: asyncio.TimerHandle | None = None

    def __init__(
        self, agent: AgentConnection, send: Send, limits: CallLimits, progress: CallProgress
    ) -> None:
        self.send = send
        self._agent = agent
        self._limits = limits
        self._progress = progress
        self._task = asyncio.current_task()

    def start(self) -> None:
        """Watch from now on; the rest of the request's body is discarded."""
        self._agent.watch(self._on_left)

    def stop(self) -> None:
        """Stop watching, and reading on."""
        self._agent.watch(None)
        if self._enough is not None:
            self._enough.cancel()

    def close(self) -> None:
        """Cancel the call, because its rollout has ended; one whose agent left ends as left."""
        self._progress.closed = True
        if self._task is not None:
            self._task.cancel()

    def caught(self) -> Ending | None:
        """Return how a call ended that was cancelled here, and undo that; None for any other."""
        progress = self._progress
        if not (progress.left or progress.closed):
            return None
        if self._task is not None:
            self._task.uncancel()
        return Ending.LEFT_BY_AGENT if progress.left else Ending.CLOSED_AT_OUTCOME

    def _on_left(self) -> None:
        task, progress = self._task, self._progress
        seconds, size = drain_limits(self._limits, is_error=progress.observer.is_error)
        if task is None:
            progress.state = RelayState.LEFT
        elif seconds and not progress.left_complete():
            progress.state = RelayState.DRAINING
            self._drain_to = progress.received + size
            self.send = self._send_nowhere
            self._enough = asyncio.get_running_loop().call_later(seconds, task.cancel)
        else:
            progress.state = RelayState.LEFT
            task.cancel()

    async def _send_nowhere(self, _message: Message) -> None:
        if self._progress.recorded or self._progress.received > self._drain_to:
            raise AgentLeft
