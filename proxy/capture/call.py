"""A call as the relay sends it: what is known before the provider answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from classifier.records import Attribution

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class Call:
    """One call as the relay sends it.

    ``path`` is raw, after the upstream, without the query. ``started_at`` is in seconds
    since the epoch, ``began`` the same moment on the monotonic clock of every ``at``.
    ``request_headers`` have lower-case names.
    """

    id: str
    rollout_id: str
    upstream: str
    method: str
    path: bytes
    started_at: float
    began: float
    request_headers: Headers = ()
    query: bytes = b""
    role: str = "agent"
    attribution: Attribution = Attribution.PATH
    key_digest: str | None = None
    injected: bool = False
