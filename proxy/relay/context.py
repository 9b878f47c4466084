"""The relay's context: what it depends on, its limits, live calls, and failures as refusals."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from classifier.records import UNATTRIBUTED, Ending, Exchange
from classifier.verdicts import plural
from proxy.capture.observer import TABLE_ONLY, CauseRules
from proxy.capture.request import Conversations
from proxy.inbound.asgi import RefusalCounter, refused_calls, refused_requests
from proxy.outbound import errors
from proxy.outbound.transport import Http1Transport
from proxy.relay.admission import Access
from proxy.relay.hold import Hold
from proxy.routing import headers as http_headers
from proxy.routing import refusals
from proxy.routing.address_guard import LocalNames
from proxy.routing.errors import Refusal, RefusalCode
from proxy.routing.keys import OperatorKeys
from proxy.routing.target import Addresses, Target
from proxy.routing.upstreams import Auth, Upstream
from proxy.wire.request import Selected

# --- refused and unattributed calls ------------------------------------------------------------


_LINE = (
    "a call names no rollout, so no verdict counts it; use the base URL /r/ROLLOUT/UPSTREAM/…, the "
    "header x-truezero-key or x-truezero-rollout. Upstream: "
)


class UnattributedCalls:
    """Lets calls in that name no rollout, counts them by upstream and logs them.

    Arguments:
        names: those of the service; a page of another site gets nothing.
    """

    def __init__(self, names: LocalNames, log: RefusalCounter | None = None) -> None:
        self._names = names
        self._log = log or RefusalCounter(_LINE)

    @property
    def counts(self) -> dict[str, int]:
        """The number of calls to each upstream."""
        return self._log.counts

    def admit(self, upstream: Upstream, headers: Mapping[bytes, bytes]) -> None:
        """Let a call in.

        Raises:
            Refusal: 403, it comes from another site's page.
        """
        self._names.check(headers)
        self._log.note(upstream.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequests:
    """Counts of requests that were refused, beside the exchanges.

    ``calls``: of agents, ``control``: of others to the control plane, both by code.
    ``unattributed``: None refuses calls that name no rollout.
    """

    calls: RefusalCounter = field(default_factory=refused_calls)
    control: RefusalCounter = field(default_factory=refused_requests)
    unattributed: UnattributedCalls | None = None


# --- calls under way, by rollout ---------------------------------------------------------------


_END_S = 5.0  # within which a call that was told to end has been recorded


class LiveCall(Protocol):
    """A call or socket under way."""

    def close(self) -> None:
        """End it, because its rollout has ended; it is recorded as it then stands."""
        ...


class NotesTurnedAway(Protocol):
    """Notes whose calls are turned away for want of room."""

    def note(self, rollout_id: str, *, own: int, most: int, in_flight: int, callers: int) -> None:
        """Note that a call was turned away, and how many there were at once.

        Arguments:
            own: of its rollout; `callers`: how many rollouts had any.
        """
        ...


class LiveCalls:
    """Knows which calls are under way; whoever enters one leaves it, however it ended.

    While calls of other rollouts are turned away, one rollout holds a quarter of them at most:
    more of its own are refused until a quarter is free. All methods are called in the event loop.
    ``conversations`` are those that rollouts' calls go on with, followed by a secret that is drawn
    here.

    Arguments:
        total, per_rollout: how many there may be at once; None is no limit.
        turned_away: notes those refused for want of room.
    """

    __slots__ = ("_by_rollout", "_in_flight", "_most_of_one", "_per_rollout", "_shared", "_total",
                 "_turned_away", "_waited_for", "conversations")  # fmt: skip

    def __init__(
        self,
        *,
        total: int | None = None,
        per_rollout: int | None = None,
        turned_away: NotesTurnedAway | None = None,
    ) -> None:
        self._total = math.inf if total is None else total
        self._per_rollout = math.inf if per_rollout is None else per_rollout
        self._most_of_one = self._per_rollout
        self._shared: float = math.inf  # while others are turned away: how many all may be
        self._turned_away = turned_away
        self._in_flight = 0
        self.conversations = Conversations(os.urandom(16))
        self._by_rollout: dict[str, set[LiveCall]] = {}
        self._waited_for: dict[LiveCall, asyncio.Future[None]] = {}

    def enter(self, rollout_id: str, call: LiveCall) -> None:
        """Note a call that begins.

        Raises:
            Refusal: 503, there are as many as there may be; nothing was sent to the provider.
        """
        calls = self._by_rollout.get(rollout_id)
        if self._in_flight >= self._total:
            self._refuse(rollout_id, 0 if calls is None else len(calls))
        if calls is None:
            self._by_rollout[rollout_id] = {call}
        elif len(calls) >= self._most_of_one and rollout_id != UNATTRIBUTED:
            self._check_share(rollout_id, len(calls))
            calls.add(call)
        else:
            calls.add(call)
        self._in_flight += 1

    def share(self, most: int) -> None:
        """Leave each rollout a quarter of so many calls, until a quarter of them is free.

        Called as others are turned away.
        """
        self._shared = float(most)
        self._most_of_one = min(self._per_rollout, float(max(1, most // 4)))

    def _refuse(self, rollout_id: str, own: int) -> NoReturn:
        most = int(self._total)
        if own < most / 4:
            self.share(most)
        self._note(rollout_id, own, most)
        raise refusals.too_many_calls(plural(self._in_flight, "call"))

    def _check_share(self, rollout_id: str, own: int) -> None:
        """Refuse a call beyond a rollout's share, unless there is room again."""
        if own < self._per_rollout:
            if self._in_flight < self._shared * 3 / 4:
                self._shared, self._most_of_one = math.inf, self._per_rollout
                return
            self._note(rollout_id, own, int(self._shared))
        raise refusals.too_many_calls_of_rollout(plural(own, "call"))

    def _note(self, rollout_id: str, own: int, most: int) -> None:
        if self._turned_away is not None:
            count, callers = self._in_flight, len(self._by_rollout)
            self._turned_away.note(rollout_id, own=own, most=most, in_flight=count, callers=callers)

    def leave(self, rollout_id: str, call: LiveCall) -> None:
        """Drop a call that ended and is on record."""
        self._in_flight -= 1
        calls = self._by_rollout[rollout_id]
        if len(calls) > 1:
            calls.discard(call)
        else:
            del self._by_rollout[rollout_id]
        if self._waited_for and (waited := self._waited_for.pop(call, None)) is not None:
            waited.set_result(None)

    def any_of(self, rollout_id: str) -> bool:
        """Return True if a call of this rollout is in flight."""
        return rollout_id in self._by_rollout

    async def close(self, rollout_id: str, grace_s: float) -> bool:
        """End a rollout's calls: those under way now that do not end by themselves.

        Arguments:
            grace_s: how long they may go on, in seconds.

        Returns:
            Whether all of them have ended.
        """
        calls = tuple(self._by_rollout.get(rollout_id, ()))
        if not calls:
            return True
        loop = asyncio.get_running_loop()
        ends = {call: self._waited_for.setdefault(call, loop.create_future()) for call in calls}
        _, left = await asyncio.wait(ends.values(), timeout=grace_s)
        if not left:
            return True
        for call, end in ends.items():
            if end in left and not end.done():
                call.close()
        _, left = await asyncio.wait(left, timeout=_END_S)
        return not left


