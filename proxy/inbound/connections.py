"""Limits of agents' connections: their number, and how long one may be silent.

Silence is counted in ticks of the event loop, not by a clock: while the loop is blocked, nobody is
heard and nobody counts as silent.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, Protocol

from classifier.verdicts import plural
from proxy.inbound.asgi import RefusalCounter, refused_calls
from proxy.routing.errors import RETRY_SOON, Refusal, agents_problem
from proxy.routing.headers import Pairs

_TICK_S: Final = 1.0
_AT_ONCE: Final = 500  # connections looked at before the loop does other work: 0.2 ms
_SCARCE: Final = 0.8  # of the descriptors: from here on heads are waited for a few ticks only
_SCARCE_HEAD_S: Final = 5.0
_FULL: Final = 0.95  # of the descriptors: from here on somebody silent makes room, or none enters
_LINGERING: Final = 64  # refused connections that are open at once; of few descriptors fewer
_OWN: Final = 32  # descriptors of the service's own: listeners, database, logs, spill file


class Waiting(Enum):
    """The part of a request that a connection waits for."""

    HEAD = auto()  # a whole head, of its first request or of one that has begun
    BODY = auto()  # the next byte of a request's body
    IDLE = auto()  # the next request


class HeldConnection(Protocol):
    """A connection as the table sees it.

    ``quiet``: ticks since it was last heard in what it waits for; ``waiting``: that, as of the last
    tick.
    """

    quiet: int
    waiting: Waiting | None

    def waits_for(self) -> Waiting | None:
        """Return what it waits for from its agent now; None if the agent waits."""
        ...

    def end(self, refusal: Refusal | None) -> None:
        """Close it, with a refusal where a request was begun."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Times in seconds, and numbers of connections; None is as many as the descriptors allow."""

    head_s: float = 30.0
    body_s: float = 60.0
    idle_s: float = 75.0
    total: int | None = None
    per_address: int | None = None


