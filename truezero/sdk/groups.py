"""The groups of a batch as they settle, from its event stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from truezero import models
from truezero.sdk import endpoints
from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event
from truezero.sdk.steps import Story


class SettledGroups:
    """Asks for the groups that have settled, once each time they do.

    Those that have already are asked for at the first sign that the stream is open, so that
    none is missed in between.
    """

    def __init__(
        self, batch: str, *, method: models.AdvantageMethod = "grpo", min_valid: int = 2
    ) -> None:
        self._batch = batch
        self._method: models.AdvantageMethod = method
        self._min_valid = min_valid
        self._open = False
        self._counted: dict[str, list[str]] = {}

    def wants(self, event: Event) -> bool:
        """Whether groups are to be asked for after this event; alive ones count."""
        return not self._open or event.kind == "group_settled"

    def after(self, event: Event) -> Story[list[models.Group]]:
        """Return the groups that have settled since the event before."""
        task = event.data["task"] if self._open else None
        self._open = True
        found = yield from endpoints.groups(
            self._batch, method=self._method, min_valid=self._min_valid, settled=True, task=task
        )
        return [group for group in found if self._is_new(group)]

    def _is_new(self, group: models.Group) -> bool:
        """Whether other rollouts count than when it settled before."""
        before = self._counted.get(group.task)
        self._counted[group.task] = group.rollout_ids
        return before != group.rollout_ids


@contextmanager
def unless_unknown() -> Iterator[None]:
    """Go on where the batch has no rollout yet, and so no group."""
    try:
        yield
    except ServiceError as error:
        if error.code != "unknown_batch":
            raise
