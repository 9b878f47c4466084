"""Drive a healthy rollout through the capture, in process: bytes in, a record out."""

from __future__ import annotations

from collections.abc import Iterator

from classifier.records import Ending, Exchange, RolloutRecord
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, Conversations
from proxy.features.websocket.capture import WebSocketCapture, websocket_api
from tests.healthy.traffic import HealthyCall, HealthyRollout, Pairs

SALT = b"a salt of the tests"
_PIECE = 65_536  # of a request body, as sockets give it


def driven(rollout: HealthyRollout) -> RolloutRecord:
    """Return the record of a rollout whose calls passed the observer, each with its own."""
    return RolloutRecord(
        id=rollout.id,
        batch=rollout.batch,
        task=rollout.task,
        attempt=rollout.attempt,
        model=rollout.model,
        upstream=rollout.upstream,
        fallbacks=rollout.fallbacks,
        exchanges=tuple(exchanges(rollout)),
        outcome=rollout.outcome,
        began_at=rollout.began,
        ended_at=rollout.began + max((call.end_s for call in rollout.calls), default=0.0),
    )


def exchanges(rollout: HealthyRollout) -> Iterator[Exchange]:
    """Yield the exchange of each call, in the order of their start."""
    conversations = Conversations(SALT)
    socket = _Socket(rollout, conversations)
    for number, call in enumerate(rollout.calls):
        if call.method == "WEBSOCKET":
            yield socket.exchange(number, call)
        else:
            yield _exchange(rollout, number, call, conversations)


def _call(rollout: HealthyRollout, number: int, call: HealthyCall) -> Call:
    return Call(
        id=f"{rollout.id}-{number}",
        rollout_id=rollout.id,
        upstream=call.upstream,
        method=call.method,
        path=call.path.encode(),
        query=call.query.encode(),
        started_at=rollout.began + call.start_s,
        began=call.start_s,
        request_headers=_pairs(call.request_headers),
        role=call.role,
        key_digest="3f9a",
        client=(call.address, 50_000 + number),
    )


def _exchange(
    rollout: HealthyRollout, number: int, call: HealthyCall, conversations: Conversations
) -> Exchange:
    known = _call(rollout, number, call)
    observer = CallObserver(known, salt=SALT, conversations=conversations)
    for at in range(0, len(call.body), _PIECE):
        observer.on_request_body(call.body[at : at + _PIECE])
    if call.status is not None and call.first_byte_s is not None:
        observer.on_response_head(call.status, _pairs(call.response_headers), call.first_byte_s)
        for at_s, chunk in _timed(call):
            observer.on_response_body(chunk, at_s)
    return observer.finish(call.ending, call.end_s)


class _Socket:
    """The WebSocket of a rollout, on which one call follows the other."""

    def __init__(self, rollout: HealthyRollout, conversations: Conversations) -> None:
        self._rollout = rollout
        self._current: tuple[int, HealthyCall] | None = None
        self._conversations = conversations
        api = websocket_api(b"/v1/responses")
        self._capture = WebSocketCapture(api, new_observer=self._new, headers=(), model=None)

    def exchange(self, number: int, call: HealthyCall) -> Exchange:
        self._current = number, call
        finished = list(self._capture.on_agent_message(call.body).finished)
        for at_s, message in _timed(call):
            finished += self._capture.on_provider_message(message, at_s).finished
        if call.ending is not Ending.COMPLETE:
            finished += self._capture.on_close(call.ending, call.end_s, None, "").finished
        (exchange,) = finished
        return exchange

    def _new(self) -> CallObserver:
        assert self._current is not None
        call = _call(self._rollout, *self._current)
        return CallObserver(call, salt=SALT, conversations=self._conversations)


def _timed(call: HealthyCall) -> Iterator[tuple[float, bytes]]:
    """Yield the chunks, spread evenly from the first byte to the end."""
    first = call.start_s if call.first_byte_s is None else call.first_byte_s
    each = (call.end_s - first) / max(1, len(call.chunks) - 1)
    for place, chunk in enumerate(call.chunks):
        yield first + place * each, chunk


def _pairs(headers: Pairs) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), value.encode()) for name, value in headers)
