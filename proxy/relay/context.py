"""What the relay depends on: recorder, signers, limits, clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from classifier.records import Exchange
from proxy.capture.observer import SilenceLimits
from proxy.outbound.request import Timeouts, UpstreamTransport
from proxy.relay.admission import Access
from proxy.relay.live_calls import LiveCalls
from proxy.relay.notices import RequestNotices
from proxy.routing import headers as dress
from proxy.routing.keys import OperatorKeys
from proxy.routing.target import Addresses
from proxy.routing.upstreams import Auth, Upstream

_SILENCE = SilenceLimits()


class CallRecorder(Protocol):
    """Where exchanges are written; that never fails (a gap is counted instead)."""

    def opened(self, exchange_id: str, snapshot: Callable[[], Exchange]) -> asyncio.Future[None]:
        """Note a call in flight; done once it is durable, which may wait for `hurry`."""
        ...

    def hurry(self) -> None:
        """Have what was noted written now: somebody waits for it."""
        ...

    def recorded(self, exchange: Exchange) -> asyncio.Future[None]:
        """Write a finished call; done once it is durable, or counted as a gap."""
        ...

    def begin(
        self, exchange_id: str, snapshot: Callable[[], Exchange], then: Callable[[], None]
    ) -> None:
        """Do as `opened` does, and call ``then``; never, where the call ends earlier."""
        ...

    def record(self, exchange: Exchange, then: Callable[[], None]) -> None:
        """Do as `recorded` does, and call ``then``, at the earliest when this has returned."""
        ...


class Signer(Protocol):
    """Puts the service's own credential on a request whose caller shows none.

    ``whole_body``: the credential covers the body, which must be there before it is sent.
    """

    whole_body: bool

    async def available(self) -> bool:
        """Whether the service has a credential, be it one that cannot be used at the moment."""
        ...

    async def sign(
        self, *, upstream: Upstream, method: str, target: bytes, headers: dress.Pairs, body: bytes
    ) -> dress.Pairs:
        """Return the headers to send; raise a Refusal without a credential."""
        ...


@dataclass(frozen=True, kw_only=True)
class CallLimits:
    """Bounds of one call: times in seconds (None is unlimited), sizes in bytes.

    ``drain_s`` and ``drain_bytes``: how much of an answer is read on for its usage after its
    agent left; 0 seconds: the call is cancelled at once. ``silence``: after how long
    without content a call that its agent left was stalled.
    """

    connect_s: float | None = 10.0
    read_s: float | None = None
    write_s: float | None = None
    body_bytes: int = 64 * 1024 * 1024
    drain_s: float = 0.0
    drain_bytes: int = 16 * 1024 * 1024
    silence: SilenceLimits = _SILENCE

    @cached_property
    def timeouts(self) -> Timeouts:
        """The timeouts of a request to a provider."""
        return Timeouts(connect_s=self.connect_s, read_s=self.read_s, write_s=self.write_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayContext:
    """What the relay is given: its neighbours, its rules, and time.

    ``admits`` raises a Refusal for a rollout that may not be written to; None admits all.
    ``addresses`` reads whose a call is, and whether that must be proven.
    ``operator_keys``: the keys that the proxy puts in. ``signers``: who steps in where an
    upstream takes more than a key, and neither the caller nor ``operator_keys`` has one.
    ``access``: what a rollout's key still opens, and what its agent is drilled with.
    ``live``: the calls that are under way, and how many may be at once. ``notices``: what
    is told of refused calls and of calls that name no rollout.
    """

    upstreams: Mapping[str, Upstream]
    transport: UpstreamTransport
    recorder: CallRecorder
    addresses: Addresses
    salt: bytes
    new_id: Callable[[], str]
    wall: Callable[[], float]
    clock: Callable[[], float]
    limits: CallLimits
    admits: Callable[[str], Awaitable[None]] | None = None
    operator_keys: OperatorKeys = field(default_factory=OperatorKeys)
    signers: Mapping[Auth, Signer] = field(default_factory=dict)
    access: Access | None = None
    live: LiveCalls = field(default_factory=LiveCalls)
    notices: RequestNotices = field(default_factory=RequestNotices)


class AgentLeft(Exception):
    """The agent hung up while its request was still coming."""


class BodyTooLarge(Exception):
    """A request of unknown length outgrew its limit."""
