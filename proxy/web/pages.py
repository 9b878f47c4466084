"""The routes of the dashboard. No page shows a prompt or a key."""

from __future__ import annotations

from secrets import token_hex

from fastapi import Request, Response

from proxy.api.auth import COOKIE, LIFE_S, SIGN_IN, session_of
from proxy.control.queries import run_in_thread
from proxy.routing.errors import Refusal
from proxy.web import batch_pages, list_pages, render, rollout_page, upstream_pages
from proxy.web.context import (
    Context,
    Name,
    form_fields,
    page_router,
    problem,
    redirect,
)

router = page_router()
router.routes += [
    *batch_pages.router.routes,
    *list_pages.router.routes,
    *rollout_page.router.routes,
    *upstream_pages.router.routes,
]


@router.get(SIGN_IN)
async def _sign_in_form(context: Context, request: Request, next: str = "/") -> Response:
    signed_in = context.auth.sessions.holds(
        session_of(request.scope["headers"]), context.service.now()
    )
    if context.auth.token is None or signed_in:
        return redirect(_own_path(next))
    return await _sign_in_page(next)


@router.post(SIGN_IN)
async def _sign_in(context: Context, request: Request) -> Response:
    fields = await form_fields(request)
    back = fields.get("next", "/")
    if not await context.may_sign_in(fields.get("token", "").strip()):
        return await _sign_in_page(back, status=403, wrong=True)
    response = redirect(_own_path(back))
    _set_session(
        response, context.auth.sessions.issue(context.service.now(), token_hex(8)), request
    )
    return response


@router.post("/ui/sign-out")
async def _sign_out(context: Context, request: Request) -> Response:
    context.check_form(request, await form_fields(request))
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


@router.get("/ui/static/{name}")
async def _static(name: Name) -> Response:
    file = render.static(name)
    return file if file is not None else await problem(404, "no such file")


@router.get("/ui/{rest:path}")
async def _nothing(rest: Name) -> Response:
    raise Refusal(404, "not_found", "no such page")


def _own_path(path: str) -> str:
    """Return the path to open after signing in: one of ours, never of another origin."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if inside and path.isprintable() else "/"
