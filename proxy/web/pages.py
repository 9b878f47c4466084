"""The routes of the dashboard. No page shows a prompt or a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from secrets import token_hex

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from proxy.api.auth import SIGN_IN, ControlAuth, session_of
from proxy.api.routes import Address
from proxy.api.sessions import COOKIE, LIFE_S
from proxy.control.dashboard import PageChange
from proxy.control.services import ControlServices
from proxy.control.threads import run_in_thread
from proxy.web import (
    batch_pages,
    causes_page,
    explore_page,
    find_page,
    forms,
    render,
    rollout_page,
    sign_in_links,
    upstreams_page,
)
from proxy.web.context import (
    Name,
    PageContext,
    PageRoute,
    Text,
    problem,
    redirect,
)

_LIVE = {**render.HEADERS, "x-accel-buffering": "no"}


def router(
    services: ControlServices, auth: ControlAuth, address: Address, *, version: str
) -> APIRouter:
    """Make the routes of every page; ``address`` is the base URL handed to agents."""
    context = PageContext(services, auth, address, version)
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)
    batch_pages.add_batch_pages(routes, context)
    explore_page.add_explore_page(routes, context)
    rollout_page.add_rollout_pages(routes, context)
    causes_page.add_causes_page(routes, context)
    find_page.add_find_page(routes, context)
    upstreams_page.add_upstreams_page(routes, context)
    _live(routes, context)
    _sign_in(routes, context)
    _rest(routes)
    return routes


def _live(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/ui/live")
    async def live(batch: Text = "", rollout: Text = "") -> StreamingResponse:
        changes = context.dashboard.changes(batch=batch or None, rollout_id=rollout or None)
        stream = _as_sse(changes)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_LIVE)


async def _as_sse(changes: AsyncIterator[PageChange]) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async for change in changes:
        yield f"event: {change.kind}\ndata:\n\n".encode() if change.kind else b": alive\n\n"


def _sign_in(routes: APIRouter, context: PageContext) -> None:
    @routes.get(SIGN_IN)
    async def form(request: Request, next: str = "/") -> Response:
        signed_in = context.auth.sessions.holds(
            session_of(request.scope["headers"]), context.dashboard.now()
        )
        if context.auth.token is None or signed_in:
            return redirect(_own_path(next))
        return await _sign_in_page(next)

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        fields = await forms.fields(request)
        back = fields.get("next", "/")
        given = fields.get("token", "").strip()
        if not await sign_in_links.opens(context.auth, context.dashboard, given):
            return await _sign_in_page(back, status=403, wrong=True)
        response = redirect(_own_path(back))
        _set_session(
            response, context.auth.sessions.issue(context.dashboard.now(), token_hex(8)), request
        )
        return response

    @routes.post("/ui/sign-out")
    async def sign_out(request: Request) -> Response:
        context.check_form(request, await forms.fields(request))
        await context.sign_out(session_of(request.scope["headers"]))
        response = redirect(SIGN_IN)
        response.delete_cookie(COOKIE.decode(), path="/", httponly=True, samesite="strict")
        return response


async def _sign_in_page(back: str, *, status: int = 200, wrong: bool = False) -> Response:
    return await run_in_thread(
        render.page, "sign_in.html", status, next=_own_path(back), wrong=wrong
    )


def _set_session(response: Response, session: str, request: Request) -> None:
    """Set the cookie; Secure if the browser used HTTPS, also through a proxy."""
    origin = request.headers.get("origin", "")
    response.set_cookie(
        COOKIE.decode(),
        session,
        max_age=LIFE_S,
        path="/",
        secure=request.url.scheme == "https" or origin.startswith("https://"),
        httponly=True,
        samesite="strict",
    )


def _rest(routes: APIRouter) -> None:
    @routes.get("/docs")
    async def docs() -> Response:
        return await run_in_thread(render.docs)  # the first page loads the template engine, 30 ms

    @routes.get("/ui/static/{name}")
    async def static(name: Name) -> Response:
        file = render.static(name)
        return file if file is not None else await problem(404, "no such file")

    @routes.get("/ui/{rest:path}")
    async def nothing(rest: Name) -> Response:
        return await problem(404, "no such page")


def _own_path(path: str) -> str:
    """Return where to go after signing in: a path of ours, never another origin."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if inside and path.isprintable() else "/"