class ConnectionTable:
    """The connections of one server, oldest first.

    At most as many are taken as leave each one a descriptor for its provider.

    Arguments:
        descriptors: returns how many the process may have open.
        refusals: counts what is refused, by code.
        on_full: called with how many there may be, as one is refused for want of room.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        descriptors: Callable[[], int] | None = None,
        refusals: RefusalCounter | None = None,
        on_full: Callable[[int], None] | None = None,
    ) -> None:
        self.refusals = refusals or refused_calls()
        self.lingering = 0  # refused ones, whose agents may read why; they are counted out already
        self._limits = limits
        self._on_full = on_full
        self._used = 0  # the descriptor of the last one that entered
        self._descriptors = descriptors or _descriptor_limit
        self._open: dict[HeldConnection, None] = {}
        self._by_address: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._after = {
            Waiting.HEAD: limits.head_s, Waiting.BODY: limits.body_s, Waiting.IDLE: limits.idle_s,
        }  # fmt: skip

    def enter(
        self,
        connection: HeldConnection,
        address: str,
        descriptor: int,
        among: int,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Refusal | None:
        """Take a connection; returns why it is to be closed again, if it is.

        Arguments:
            descriptor: its own. A system gives out the lowest that is free, so that it tells how
                many are in use.
            among: how many connections there are, this one and sockets included.
            loop: times the ticks; by default the running one.
        """
        self._open[connection] = None
        count = self._by_address[address] = self._by_address.get(address, 0) + 1
        if self._timer is None:
            loop = loop or asyncio.get_running_loop()
            self._timer = loop.call_later(_TICK_S, self._tick, loop)
        if self._limits.per_address is not None and count > self._limits.per_address:
            return _full(f"{plural(self._limits.per_address, 'connection')} from one address")
        self._used, descriptors = descriptor, self._descriptors()
        within = max(1, (int(descriptors * _FULL) - _OWN) // 2)
        most, used = min(self._limits.total or within, within), descriptor / descriptors
        if (among <= most and used < _FULL) or self._made_room(connection):
            return None
        if self._on_full is not None:
            self._on_full(most)
        return _full(plural(among - 1, "connection"))

    @property
    def may_linger(self) -> bool:
        """True if one more refused connection may keep its descriptor for a moment."""
        return self.lingering < min(_LINGERING, self._descriptors() // _LINGERING)

    def problem(self, refusal: Refusal) -> tuple[Pairs, bytes]:
        """Count a refusal; render it as headers and body."""
        self.refusals.note(refusal.code)
        return agents_problem(refusal)

    def hand_over(self, connection: HeldConnection) -> None:
        """Let go of a connection that another protocol goes on with."""
        self._open.pop(connection, None)

    def leave(self, address: str, connection: HeldConnection | None = None) -> None:
        """Count a connection out that is closed."""
        if connection is not None:
            self._open.pop(connection, None)
        left = self._by_address.get(address, 0) - 1
        if left > 0:
            self._by_address[address] = left
        else:
            self._by_address.pop(address, None)

    def sweep(self, some: Iterable[HeldConnection] | None = None) -> None:
        """Count a tick of connections, by default all, and end those silent for too long."""
        after = self._after
        if self._used >= self._descriptors() * _SCARCE:
            after = {**after, Waiting.HEAD: min(after[Waiting.HEAD], _SCARCE_HEAD_S)}
        for connection in tuple(self._open) if some is None else some:
            if connection not in self._open:  # it left meanwhile
                continue
            waiting = connection.waits_for()
            if waiting is not connection.waiting:
                connection.waiting, connection.quiet = waiting, 0
            elif waiting is not None:
                connection.quiet += 1
                if connection.quiet * _TICK_S >= after[waiting]:
                    connection.end(_TOO_SLOW.get(waiting))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._go_on(loop, iter(tuple(self._open)))

    def _go_on(self, loop: asyncio.AbstractEventLoop, left: Iterator[HeldConnection]) -> None:
        """Look at some, and at the others when whatever is ready meanwhile is done."""
        some = tuple(islice(left, _AT_ONCE))
        self.sweep(some)
        if len(some) == _AT_ONCE:
            loop.call_soon(self._go_on, loop, left)
        else:
            self._timer = loop.call_later(_TICK_S, self._tick, loop) if self._open else None

    def _made_room(self, newest: HeldConnection) -> bool:
        """Close the oldest connection without a whole head, else the oldest idle one."""
        idle = None
        for connection in self._open:
            if connection is newest:
                continue
            waiting = connection.waits_for()
            if waiting is Waiting.HEAD:
                idle = connection
                break
            if waiting is Waiting.IDLE and idle is None:
                idle = connection
        if idle is None:
            return False
        del self._open[idle]  # its address is counted out once it is closed
        idle.end(_full("all connections are in use"))
        return True


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """Return the number of a connection's descriptor; 0 for one that has no socket."""
    file = transport.get_extra_info("socket")
    return 0 if file is None else file.fileno()


def _descriptor_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _full(why: str) -> Refusal:
    detail = f"connection limit reached ({why}); retry after 1 s"
    return Refusal(503, "too_many_connections", detail, RETRY_SOON)


_TOO_SLOW: Mapping[Waiting, Refusal] = {
    Waiting.HEAD: Refusal(408, "head_timeout", "the request's head took too long"),
    Waiting.BODY: Refusal(408, "body_timeout", "the request's body stopped arriving"),
}
_NAME = "agent_connections"


def table_of(server: Any, app: object) -> ConnectionTable:
    """Return the table of one of uvicorn's servers.

    Arguments:
        server: its `ServerState`, which outlives no loop.
        app: states its limits as ``connection_limits``, else they are the defaults, counts
            refusals in its ``refused.calls``, and has ``on_connections_full`` called.
    """
    table: ConnectionTable | None = getattr(server, _NAME, None)
    if table is None:
        limits = getattr(app, "connection_limits", ConnectionLimits())
        refused = getattr(app, "refused", None)
        on_full = getattr(app, "on_connections_full", None)
        table = ConnectionTable(limits, refusals=refused and refused.calls, on_full=on_full)
        setattr(server, _NAME, table)
    return table
