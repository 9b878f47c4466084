"""Live pages: after a change, a page is rendered once for all browsers that fetch it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from proxy.api.auth import session_of
from proxy.control.queries import counted
from proxy.features.live.changes import ChangeFeed, PageChange, PageScope
from proxy.web import render
from proxy.web.compression import accepts_gzip
from proxy.web.context import Context, Text, page_router

_HEADERS = {**render.HEADERS, "x-accel-buffering": "no"}

CHANGE_HEADER = "x-truezero-change"  # the token of the change for which a page is fetched
_CACHED = 16  # pages; some are 200 kB


class _Made(NamedTuple):
    began: float
    page: asyncio.Task[Response]


class LivePages:
    """Keeps the latest pages fetched for a change, one for each URL, session and encoding.

    Arguments:
        changes: announces changes to open pages.
    """

    def __init__(self, changes: ChangeFeed) -> None:
        self.changes = changes
        self._made: dict[tuple[str, str, bool], _Made] = {}

    async def page(
        self, request: Request, make: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Return a page whose rendering began after the change for which it is fetched.

        Without a change that this process announced, it is made for the request alone.
        """
        announced_at = self.changes.announced_at(request.headers.get(CHANGE_HEADER, ""))
        if announced_at is None:
            return await make(request)
        session = session_of(request.scope["headers"])
        key = str(request.url), session, accepts_gzip(request)
        made = self._made.get(key)
        if made is None or made.began < announced_at or _failed(made.page):
            made = _Made(self.changes.clock(), asyncio.create_task(self._make(request, make)))
            self._made.pop(key, None)
            self._made[key] = made
            if len(self._made) > _CACHED:
                del self._made[next(iter(self._made))]
        return await asyncio.shield(made.page)

    async def _make(
        self, request: Request, make: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        with counted() as cost:
            try:
                return await make(request)
            finally:
                self.changes.took(cost.seconds)


def _failed(page: asyncio.Task[Response]) -> bool:
    if not page.done():
        return False
    return page.cancelled() or page.exception() is not None or page.result().status_code >= 500


# --- the stream that open pages follow ---------------------------------------------------------


router = page_router()


@router.get("/ui/live")
async def _live(context: Context, batch: Text = "", rollout: Text = "") -> StreamingResponse:
    pages = context.sharing
    assert isinstance(pages, LivePages), "another feature shares pages"
    changes = pages.changes.follow(PageScope(batch or None, rollout or None))
    return StreamingResponse(_as_sse(changes), media_type="text/event-stream", headers=_HEADERS)


async def _as_sse(changes: AsyncIterator[PageChange]) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async for change in changes:
        event = f"event: {change.kind}\ndata: {change.token}\n\n"
        yield event.encode() if change.kind else b": alive\n\n"
