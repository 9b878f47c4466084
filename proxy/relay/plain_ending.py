"""How a call without a task ends: first it is on record, then its agent has the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from classifier.records import Ending
from proxy.capture.request import Call, HeadFacts
from proxy.inbound.response import AgentResponse
from proxy.outbound.pushed import OriginLines, PushedResponse
from proxy.outbound.request import SerializedRequest
from proxy.relay.admission import rollout_ended
from proxy.relay.context import RelayContext
from proxy.relay.failures import with_exchange
from proxy.relay.progress import CallProgress, RelayState
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal, problem

log = logging.getLogger("truezero")


class PlainEnding(PushedResponse):
    """A response of which nothing but its ends is known here; its states are `RelayState`.

    Whatever ends it calls `_complete` or `_end`, once: the exchange is recorded, and when that is
    durable the agent gets what is left of the response, a refusal, or a connection that is cut.

    Arguments:
        head: what the head of the request says.
        agent: the response to its agent.
        tasks: what the server cancels when its grace is over; the call is among it until it ends.
        message: the request as it is sent, over one of ``lines``.
    """

    _whole = b""  # of a response that came at once: it is sent in one write
    _enough: asyncio.TimerHandle | None = None  # ends what is read on without its agent
    _refusal: Refusal | None = None
    _is_open = False  # that it began is on record
    _ending = False  # nothing but a commit stands between it and its end
    _ended = False
    _committing = False
    _then: Callable[[], None] | None = None  # what waits for that, or for its opening

    def __init__(
        self,
        context: RelayContext,
        call: Call,
        head: HeadFacts,
        agent: AgentResponse,
        tasks: set[Any],
        message: SerializedRequest,
        lines: OriginLines,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(message, lines, loop)
        self._context = context
        self._call = call
        self._agent = agent
        self._tasks = tasks
        self._progress = CallProgress(context, call, head)
        self._head: dress.Pairs = []

    def close(self) -> None:
        """End the call, because its rollout has ended; what is being answered ends by itself."""
        if self._ending or self._ended:
            return
        progress = self._progress
        progress.closed = True
        if progress.left:
            self._end(Ending.LEFT_BY_AGENT, None)
        else:
            self._end(Ending.CLOSED_AT_OUTCOME, with_exchange(rollout_ended(), self._call.id))

    def cancel(self, msg: object = None) -> None:
        """End the call, because the server stops: as `asyncio.Task.cancel`, in its next turn."""
        if not self._ended:
            self._lose()
            self._loop.call_soon(self._break_off)

    def on_broken(self, error: Exception) -> None:
        """Take an error of the service's own."""
        log.error("a call failed inside the service: %s", type(error).__name__)
        self._lose()
        self._break_off()

    # the recorder's

    def _on_opened(self) -> None:
        self._is_open = True
        if not self._committing:
            self._go_on()

    def _record(self, ending: Ending, then: Callable[[], None]) -> None:
        """Record the exchange as it stands; go on with ``then`` once that is durable."""
        self.held = True
        self._then = then
        exchange = self._progress.ended(ending)
        if exchange is not None:
            self._committing = True
            self._context.recorder.record(exchange, self._go_on)
        elif not self._committing:
            self._go_on()

    def _go_on(self) -> None:
        """Go on with what waited, now that it is durable, or was before."""
        self._committing = False
        then, self._then = self._then, None
        if then is not None:
            try:
                then()
            except Exception as error:
                self.on_broken(error)

    # the end

    def _complete(self) -> None:
        self._ending = True
        self._agent.when_gone = None
        self._record(Ending.COMPLETE, self._answer)

    def _answer(self) -> None:
        """Send what is left of the response, now that it is on record; nothing where it left."""
        agent = self._agent
        if agent.paused and not agent.gone:
            agent.when_room(self._answer)
        else:
            self._leave()
            if self._whole:
                agent.send_now(self.status or 0, self._head, self._whole)
            else:
                agent.finish()

    def _end(self, ending: Ending, refusal: Refusal | None) -> None:
        """End the call before its response is complete."""
        if self._ending or self._ended:
            return
        self._ending = True
        self._refusal = refusal
        self._agent.when_gone = None
        self._agent.when_room(None)
        self.stop()
        self._record(ending, self._refuse)

    def _refuse(self) -> None:
        """Tell the agent why it gets no response, or cut the one that was begun."""
        agent, refusal, state = self._agent, self._refusal, self._progress.state
        if refusal is None or state is not RelayState.WAITING:
            self._leave()
            if state is RelayState.RESPONDING:
                agent.cut()
        elif agent.paused and not agent.gone:
            agent.when_room(self._refuse)
        else:
            self._context.notices.refusals.note(refusal.code)
            headers, body = problem(refusal)
            self._leave()
            agent.send_now(refusal.status, headers, body)

    def _lose(self) -> None:
        """Record the call as one that the service did not bring to its end."""
        self._ending = True
        self._agent.when_gone = None
        self._agent.when_room(None)
        self.stop()
        self._record(Ending.LOST, _nothing)

    def _break_off(self) -> None:
        if not self._ended:
            self._leave()
        if not self._agent.complete:
            self._agent.break_off()

    def _leave(self) -> None:
        self._ended = True
        if self._enough is not None:
            self._enough.cancel()
        self._tasks.discard(self)
        self._context.live.leave(self._call.rollout_id, self)


def _nothing() -> None:
    """Nobody waits."""
