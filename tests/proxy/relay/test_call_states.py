"""The states of a call: each that may follow another does, no other does, and nothing differs.

Every walk is one call by hand. After each of its steps all else that is known of the call has to
agree with its state.
"""
# ruff: noqa: SLF001
# Private: the walk compares a call's own states.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from proxy.relay.call import FOLLOWING, RelayedCall, RelayState
from proxy.relay.context import CallLimits
from proxy.relay.held_call import HeldCall
from proxy.relay.hold import HeldRequest, Then
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import Auth
from tests.proxy.relay.byhand import ASKED, STREAMED, CallByHand, call_by_hand
from tests.proxy.relay.test_relayed_call import DONE, END, SSE, WHOLE, WORD, framed, turns

pytestmark = pytest.mark.reaches_in

S = RelayState
ENDING = {S.ANSWERING, S.REFUSING, S.CUTTING, S.LEFT, S.LOSING}
BEFORE_THE_HEAD = {S.EXPECTED, S.ARRIVING, S.HELD, S.HELD_LEFT, S.HELD_CLOSED, S.WAITING}
REFUSED = Refusal(429, "too_many_calls", "not now")
DRAINED = CallLimits(drain_s=60.0, drain_bytes=10_000)


@dataclass
class Gate:
    """A hold, and the ticket of its only call, which is let go by hand."""

    may_refuse: bool = False
    let_go: bool = False
    waited: bool = True
    then: Then = lambda _refusal: None
    left: list[Callable[[], None]] = field(default_factory=list)

    def claims(self, *_: object) -> bool:
        return True

    def enter(self, _request: HeldRequest, then: Then) -> Gate:
        self.then = then
        return self

    def open(self, refusal: Refusal | None = None) -> None:
        """Let the call go, or refuse it."""
        self.let_go = refusal is None
        self.then(refusal)

    def leave(self, then: Callable[[], None] | None = None) -> None:
        if then is not None:
            self.left.append(then)

    def lets_it_leave(self) -> None:
        """Say that it is written down that the call left."""
        self.left[-1]()

    def on_head(self, _headers: object) -> None: ...

    def on_limits(self, _event: object) -> None: ...

    def on_end(self, *_: object) -> None: ...


class Signs:
    """A signer that signs when it is told to."""

    whole_body = False

    def __init__(self) -> None:
        self.now = asyncio.Event()

    async def available(self) -> bool:
        return True

    async def sign(self, *, headers: Any, **_: object) -> Any:
        await self.now.wait()
        return headers


@dataclass
class Walk:
    """A call, and the states that it went through."""

    call: CallByHand
    relayed: Any
    gate: Gate
    signer: Signs

    def check(self) -> None:
        """See that all else that is known of the call agrees with its state."""
        relayed, call, state = self.relayed, self.call, self.relayed.state
        agent, over = call.agent, state is S.ENDED
        ending = state in ENDING or over
        assert (relayed in call.tasks) is not over
        assert call.over is over
        assert (agent.on_disconnect is None) is ending
        assert relayed.left is (state in {S.DRAINING, S.HELD_LEFT, S.LEFT})
        assert agent.disconnected or not relayed.left
        if state in BEFORE_THE_HEAD | {S.REFUSING}:
            assert not agent.begun
        if state in {S.RESPONDING, S.CUTTING}:
            assert agent.begun
        if relayed._committing:
            assert relayed._then is not None
            assert relayed.held
        if ending:
            assert relayed.held
            assert relayed._signing is None
        else:
            assert relayed._refusal is None
        if state is not S.DRAINING and not ending and state is not S.HELD_LEFT:
            assert relayed._enough is None
        if isinstance(relayed, HeldCall):
            waits = relayed._waiting is not None
            assert waits or state not in {S.HELD, S.HELD_LEFT, S.HELD_CLOSED}
            assert not waits or state in {S.HELD, S.HELD_LEFT, S.HELD_CLOSED, S.DRAINING}


Step = Callable[[Walk], object]


def part(walk: Walk) -> None:
    walk.call.agent.on_body_part(ASKED[:9])
    walk.call.agent.hand_on()


def last_part(walk: Walk) -> None:
    size = walk.relayed._size
    walk.call.agent.on_body_part(ASKED[size:])
    walk.call.agent.on_body_end()
    walk.call.agent.hand_on()


def stream(walk: Walk) -> None:
    walk.call.says(SSE)
    walk.call.book.opened_now()
    walk.call.says(framed(WORD))


def whole(walk: Walk) -> None:
    walk.call.says(WHOLE)


def done(walk: Walk) -> None:
    walk.call.says(framed(DONE) + END)
    walk.call.book.commit()


def commit(walk: Walk) -> None:
    walk.call.book.commit()


def leave(walk: Walk) -> None:
    walk.call.agent.leave()


def close(walk: Walk) -> None:
    walk.relayed.close()


def cancel(walk: Walk) -> None:
    walk.relayed.cancel()


def fail(walk: Walk) -> None:
    walk.relayed.on_internal_error(ValueError())


def breaks(walk: Walk) -> None:
    walk.call.provider.head_bytes = 1  # so that it is not taken for stale
    walk.call.provider.eof_received()


def opens(walk: Walk) -> None:
    walk.gate.open()


def refuses(walk: Walk) -> None:
    walk.gate.open(REFUSED)


def let_leave(walk: Walk) -> None:
    walk.gate.lets_it_leave()


def sign(walk: Walk) -> None:
    walk.signer.now.set()


def cannot_send(walk: Walk) -> None:
    agent = walk.call.agent
    sends = agent.send_now

    def send_now(*_: object) -> None:
        agent.send_now = sends  # type: ignore[method-assign]
        raise RuntimeError

    agent.send_now = send_now  # type: ignore[assignment,method-assign]


