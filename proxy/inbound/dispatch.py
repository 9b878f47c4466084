"""Who answers a request: the relay by callbacks where that is possible, else a task.

An agent's call does not pass `ProxyHeadersMiddleware`, which tells the control plane its own
address behind a proxy (``x-forwarded-*``): a relay goes by the raw path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.server import ServerState

from proxy.inbound.asgi import Application, Scope
from proxy.inbound.request_cycle import RequestCycle
from proxy.inbound.response_framing import CONTENT_LENGTH
from proxy.routing.headers import first

_ROLLOUTS = b"/r/"
# Many clients send a head and its body apart. For so long the first waits for the second: a request
# that is all there takes half the work.
_SPLIT_S = 0.002
# Bytes of a body that is waited for: a long conversation comes in several reads. The beginning of a
# longer one is better sent on at once.
_LONGEST = 1024 * 1024

# Answers a request of a rollout without a task, or returns False and has done nothing. The set
# has what the server cancels when its grace is over: tasks, and whatever else has `cancel`.
TakePlain = Callable[[RequestCycle, set[Any]], bool]


class Dispatch:
    """Begins the answers to the requests of one connection.

    ``fresh``: the request that has yet to begin. ``relaying``: the application itself. Where it has
    a method ``plain_calls``, that is asked once for each connection, by its scope, for a
    `TakePlain`, which may be None. ``client``: the agent's address and port.
    """

    __slots__ = ("_app", "_late", "_loop", "_plain", "_scope", "_state", "_tasks", "client",
                 "fresh", "relaying")  # fmt: skip

    def __init__(
        self,
        config: Config,
        server: ServerState,
        state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        app: Any = config.loaded_app
        self._app: Application = app
        self.relaying: Any = app.app if isinstance(app, ProxyHeadersMiddleware) else app
        self._state = state
        self._loop = loop
        self._tasks: set[Any] = server.tasks
        self._scope: Scope = {}
        self._plain: TakePlain | None = None
        self.client: tuple[str, int] | None = None
        self.fresh: RequestCycle | None = None
        self._late: asyncio.TimerHandle | None = None  # begins it without the rest of its body

    def connected(self, line: asyncio.Transport, config: Config) -> None:
        """Take the connection, whose scope those of its requests are copied from."""
        self.client = _host_and_port(line.get_extra_info("peername"))
        self._scope = {
            "type": "http",
            "asgi": {"version": config.asgi_version, "spec_version": "2.3"},
            "server": _host_and_port(line.get_extra_info("sockname")),
            "client": self.client,
            "scheme": "http" if line.get_extra_info("sslcontext") is None else "https",
            "root_path": config.root_path,
            "state": self._state,
        }
        offers = getattr(self.relaying, "plain_calls", None)
        self._plain = None if offers is None else offers(self._scope)

    def begin_soon(self) -> None:
        """Begin the fresh request: now, or when the rest of a body that is waited for is here."""
        fresh = self.fresh
        if fresh is not None and fresh.more_body:
            if self._late is not None:
                return
            if self._awaits_body(fresh):
                self._late = self._loop.call_later(_SPLIT_S, self.begin_late)
                return
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if fresh is not None:
            self.fresh = None
            self.begin(fresh)

    def begin_late(self) -> None:
        """Begin a request that waits for the rest of its body, without it."""
        fresh, late = self.fresh, self._late
        if fresh is not None and late is not None:
            late.cancel()
            self.fresh = self._late = None
            self.begin(fresh)

    def begin(self, cycle: RequestCycle) -> None:
        """Have a request answered."""
        of_rollout, plain = cycle.head.raw_path.startswith(_ROLLOUTS), self._plain
        if plain is not None and of_rollout:
            # All there, and its agent waits for nothing but the response.
            at_rest = not (cycle.more_body or cycle.expects or cycle.gone)
            if at_rest and plain(cycle, self._tasks):
                return
        app, scope = self.relaying, self._scope.copy()
        if not of_rollout:
            app, scope["state"] = self._app, self._state.copy()
        self._loop.create_task(cycle.run(app, scope, self._tasks))

    def _awaits_body(self, cycle: RequestCycle) -> bool:
        head = cycle.head
        if self._plain is None or cycle.expects or not head.raw_path.startswith(_ROLLOUTS):
            return False
        length = first(head.headers, CONTENT_LENGTH)
        return length is not None and length.isdigit() and int(length) <= _LONGEST


def _host_and_port(address: Any) -> tuple[str, int] | None:
    """Host and port of a socket's address; an IPv6 one has more."""
    return address[:2] if isinstance(address, tuple) else None
