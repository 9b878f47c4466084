"""The work of drills in a process: to answer calls in the provider's place."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from classifier.records import Kind
from proxy.features.drills.faulty_origin import FaultyOrigin
from proxy.features.drills.store import Drills
from proxy.parts import Parts, Started
from proxy.routing.keys import AGENT
from proxy.routing.target import Target
from proxy.store.errors import StoreError
from proxy.wire import routes

if TYPE_CHECKING:
    from truezero.models import Fault


class DrilledCalls:
    """Plays a rollout's fault to its agent, as `proxy.relay.admission.RolloutRule`."""

    why_no_socket = "is drilled: its failures are played"

    def __init__(self, drills: Drills) -> None:
        self._drills = drills

    def look_up(self, rollout: Mapping[Any, Any]) -> Fault | None:
        """Return the fault of a rollout, if it has one."""
        from truezero.models import Fault  # noqa: PLC0415  the REST contract, 12 ms of a start

        return Fault.model_validate_json(rollout["fault"]) if rollout["fault"] else None

    def watched(self) -> Collection[str]:
        """Return the rollouts without an outcome that are drilled."""
        return self._drills.drilled()

    async def stand_in(self, fault: Fault, target: Target, method: str) -> FaultyOrigin | None:
        """Count a call of a drilled agent; what befalls it, if anything does."""
        if target.role != AGENT or routes.route(method, target.path).kind is not Kind.INFERENCE:
            return None
        try:
            call = await asyncio.to_thread(self._drills.next_call, target.rollout_id)
        except StoreError:
            return None
        met = fault.met_by(call)
        if met is None:
            return None
        return FaultyOrigin(met, method=method, path=target.path, query=target.query)

    def hold(self, _fault: Fault, _target: Target, _method: str) -> None:
        """Hold no call."""


def start(parts: Parts) -> Started:
    """Play faults to the agents of drilled rollouts."""
    return Started(rule=DrilledCalls(Drills(parts.database.connections)))
