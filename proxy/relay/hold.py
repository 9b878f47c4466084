"""The seam by which calls wait before they are sent: who holds one, and what that is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from classifier.records import Exchange
from proxy.capture.request import Call
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.wire.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRequest:
    """A request that is to be sent as soon as its holds let it go.

    ``model``: as it names it. ``body``: its agent's; that of a WebSocket's handshake is empty.
    """

    call: Call
    route: Route
    model: str | None
    body: bytes = b""


Then = Callable[[Refusal | None], None]
"""Called once with None as a request may be sent, or with why it is refused."""


class Ticket(Protocol):
    """A call's place with one hold, which is told of the call until that has ended.

    ``let_go``: the call may be sent. ``waited``: it had to wait for others before.
    """

    @property
    def let_go(self) -> bool: ...  # noqa: D102  see the class

    @property
    def waited(self) -> bool: ...  # noqa: D102  see the class

    def on_head(self, headers: Pairs) -> None:
        """Take the head of its answer."""
        ...

    def on_limits(self, event: Mapping[str, object]) -> None:
        """Take what a message of its WebSocket says of limits."""
        ...

    def on_end(self, exchange: Exchange, headers: Pairs, held_s: float) -> None:
        """Take that it ended, with the head of its answer, which is empty if none came."""
        ...

    def leave(self, then: Callable[[], None] | None = None) -> None:
        """Take that it will not be sent, or that nobody will tell how it ended.

        Arguments:
            then: called once, at once or as soon as is written what its verdict depends on.
        """
        ...


class Hold(Protocol):
    """Has calls wait before they are sent.

    ``may_refuse``: what it refuses is no call. It is on record only once it was let go.
    """

    @property
    def may_refuse(self) -> bool: ...  # noqa: D102  see the class

    def claims(self, upstream: str, method: str, route: Route) -> bool:
        """Return True if it holds calls like this one; asked once of each head that is planned.

        Arguments:
            method: as on the request line, or `routes.UPGRADE`.
        """
        ...

    def enter(self, request: HeldRequest, then: Then) -> Ticket:
        """Take a request; ``then`` is called later unless the ticket says that it is let go."""
        ...
