"""The rollout that the running code works for, and the hook that names it on shared clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from truezero import models
from truezero.sdk.addresses import DEFAULT_URL

KEY_HEADER = "x-truezero-key"  # beside the provider's own key; the service does not pass it on
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_PORTS = {"http": 80, "https": 443}

P = ParamSpec("P")
T = TypeVar("T")

_Origin = tuple[str, str, int | None]


class Keyed(Protocol):
    """An object with the key and base URLs of a rollout, or of one of its roles."""

    @property
    def key(self) -> str:
        """API key that identifies the rollout, ``tz-…``."""
        ...

    @property
    def base_urls(self) -> dict[str, str]:
        """Base URL for the clients of each upstream, by name."""
        ...


class Identity(Keyed, Protocol):
    """An object naming a rollout: ``Rollout``, ``AsyncRollout`` or the answer of ``register``."""

    @property
    def id(self) -> str:
        """The rollout's id."""
        ...


class WatchedIdentity:
    """An identity, and whether the running code took a key, a base URL or a variable of it.

    One that nobody took cannot be named in any call: the code asks its model elsewhere.
    """

    __slots__ = ("rollout", "taken")

    def __init__(self, rollout: models.RolloutRegistered) -> None:
        self.rollout = rollout
        self.taken = False

    @property
    def id(self) -> str:
        """The rollout's id; to know it is not to take it."""
        return self.rollout.id

    @property
    def key(self) -> str:
        """API key that identifies the rollout, ``tz-…``."""
        self.taken = True
        return self.rollout.key

    @property
    def base_urls(self) -> dict[str, str]:
        """Base URL for the clients of each upstream, by name."""
        self.taken = True
        return self.rollout.base_urls

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that point common agents at the proxy."""
        self.taken = True
        return self.rollout.env


# Set by the block of a rollout and by integrations. asyncio tasks and `asyncio.to_thread` inherit
# it; a thread and an executor do not: hand them `carry(function)`.
current: ContextVar[Identity | None] = ContextVar("truezero_current", default=None)


class _Done:
    """Awaitable without waiting: one hook serves both kinds of client."""

    __slots__ = ()

    def __await__(self) -> Iterator[None]:
        return iter(())


_DONE = _Done()


def httpx_hook(request: Any) -> _Done:
    """Name the current rollout in a request to the service; a request hook of httpx.

    ``httpx.Client(event_hooks={"request": [truezero.httpx_hook]})``, and the same with
    ``AsyncClient``. Requests to other servers, and those outside any rollout, are not changed.
    """
    url = request.url
    named = headers(f"{url.scheme}://{url.netloc.decode()}")  # a query may hold a key
    if named:
        request.headers.update(named)
    else:  # a redirect repeats the headers of the request before it
        request.headers.pop(KEY_HEADER, None)
    return _DONE


def headers(url: str) -> dict[str, str]:
    """Return the header that names the current rollout in a call to this URL.

    For clients that take headers per call and no hook. Empty outside any rollout, and for other
    servers than the service.
    """
    rollout = current.get()
    return {} if rollout is None else key_header(url, rollout)


def key_header(url: str, rollout: Keyed, *, service: str | None = None) -> dict[str, str]:
    """Return the header that names a rollout in a call to this URL; empty for other servers.

    Whatever sends a rollout's key asks here: it goes to the service's own host only.

    Arguments:
        service: the service's address; by default ``TRUEZERO_URL``, else ``DEFAULT_URL``.
    """
    return {KEY_HEADER: rollout.key} if is_service(url, rollout, service=service) else {}


def is_service(url: str, rollout: Keyed | None = None, *, service: str | None = None) -> bool:
    """Return True if a URL is the service's, as this process or the rollout's agent reaches it."""
    # To look where a key would go is not to take it.
    watched = rollout.rollout if isinstance(rollout, WatchedIdentity) else rollout
    known = [] if watched is None else list(watched.base_urls.values())
    known.append(service or os.environ.get("TRUEZERO_URL") or DEFAULT_URL)
    origin = _origin_of(url)
    return origin is not None and any(_origin_of(base) == origin for base in known)


def carry(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with the rollout that is current now, for any thread that calls it.

    ``pool.map(truezero.carry(ask), prompts)``, ``Thread(target=truezero.carry(work))``; any
    number of calls may run at once. Not for functions that return before they ask: coroutine
    functions and generators.
    """
    rollout = current.get()

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        token = current.set(rollout)
        try:
            return function(*args, **kwargs)
        finally:
            current.reset(token)

    return run


@lru_cache(maxsize=256)
def _origin_of(url: str) -> _Origin | None:
    """Return scheme, host and port of a URL; None if it has none that a client could call."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    name = "localhost" if host in _LOOPBACK else host
    return (parts.scheme, name, port or _PORTS.get(parts.scheme)) if name else None
