"""The rule of drilled rollouts: which of an agent's calls the rollout's fault meets."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from classifier.records import Kind
from proxy.features.drills.faulty_origin import FaultyOrigin
from proxy.features.drills.store import Drills
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
        """Count a call of a drilled agent; return what answers it if its fault meets it."""
        if target.role != AGENT or routes.route(method, target.path).kind is not Kind.INFERENCE:
            return None
        try:
            call = await asyncio.to_thread(self._drills.next_call, target.rollout_id)
        except StoreError:
            return None
        met = met_by(fault, call)
        if met is None:
            return None
        return FaultyOrigin(met, method=method, path=target.path, query=target.query)

    def hold(self, _fault: Fault, _target: Target, _method: str) -> None:
        """Hold no call."""


def met_by(fault: Fault, call: int) -> Fault | None:
    """Return what befalls the agent's inference call of this number, counted from 1.

    Of a replay, that is the one call to play.
    """
    if not _strikes(fault, call):
        return None
    if fault.kind != "replay":
        return fault
    played = fault.calls[min(call, len(fault.calls)) - 1]
    return None if played.passed_on else fault.model_copy(update={"calls": [played]})


def _strikes(fault: Fault, call: int) -> bool:
    offset = call - (fault.at_call or 1)
    failures, rest = divmod(offset, fault.every or 1)
    return offset >= 0 and rest == 0 and (fault.times is None or failures < fault.times)
