"""The fault that a rollout is registered with."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from proxy.store.rollouts import PreparedRegistration
from truezero import models

FIELDS = ("fault",)


def prepare(_request: models.RolloutRequest) -> None:
    """Return nothing: the fault is an attribute of its rollout."""


class RegisteredFaults:
    """The rollouts of one transaction that are drilled."""

    def __init__(
        self,
        _connection: Connection,
        registrations: Sequence[PreparedRegistration],
        _now: float,
    ) -> None:
        named = [each.registration for each in registrations]
        self._drilled = {each.id for each in named if each.fault is not None}

    def refuses(self, _prepared: PreparedRegistration) -> None:
        """Refuse nothing."""

    def differs(self, _prepared: PreparedRegistration) -> bool:
        """Return False: attributes are compared as such."""
        return False

    def take(self, _prepared: PreparedRegistration) -> None:
        """Store nothing beside attributes."""

    def write(self) -> None:
        """Do nothing, likewise."""

    def rules(self, rollout_id: str) -> bool:
        """Return True if a rollout is drilled."""
        return rollout_id in self._drilled

    def skips(self, _prepared: PreparedRegistration) -> None:
        """Skip none."""


begin = RegisteredFaults
