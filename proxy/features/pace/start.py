"""The work of pace in a process: to hold calls, and to renew the process's shares."""

from __future__ import annotations

import time

from proxy.features.pace.hold import PaceHold
from proxy.features.pace.leases import PaceLeases
from proxy.features.pace.pacer import Pacer
from proxy.features.pace.settings import PaceSettings, paced_upstreams
from proxy.features.pace.shares import PaceShares
from proxy.parts import NOTHING, Parts, Started


def start(parts: Parts) -> Started:
    """Have the calls of paced upstreams wait for their turn, if there are any."""
    settings = parts.settings_of(PaceSettings)
    given = paced_upstreams(
        settings.pace, [(name, each.options) for name, each in parts.upstreams.items()]
    )
    if not given:
        return NOTHING
    pacer = Pacer(
        given,
        clock=time.monotonic,
        wall=time.time,
        patience_s=settings.pace_patience_s,
        weights=settings.pace_weights,
        share=1 / parts.workers,
    )
    shares = PaceShares(parts.database.connections)
    leases = PaceLeases(shares, pacer, worker=parts.worker)
    return Started(hold=PaceHold(pacer), run=leases.run, stop=leases.stop)