# --- context -----------------------------------------------------------------------------------


class CallRecorder(Protocol):
    """The writer of exchanges. It never fails: it counts a gap instead."""

    def begin_durably(
        self, exchange_id: str, snapshot: Callable[[], Exchange]
    ) -> asyncio.Future[None]:
        """Note a call in flight; done once it is durable, which may wait for `flush_starts`."""
        ...

    def flush_starts(self) -> None:
        """Write the starts of calls now that would be written in a few milliseconds."""
        ...

    def record_durably(self, exchange: Exchange) -> asyncio.Future[None]:
        """Write a finished call; done once it is durable, or counted as a gap."""
        ...

    def begin(
        self, exchange_id: str, snapshot: Callable[[], Exchange], then: Callable[[], None]
    ) -> None:
        """Do as `begin_durably` does, and call ``then``, unless the call ends earlier."""
        ...

    def record(self, exchange: Exchange, then: Callable[[], None]) -> None:
        """Do as `record_durably` does, and call ``then``, at the earliest on return."""
        ...


# Notes the way in which a call asked, once it has ended: the call, its target and headers, and what
# its head and its body chose. `proxy.asking.ways` has one.
WayNoted = Callable[[Exchange, Target, http_headers.Pairs, Selected, Selected], None]


def note_nothing(*_: object) -> None:
    """Note no ways."""


