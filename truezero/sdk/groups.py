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
    """Asks for the groups that have settled, once each time they do, until the batch has ended.

    Those that have already are asked for at the first sign that the stream is open, so that
    none is missed in between; all of them again when the batch ends, when each is final.
    """

    def __init__(
        self, batch: str, *, method: models.AdvantageMethod = "grpo", min_valid: int = 2
    ) -> None:
        self._batch = batch
        self._method: models.AdvantageMethod = method
        self._min_valid = min_valid
        self._open = False
        self._told: dict[str, tuple[int, bool, list[str]]] = {}
        self.ended = False

    def wants(self, event: Event) -> bool:
        """Whether groups are to be asked for after this event; alive ones count."""
        return not self._open or event.kind in ("group_settled", "batch_ended")

    def after(self, event: Event) -> Story[list[models.Group]]:
        """Return the groups that have settled since the event before."""
        task = event.data["task"] if self._open and event.kind == "group_settled" else None
        self._open = True
        pages = yield from self._pages(task)
        if task is not None and pages[-1].ended:
            pages = yield from self._pages(None)
            task = None
        self.ended = task is None and all(page.ended for page in pages)
        return [group for page in pages for group in page.items if self._is_new(group)]

    def _pages(self, task: str | None) -> Story[list[models.GroupPage]]:
        return endpoints.group_pages(
            self._batch, method=self._method, min_valid=self._min_valid, settled=True, task=task
        )

    def _is_new(self, group: models.Group) -> bool:
        """Whether it has settled anew, or become final, since it was told of before."""
        before = self._told.get(group.task)
        self._told[group.task] = group.revision, group.final, group.rollout_ids
        return before != self._told[group.task]


@contextmanager
def unless_unknown() -> Iterator[None]:
    """Go on where the batch has no rollout yet, and so no group."""
    try:
        yield
    except ServiceError as error:
        if error.code != "unknown_batch":
            raise
