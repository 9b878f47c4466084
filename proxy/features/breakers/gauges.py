"""The count of open breakers, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, select

from classifier.breakers import Phase, at
from proxy.features.breakers.store import decode_state
from proxy.features.breakers.tables import breakers
from proxy.store.statistics import StoredGauge


def counts(connection: Connection, now: float) -> Mapping[str, int]:
    """Count open and half-open breakers by the phase that they have now."""
    query = select(breakers.c.state).where(breakers.c.state.like('%"phase":"%open"%'))
    states = [decode_state(state) for state in connection.execute(query).scalars()]
    phases = Counter(at(state, now).phase for state in states)
    return {phase.value: phases[phase] for phase in (Phase.OPEN, Phase.HALF_OPEN)}


GAUGES = (StoredGauge("truezero_breakers", "Lanes by the phase of their breaker", "phase", counts),)