class Signer(Protocol):
    """Puts the service's own credential on a request whose caller shows none.

    ``whole_body``: the credential covers the body, which must be there before it is sent.
    """

    whole_body: bool

    async def available(self) -> bool:
        """Return True if the service has a credential, even one that cannot be used now."""
        ...

    async def sign(
        self,
        *,
        upstream: Upstream,
        method: str,
        target: bytes,
        headers: http_headers.Pairs,
        body: bytes,
    ) -> http_headers.Pairs:
        """Return the headers to send; raise a Refusal without a credential."""
        ...


@dataclass(frozen=True, kw_only=True)
class CallLimits:
    """Bounds of one call: times in seconds (None is unlimited), sizes in bytes.

    ``drain_s`` and ``drain_bytes``: how much of an answer is read on for its usage after its
    agent left; 0 seconds: the call is cancelled at once.
    """

    connect_s: float | None = 10.0
    read_s: float | None = None
    write_s: float | None = None
    body_bytes: int = 64 * 1024 * 1024
    drain_s: float = 0.0
    drain_bytes: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayContext:
    """The relay's dependencies, rules and clocks.

    ``admits`` raises a Refusal for a rollout that may not be written to; None admits all.
    ``addresses`` names the rollout of a call, and says if that must be proven.
    ``operator_keys``: the keys that the proxy puts in. ``signers`` sign calls if an upstream
    takes more than a key, and neither the caller nor ``operator_keys`` has one.
    ``access``: what a rollout's key still opens, and the rules that its calls are under.
    ``holds``: have calls wait before they are sent, in this order.
    ``live``: the calls in flight, and how many may be at once. ``refused``: counts and log lines
    about refused calls and calls that name no rollout. ``causes``: the rules that name the cause
    of a failed call. ``note_way``: takes the way of each call, for reference calls.
    """

    upstreams: Mapping[str, Upstream]
    transport: Http1Transport
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
    holds: tuple[Hold, ...] = ()
    live: LiveCalls = field(default_factory=LiveCalls)
    refused: RefusedRequests = field(default_factory=RefusedRequests)
    causes: CauseRules = TABLE_ONLY
    note_way: WayNoted = note_nothing


# --- failed requests: the call's ending, and the agent's answer --------------------------------


_Meaning = tuple[type[errors.UpstreamError], Ending, int, RefusalCode]

# The first that fits. The second is no failure of any provider: the verdict is undecided.
_MEANINGS: tuple[_Meaning, ...] = (
    (errors.UnreachableError, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (errors.OwnFault, Ending.LOST, 503, "out_of_resources"),
    (errors.UpstreamTimeout, Ending.TIMED_OUT, 504, "upstream_timeout"),
    (errors.UpstreamError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
)


def failed(error: errors.UpstreamError, upstream: str, exchange_id: str) -> tuple[Ending, Refusal]:
    """Return how a call ended, and the refusal for an agent that has no answer yet.

    Arguments:
        upstream: its name.
    """
    _, ending, status, code = next(each for each in _MEANINGS if isinstance(error, each[0]))
    refusal = refusals.upstream_unanswered(status, code, upstream, error)
    return ending, with_exchange(refusal, exchange_id)


def with_exchange(refusal: Refusal, exchange_id: str) -> Refusal:
    """Name in a refusal the exchange that it ended."""
    exchange = (b"x-truezero-exchange", exchange_id.encode())
    return replace(refusal, headers=(*refusal.headers, exchange))


def invalid_status(status: int, exchange_id: str) -> Refusal:
    """Refuse to pass on a response whose status is none that ends an exchange."""
    return with_exchange(refusals.upstream_status(status), exchange_id)
