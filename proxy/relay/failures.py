"""What a failed request to a provider means: how the call ended, and what its agent is told."""

from __future__ import annotations

from dataclasses import replace

from classifier.records import Ending
from proxy.outbound import errors
from proxy.routing.errors import Refusal, RefusalCode

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
    detail = f"no answer from upstream {upstream!r}: {error}"
    return ending, with_exchange(Refusal(status, code, detail), exchange_id)


def with_exchange(refusal: Refusal, exchange_id: str) -> Refusal:
    """Name in a refusal the exchange that it ended."""
    exchange = (b"x-truezero-exchange", exchange_id.encode())
    return replace(refusal, headers=(*refusal.headers, exchange))


def strange_status(status: int, exchange_id: str) -> Refusal:
    """Refuse to pass on a response whose status is none that ends an exchange."""
    detail = f"the upstream answered with status {status}"
    return with_exchange(Refusal(502, "upstream_disconnected", detail), exchange_id)
