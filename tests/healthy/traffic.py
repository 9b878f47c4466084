"""A healthy rollout as the proxy would see it: registration, calls as bytes, the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from classifier.records import Ending, Outcome

Json = dict[str, Any]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The tokens of one call; None where the provider states none.

    ``input`` includes what was read from a cache and written to it, ``output`` reasoning.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyCall:
    """One call: what was sent, what came, and when, in seconds of the rollout's clock.

    ``method`` is ``UPGRADE`` for the request that opens a WebSocket and ``WEBSOCKET`` for a
    call inside one: its body and each chunk are one message then. ``first_byte_s`` and
    ``status`` are None where no response came. Header names are in lower case.
    """

    upstream: str
    method: str = "POST"
    path: str
    query: str = ""
    request_headers: Pairs = ()
    body: bytes = b""
    status: int | None = 200
    response_headers: Pairs = ()
    chunks: tuple[bytes, ...] = ()
    start_s: float
    first_byte_s: float | None
    end_s: float
    ending: Ending = Ending.COMPLETE
    role: str = "agent"
    address: str = "127.0.0.1"
    meant: Meant | None = None  # None: the response states nothing to be counted


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyRollout:
    """One rollout. ``began`` is in seconds since the epoch; ``situation`` names its story."""

    id: str
    batch: str
    task: str
    attempt: int
    model: str | None
    upstream: str | None
    fallbacks: tuple[str, ...] = ()
    lane: str
    situation: str
    traits: frozenset[str]
    began: float
    calls: tuple[HealthyCall, ...]
    outcome: Outcome
