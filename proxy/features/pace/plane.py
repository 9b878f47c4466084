"""The part of pace on pages: the calls that wait for their turn, beside their key and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from classifier.fingerprints import Lane
from proxy.control.queries import Service
from proxy.features.pace.shares import PaceShares
from proxy.plane import Plane
from proxy.web import format
from proxy.web.panels import LaneColumn, LaneMark


async def waiting_calls(service: Service) -> Mapping[Lane, Sequence[LaneMark]]:
    """List the calls that wait for their turn in any process, by lane."""
    shares = PaceShares(service.database.connections)
    return {
        Lane(
            upstream=each.upstream,
            model=each.model or None,
            key=each.key.removeprefix("key-") or None,
        ): [LaneMark(f"{each.waiting:,}, longest {format.seconds(each.longest_s)}")]
        for each in await service.run(shares.waiting, now=service.now())
    }


PLANE = Plane(lane_columns=[LaneColumn("waiting", "Waiting for pace", waiting_calls)])
