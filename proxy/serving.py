"""The part of a feature where the service is started, before and around its processes.

`proxy.feature` says what a feature is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache

from proxy.feature import modules
from proxy.inbound.http import HttpProtocol


class StartError(Exception):
    """The service cannot start; one sentence says why.

    ``exit_code`` is 2 for what is set wrongly, as with settings that cannot be read.
    """

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


ProtocolOf = Callable[..., asyncio.Protocol]
"""Makes the protocol of a connection, from what uvicorn hands to each; workers get it pickled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionServer:
    """A server of the connections of agents and runners.

    ``scheme``: of the service's own URLs. ``protocol``: returns the protocol of each connection;
    raises StartError if it cannot be served.
    """

    scheme: str
    protocol: Callable[[], ProtocolOf]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPart:
    """The part of one feature.

    ``check``: checks the settings before anything is started; raises StartError.
    ``connections``: returns what serves them by these settings; None leaves them to others.
    ``processes``: entered around the processes of a service that has several; may change the
    environment that they inherit.
    """

    check: Callable[[object], None] | None = None
    connections: Callable[[object], ConnectionServer | None] | None = None
    processes: Callable[[MutableMapping[str, str]], AbstractContextManager[None]] | None = None


@cache
def servings() -> list[ServingPart]:
    """Import what features add, in their order."""
    return [module.SERVING for _, module in modules("serving")]


def check(settings: object) -> None:
    """Check the settings as features do.

    Raises:
        StartError: one cannot be served.
    """
    for each in servings():
        if each.check is not None:
            each.check(settings)


def connections(settings: object) -> ConnectionServer:
    """Return what serves connections by these settings: a feature, else plain HTTP."""
    for each in servings():
        if each.connections is not None and (found := each.connections(settings)) is not None:
            return found
    return ConnectionServer(scheme="http", protocol=lambda: HttpProtocol)


@contextmanager
def around_processes(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Enter what features have around the processes of a service that has several."""
    with ExitStack() as entered:
        for each in servings():
            if each.processes is not None:
                entered.enter_context(each.processes(environment))
        yield
