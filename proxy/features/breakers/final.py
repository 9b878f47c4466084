"""Breakers as final verdicts feed them, once a rollout, in the order in which those were given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from classifier import breakers
from classifier.breakers import BreakerState
from proxy.features.breakers.stakes import was_called
from proxy.features.breakers.store import states_of, store_states
from proxy.store.events import NewEvent
from proxy.store.verdicts import Judged


class FedBreakers:
    """The breakers of a verdict's batch, as `proxy.store.verdicts.FinalPart`."""

    reads = False

    def __init__(self, judged: Judged) -> None:
        self._judged = judged
        self._seen = was_called(judged)

    def read(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Read nothing: the breakers are as those before left them."""

    def write(self, connection: Connection, row: Mapping[str, Any]) -> Iterable[NewEvent]:
        """Store the breakers after the verdict; the events are of those that it opened."""
        _, verdict, policy, now, _ = self._judged
        states = states_of(connection, row["batch"])
        changed = breakers.feed(states, verdict, now=now, policy=policy, seen=self._seen)
        store_states(connection, changed)
        return [breaker_opened(state) for state in changed if state.opened_at == row["given_at"]]


def begin(judged: Judged | None) -> FedBreakers | None:
    """Return the part in the verdict of a batch's rollout; one that does not run feeds none."""
    return None if judged is None or judged.verdict.batch is None else FedBreakers(judged)


def breaker_opened(state: BreakerState) -> NewEvent:
    """Return the event of a breaker that opened on a verdict."""
    data = {
        "lane": state.lane,
        "fingerprint": state.fingerprint,
        "streak": state.streak,
        "tripped_by": list(state.tripped_by),
    }
    return NewEvent("breaker_opened", data)
