"""What whoever runs the service is to notice: refused calls, and calls that name no rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.inbound.asgi import CauseLog, refused_calls, refused_requests
from proxy.routing.addresses import LocalNames
from proxy.routing.upstreams import Upstream

_LINE = (
    "a call names no rollout, so no verdict counts it; use the base URL /r/ROLLOUT/UPSTREAM/…, the "
    "header x-truezero-key or x-truezero-rollout. Upstream: "
)


class UnattributedCalls:
    """Lets calls in that name no rollout, counts them by upstream and logs them.

    Arguments:
        names: those of the service; a page of another site gets nothing.
    """

    def __init__(self, names: LocalNames, log: CauseLog | None = None) -> None:
        self._names = names
        self._log = log or CauseLog(_LINE)

    @property
    def counts(self) -> dict[str, int]:
        """How many calls to each upstream there were."""
        return self._log.counts

    def admit(self, upstream: Upstream, headers: Mapping[bytes, bytes]) -> None:
        """Let a call in.

        Raises:
            Refusal: 403, it comes from another site's page.
        """
        self._names.check(headers)
        self._log.note(upstream.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestNotices:
    """What is counted and logged of requests beside exchanges.

    ``refusals``: of agents' requests, ``control``: of the control plane's, both by code.
    ``unattributed``: None refuses calls that name no rollout.
    """

    refusals: CauseLog = field(default_factory=refused_calls)
    control: CauseLog = field(default_factory=refused_requests)
    unattributed: UnattributedCalls | None = None
