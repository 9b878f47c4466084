"""The work of drills in a process: to answer calls in the provider's place."""

from __future__ import annotations

from proxy.features.drills.rule import DrilledCalls
from proxy.features.drills.store import Drills
from proxy.parts import Parts, Started


def start(parts: Parts) -> Started:
    """Play faults to the agents of drilled rollouts."""
    return Started(rule=DrilledCalls(Drills(parts.database.connections)))
