"""Pages that are open live and are fetched again: made once for all that were told of a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from fastapi import Request, Response

from proxy.api.auth import session_of
from proxy.control.live import PageChanges
from proxy.control.queries import counted

CHANGE_HEADER = "x-truezero-change"  # the token of the change for which a page is fetched
_KEPT = 16  # pages; some are 200 kB


class _Made(NamedTuple):
    began: float
    page: asyncio.Task[Response]


class LivePages:
    """Keeps the latest pages that were fetched for a change, one for each URL and session."""

    def __init__(self, changes: PageChanges) -> None:
        self._changes = changes
        self._made: dict[tuple[str, str], _Made] = {}

    async def page(
        self, request: Request, make: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Return a page that was begun after the change for which it is fetched.

        Without a change that this process told, it is made for the request alone.
        """
        told_at = self._changes.told_at(request.headers.get(CHANGE_HEADER, ""))
        if told_at is None:
            return await make(request)
        key = str(request.url), session_of(request.scope["headers"])
        made = self._made.get(key)
        if made is None or made.began < told_at or _failed(made.page):
            made = _Made(self._changes.clock(), asyncio.create_task(self._make(request, make)))
            self._made.pop(key, None)
            self._made[key] = made
            if len(self._made) > _KEPT:
                del self._made[next(iter(self._made))]
        return await asyncio.shield(made.page)

    async def _make(
        self, request: Request, make: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        with counted() as cost:
            try:
                return await make(request)
            finally:
                self._changes.took(cost.seconds)


def _failed(page: asyncio.Task[Response]) -> bool:
    if not page.done():
        return False
    return page.cancelled() or page.exception() is not None or page.result().status_code >= 500
