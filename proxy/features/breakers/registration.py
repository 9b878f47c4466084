"""Rollouts that an open breaker does not admit, decided in the order of their registrations."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from classifier.breakers import BreakerState, admit
from classifier.records import RolloutRecord
from proxy.features.breakers.store import states_of, store_states
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import Registration
from truezero import models

FIELDS = ()


def prepare(_request: models.RolloutRequest) -> None:
    """Return nothing: no registration asks for a breaker."""


class Admissions:
    """Admits one transaction's rollouts in order, each by breakers as the last one left them."""

    def __init__(
        self,
        connection: Connection,
        _registrations: Sequence[PreparedRegistration],
        now: float,
    ) -> None:
        self._connection = connection
        self._now = now
        self._states: dict[str, list[BreakerState]] = {}

    def refuses(self, _prepared: PreparedRegistration) -> None:
        """Refuse nothing: a rollout that is not admitted is registered too."""

    def differs(self, _prepared: PreparedRegistration) -> bool:
        """Return False: a registration states no breaker."""
        return False

    def take(self, _prepared: PreparedRegistration) -> None:
        """Take nothing."""

    def write(self) -> None:
        """Write nothing before rollouts are registered."""

    def rules(self, _rollout_id: str) -> bool:
        """Return False: breakers admit rollouts, not calls."""
        return False

    def skips(self, prepared: PreparedRegistration) -> str | None:
        """Return which breaker does not admit a rollout; store those whose probe it becomes."""
        registration = prepared.registration
        if registration.batch is None:
            return None
        states = self._states.get(registration.batch)
        if states is None:
            states = self._states[registration.batch] = states_of(
                self._connection, registration.batch
            )
        decision = admit(_record(registration), states, now=self._now)
        if decision.changed:
            store_states(self._connection, decision.changed)
            del self._states[registration.batch]
        return decision.error


begin = Admissions


def _record(registration: Registration) -> RolloutRecord:
    return RolloutRecord(
        id=registration.id,
        batch=registration.batch,
        model=registration.model,
        upstream=registration.upstream,
    )
