"""A call without a task: callbacks carry its answer back, and one ending is recorded.

It does what `ProxiedCall` does, where the request is all there and asks for nothing unusual: the
same bytes, the same record, the agent's last byte behind the commit. What happens meanwhile (an
agent that leaves or does not read, a provider that fails, a rollout that ends, a server that
stops) is a method each.
"""

from __future__ import annotations

from classifier.records import Ending
from proxy.outbound import errors
from proxy.relay.agent_watch import drain_limits
from proxy.relay.call import NO_BODY, STATUSES, stated_length
from proxy.relay.failures import failed, strange_status
from proxy.relay.plain_ending import PlainEnding
from proxy.relay.progress import RelayState
from proxy.routing import headers as dress
from proxy.wire.dialect import Payload


class PlainCall(PlainEnding):
    """One call in flight, from the request to what ends it."""

    _length: int | None = None  # of the body as the head states it
    _observed = 0  # bytes of the part that comes next that were observed already
    _drain_to = 0  # bytes of the response, where it is read on without its agent

    def begin(self, body: bytes, parsed: Payload | None) -> None:
        """Send the request; ``body`` is its agent's, which may be parsed already."""
        context, progress = self._context, self._progress
        if body:
            progress.observer.on_request_body(body, parsed)
            if parsed is None:
                progress.observer.asked_to_stream()  # as it is read before any other call's
        self._tasks.add(self)
        self._agent.watch(self._on_left)
        context.recorder.begin(self._call.id, progress.observer.opened, self._on_opened)
        self.send(context.limits.connect_s)

    # the provider's side

    def on_head(self) -> None:
        """Take the response's head."""
        status, progress, call_id = self.status or 0, self._progress, self._call.id
        if status not in STATUSES:
            self._end(Ending.CUT_UPSTREAM, strange_status(status, call_id))
            return
        headers = self._head = dress.for_agent(self.headers, call_id)
        at = progress.clock()
        progress.observer.on_response_head(status, headers, at)
        bodiless = status in NO_BODY
        if self.ended and not bodiless:
            self._whole = whole = self.take_parts()
            if whole:
                progress.received = len(whole)
                if progress.observer.on_response_body(whole, at) and progress.observer.behind:
                    self.held = True
                    self._loop.call_soon(self._catch_up, True)
                else:
                    self._complete()
                return
        length = self._length = None if bodiless else stated_length(headers)
        if bodiless:
            self._head = [pair for pair in headers if pair[0] != b"content-length"]
        if bodiless or length == 0:  # the head is all the agent waits for
            self._record(Ending.COMPLETE, self._start)
        elif self._is_open:
            self._start()
        else:
            self.held = True
            self._then = self._start
            self._context.recorder.hurry()

    def on_part(self, part: bytes) -> bool:
        """Pass a part on, or hold it: until it is on record, or until there is room."""
        fresh = part
        if self._observed:  # the part came before, and was held
            fresh, self._observed = part[self._observed :], 0
            if not fresh:
                return self._pass_on(part)
        progress = self._progress
        progress.received += len(fresh)
        if (
            progress.observer.on_response_body(fresh, progress.clock())
            or progress.received == self._length
        ):
            return self._hold_for_record(part)
        return self._agent.pass_on(part) or self._pass_on(part)

    def _hold_for_record(self, part: bytes) -> bool:
        self._observed = len(part)
        if self._progress.observer.behind:
            self.held = True
            self._loop.call_soon(self._catch_up, False)
        else:
            self._record(Ending.COMPLETE, self.release)
        return False

    def _catch_up(self, whole: bool) -> None:
        """Have a part decoded further, a turn at a time, and go on with it once it is."""
        progress, observer = self._progress, self._progress.observer
        if self._ending or self._ended:
            return
        ended = observer.catch_up(progress.clock())
        if observer.behind:
            self._loop.call_soon(self._catch_up, whole)
        elif whole:
            self._complete()
        elif ended or progress.received == self._length:
            self._record(Ending.COMPLETE, self.release)
        else:
            self.release()

    def _pass_on(self, part: bytes) -> bool:
        """Pass on what was observed, or hold it until there is room."""
        progress = self._progress
        if progress.state is RelayState.DRAINING:
            if progress.recorded or progress.received > self._drain_to:
                self._end(Ending.LEFT_BY_AGENT, None)
        elif not self._agent.pass_on(part):
            self._observed = len(part)
            progress.observer.hold()
            self.held = True
            self._agent.when_room(self._on_room)
            return False
        return True

    def on_end(self) -> None:
        """Take that the response is complete."""
        self._complete()

    def on_failure(self, error: errors.UpstreamError) -> None:
        """Take that it will never be."""
        ending, refusal = failed(error, self._call.upstream, self._call.id)
        if ending is Ending.CUT_UPSTREAM and self._progress.left:
            self._end(Ending.LEFT_BY_AGENT, None)
        else:
            self._end(ending, refusal)

    # the agent's side

    def _start(self) -> None:
        """Send the head, and then what comes."""
        progress, agent = self._progress, self._agent
        if progress.state is RelayState.WAITING:
            if agent.paused:
                self.held = True
                agent.when_room(self._start)
                return
            agent.start(self.status or 0, self._head)
            progress.state = RelayState.RESPONDING
        if self.held:
            self.release()

    def _on_room(self) -> None:
        progress = self._progress
        progress.observer.await_provider(progress.clock())
        self.release()

    def _on_left(self) -> None:
        progress, limits = self._progress, self._context.limits
        seconds, size = drain_limits(limits, is_error=progress.observer.is_error)
        waited_for_room = self.held and self._then is None
        self._agent.when_room(None)
        if seconds and not progress.recorded and not progress.left_complete():
            progress.state = RelayState.DRAINING
            self._drain_to = progress.received + size
            self._enough = self._loop.call_later(seconds, self._give_up)
            if waited_for_room:
                self._on_room()
        else:
            progress.state = RelayState.LEFT
            self._end(Ending.LEFT_BY_AGENT, None)

    def _give_up(self) -> None:
        self._end(Ending.LEFT_BY_AGENT, None)