# How a call begins.
BODILESS: Mapping[str, Any] = {"body": b"", "length": b"%d" % len(ASKED), "more": True}
ARRIVING: Mapping[str, Any] = {"body": ASKED[:9], "length": b"%d" % len(ASKED), "more": True}
STREAMS: Mapping[str, Any] = {"body": STREAMED}
DRAINS: Mapping[str, Any] = {"body": STREAMED, "limits": DRAINED}
HOLDS: Mapping[str, Any] = {"hold": True}
SIGNED: Mapping[str, Any] = {"hold": True, "sign": True, "limits": DRAINED}

WALKS: dict[str, tuple[Mapping[str, Any], list[Step]]] = {
    "a whole answer": ({}, [whole, commit]),
    "a stream": (STREAMS, [stream, done, commit]),
    "a body in parts": (BODILESS, [part, last_part, whole, commit]),
    "a body at once": (BODILESS, [last_part, whole, commit]),
    "an early answer": (ARRIVING, [whole, commit]),
    "an agent that leaves before its body": (BODILESS, [leave, commit]),
    "a rollout that ends before its body": (BODILESS, [close, commit]),
    "a service that stops before its body": (BODILESS, [cancel]),
    "an agent that leaves in its body": (ARRIVING, [leave, commit]),
    "a body over the limit": (
        {**ARRIVING, "length": b"", "limits": CallLimits(body_bytes=10)}, [part, commit],
    ),
    "a service that fails in its body": (ARRIVING, [fail]),
    "an agent that leaves while it waits": ({}, [leave, commit]),
    "a provider that breaks off before its head": ({}, [breaks, commit]),
    "a service that stops while it waits": ({}, [cancel]),
    "a provider that breaks off": (STREAMS, [stream, breaks, commit]),
    "an agent that leaves": (STREAMS, [stream, leave, commit]),
    "a service that fails": (STREAMS, [stream, fail]),
    "an answer read on": (DRAINS, [stream, leave, done, commit]),
    "one read on from before its head": (DRAINS, [leave, whole, commit]),
    "one that breaks off while it is read on": (DRAINS, [stream, leave, breaks, commit]),
    "a service that stops while it is read on": (DRAINS, [stream, leave, cancel]),
    "a rollout that ends while it is read on": (DRAINS, [stream, leave, close, commit]),
    "a service that stops at a whole answer": ({}, [whole, cancel]),
    "a service that stops at a refusal": ({}, [breaks, cancel]),
    "a service that stops at a cut": (STREAMS, [stream, breaks, cancel]),
    "a service that stops when its agent left": ({}, [leave, cancel]),
    "a service that stops twice": ({}, [cancel, cancel]),
    "an answer that cannot be sent": ({}, [whole, cannot_send, commit]),
    "a rollout that ends too late": ({}, [whole, close, commit, close]),
    "a hold": (HOLDS, [opens, whole, commit]),
    "a hold that refuses": (HOLDS, [refuses]),
    "a service that stops in a hold": (HOLDS, [cancel]),
    "an agent that leaves a hold": (HOLDS, [leave, let_leave, commit]),
    "a rollout that ends in a hold": (HOLDS, [close, close, let_leave, commit]),
    "both, the rollout first": (HOLDS, [close, leave, let_leave, commit]),
    "both, the agent first": (HOLDS, [leave, close, let_leave, commit]),
    "a hold that opens too late": (HOLDS, [leave, opens, let_leave, commit]),
    "a service that stops after its agent left a hold": (HOLDS, [leave, cancel]),
    "a service that stops after its rollout ended": (HOLDS, [close, cancel]),
    "a signed call": (SIGNED, [sign, opens, whole, commit]),
    "an agent that leaves as it is signed": (SIGNED, [leave, sign, opens, whole, commit]),
    "and its rollout ends": (SIGNED, [leave, sign, close, let_leave, commit]),
}  # fmt: skip


async def walk_through(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[RelayState, RelayState]]:
    """Walk; return each state that another one followed, and that one."""
    walked: list[tuple[RelayState, RelayState]] = []

    def noting(relayed: RelayedCall, attribute: str, value: object) -> None:
        if attribute == "state" and isinstance(value, RelayState) and value is not relayed.state:
            walked.append((relayed.state, value))
        object.__setattr__(relayed, attribute, value)

    monkeypatch.setattr(RelayedCall, "__setattr__", noting, raising=False)
    given, steps = WALKS[name]
    how, gate, signer = dict(given), Gate(), Signs()
    if how.pop("hold", False):
        how["holds"] = (gate,)
    if how.pop("sign", False):
        how |= {"signers": {Auth.BEARER: signer}, "any_path": True}
    call = call_by_hand(**how)
    await turns()
    relayed: Any
    (relayed,) = call.context.live._by_rollout["r1"]
    walk = Walk(call, relayed, gate, signer)
    walk.check()
    for step in steps:
        step(walk)
        walk.check()
        await turns()
        walk.check()
    if relayed._enough is not None:
        relayed._enough.cancel()
    assert relayed.state is S.ENDED
    begun, *_ = walked
    assert begun == (S.WAITING, S.EXPECTED), "a call whose body is all there begins as it waits"
    return walked[1:]


@pytest.mark.parametrize("name", WALKS)
async def test_each_state_is_one_that_may_follow_the_last(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state, after in await walk_through(name, monkeypatch):
        assert after in FOLLOWING[state], (state, after)


async def test_each_that_may_follow_does(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = {pair for name in WALKS for pair in await walk_through(name, monkeypatch)}
    may = {(state, after) for state, following in FOLLOWING.items() for after in following}
    assert may - walked == set()
    assert set(FOLLOWING) == set(RelayState)
