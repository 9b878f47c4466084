"""The part of pace on pages: the calls that wait for their turn, under their upstream's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.control.queries import Service
from proxy.features.pace.shares import PaceShares, WaitingCalls
from proxy.plane import Plane
from proxy.web.panels import Panel, PanelPlace


async def waiting_calls(service: Service, _name: str = "") -> Mapping[str, Sequence[WaitingCalls]]:
    """List the calls that wait for their turn in any process, by upstream."""
    shares = PaceShares(service.database.connections)
    listed: dict[str, list[WaitingCalls]] = {}
    for each in await service.run(shares.waiting, now=service.now()):
        listed.setdefault(each.upstream, []).append(each)
    return listed


PLANE = Plane(
    panels=[Panel(place=PanelPlace.UPSTREAM, template="pace/waiting.html", read=waiting_calls)]
)
