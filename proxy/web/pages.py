"""The routes of the dashboard.

Each asks once and shows; none reads a table or judges, and no prompt or key can be asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from secrets import token_hex
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, StreamingResponse
from fastapi.routing import APIRoute

from proxy.api.auth import SIGN_IN, ControlAuth, session_of
from proxy.api.routes import Address
from proxy.api.sessions import COOKIE, LIFE_S
from proxy.control.dashboard import WINDOWS_S, Dashboard, PageChange
from proxy.control.rollouts import RolloutService
from proxy.control.threads import run_in_thread
from proxy.routing.errors import Refusal
from proxy.web import charts, format, forms, render
from truezero import models

_ANY = dict.fromkeys(("batch", "health", "subcategory", "fingerprint"), "")
_LIVE = {**render.HEADERS, "x-accel-buffering": "no"}

Number = Annotated[int, Query(ge=1, le=1_000_000)]
Name = Annotated[str, Path()]
Text = Annotated[str, Query(max_length=200)]


class _PageRoute(APIRoute):
    """A route whose refusals are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except Refusal as refusal:
                return await _problem(refusal.status, refusal.detail)
            except RequestValidationError:
                return await _problem(422, "something in this address cannot be read")

        return handled


@dataclass(frozen=True, slots=True)
class _PageContext:
    """What every page needs."""

    overview: Dashboard
    desk: RolloutService
    guard: ControlAuth
    address: Address
    version: str

    async def shows(self, template: str, request: Request, here: str, **more: Any) -> Response:
        """A page inside the house's frame; ``here`` is its place in the navigation.

        It is filled in a thread: a hundred rows would hold up agents' bytes.
        """
        session = session_of(request.scope["headers"])
        return await run_in_thread(
            render.page,
            template,
            here=here,
            now=self.overview.now(),
            version=self.version,
            guarded=self.guard.token is not None,
            form_token=self.guard.sessions.form_token(session),
            **more,
        )

    def check_form(self, request: Request, fields: dict[str, str]) -> None:
        """Raise a Refusal where the form is not of a page of this session."""
        session = session_of(request.scope["headers"])
        if not self.guard.sessions.accepts(fields.get("form_token", ""), session):
            raise Refusal(403, "stale_form", "this form has grown old: reload the page it is on")

    async def sign_out(self, session: str) -> None:
        """End a session in every process."""
        if self.guard.sessions.holds(session, self.overview.now()):
            name, ends = self.guard.sessions.end(session)
            await self.desk.sign_out(name, ends=ends)


def router(
    overview: Dashboard, desk: RolloutService, guard: ControlAuth, address: Address, *, version: str
) -> APIRouter:
    """Every page; ``address`` is how agents reach us."""
    house = _PageContext(overview, desk, guard, address, version)
    routes = APIRouter(route_class=_PageRoute, include_in_schema=False)
    _batch_pages(routes, house)
    _rollout_pages(routes, house)
    _cause_pages(routes, house)
    _live(routes, house)
    _sign_in(routes, house)
    _rest(routes)
    return routes


def _batch_pages(routes: APIRouter, house: _PageContext) -> None:
    @routes.get("/")
    async def batches(request: Request, page: Number = 1) -> Response:
        found = await house.overview.batches(page)
        return await house.shows(
            "batches.html",
            request,
            "batches",
            page=found,
            alone=await house.overview.without_batch(),
            in_flight=await house.overview.in_flight(),
            address=house.address(request),
            live="",
        )

    @routes.get("/ui/batches/{batch:path}")
    async def batch(
        request: Request,
        batch: Name,
        q: Text = "",
        health: models.Health | Literal[""] = "",
        subcategory: models.Subcategory | Literal[""] = "",
        fingerprint: Text = "",
        page: Number = 1,
    ) -> Response:
        filters = _chosen(health=health, subcategory=subcategory, fingerprint=fingerprint)
        found = await house.overview.batch(batch)
        rollouts = await house.overview.rollouts(
            {**filters, "batch": batch}, search=q or None, number=page, fresh=True
        )
        timeline = await house.overview.timeline(batch)
        return await house.shows(
            "batch.html",
            request,
            "batches",
            batch=batch,
            **found,
            page=rollouts,
            chart=timeline and charts.chart(timeline),
            filters={**_ANY, **filters},
            q=q,
            query=urlencode(_chosen(q=q, **filters)),
            live=urlencode({"batch": batch}),
        )

    @routes.post("/ui/batches/{batch:path}/breaker/reset")
    async def reset(request: Request, batch: Name) -> Response:
        fields = await forms.fields(request)
        house.check_form(request, fields)
        await house.desk.reset_breaker(batch, lane=fields.get("lane") or None)
        return _see(render.path_of("batches", batch) + "#breakers")


def _rollout_pages(routes: APIRouter, house: _PageContext) -> None:
    @routes.get("/ui/rollouts")
    async def rollouts(
        request: Request,
        batch: Text = "",
        q: Text = "",
        health: models.Health | Literal[""] = "",
        subcategory: models.Subcategory | Literal[""] = "",
        fingerprint: Text = "",
        page: Number = 1,
    ) -> Response:
        filters = _chosen(
            batch=batch, health=health, subcategory=subcategory, fingerprint=fingerprint
        )
        found = await house.overview.rollouts(filters, search=q or None, number=page)
        return await house.shows(
            "rollouts.html",
            request,
            "rollouts",
            page=found,
            filters={**_ANY, **filters},
            q=q,
            query=urlencode(_chosen(q=q, **filters)),
            live="",
        )

    @routes.get("/ui/rollouts/{rollout_id:path}")
    async def rollout(
        request: Request,
        rollout_id: Name,
        after: Text = "",
        first: Number = 1,
    ) -> Response:
        found = await house.overview.rollout(rollout_id, after=after or None)
        verdict, calls = found["verdict"], found["calls"]
        stripes = charts.waterfall(
            calls["items"], verdict["evidence"], now=house.overview.now(), first=first
        )
        return await house.shows(
            "rollout.html",
            request,
            "rollouts",
            rollout_id=rollout_id,
            **found,
            sentence=format.sentence(verdict, found["outcome"]),
            stripes=stripes,
            first=first,
            live=urlencode({"rollout": rollout_id}),
        )


def _cause_pages(routes: APIRouter, house: _PageContext) -> None:
    @routes.get("/ui/fingerprints")
    async def fingerprints(request: Request) -> Response:
        items = await house.overview.fingerprints()
        most = max((item["rollouts"] for item in items), default=1)
        return await house.shows(
            "fingerprints.html", request, "fingerprints", items=items, most=most, live=""
        )

    @routes.get("/ui/upstreams")
    async def upstreams(
        request: Request, window: Annotated[int, Query(ge=60, le=7 * 86_400)] = WINDOWS_S[0]
    ) -> Response:
        items = await house.overview.upstreams(window)
        return await house.shows(
            "upstreams.html",
            request,
            "upstreams",
            items=items,
            window=window,
            windows=WINDOWS_S,
            live="",
        )


def _live(routes: APIRouter, house: _PageContext) -> None:
    @routes.get("/ui/live")
    async def live(batch: Text = "", rollout: Text = "") -> StreamingResponse:
        changes = house.overview.changes(batch=batch or None, rollout_id=rollout or None)
        stream = _as_sse(changes)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_LIVE)


async def _as_sse(changes: AsyncIterator[PageChange]) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async for change in changes:
        yield f"event: {change.kind}\ndata:\n\n".encode() if change.kind else b": alive\n\n"


def _sign_in(routes: APIRouter, house: _PageContext) -> None:
    @routes.get(SIGN_IN)
    async def form(request: Request, next: str = "/") -> Response:
        signed_in = house.guard.sessions.holds(
            session_of(request.scope["headers"]), house.overview.now()
        )
        if house.guard.token is None or signed_in:
            return _see(_own_path(next))
        return await _sign_in_page(next)

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        fields = await forms.fields(request)
        back = fields.get("next", "/")
        if not house.guard.opens(fields.get("token", "").strip().encode()):
            return await _sign_in_page(back, status=403, wrong=True)
        answer = _see(_own_path(back))
        _keep_session(
            answer, house.guard.sessions.issue(house.overview.now(), token_hex(8)), request
        )
        return answer

    @routes.post("/ui/sign-out")
    async def sign_out(request: Request) -> Response:
        house.check_form(request, await forms.fields(request))
        await house.sign_out(session_of(request.scope["headers"]))
        answer = _see(SIGN_IN)
        answer.delete_cookie(COOKIE.decode(), path="/", httponly=True, samesite="strict")
        return answer


async def _sign_in_page(back: str, *, status: int = 200, wrong: bool = False) -> Response:
    return await run_in_thread(
        render.page, "sign_in.html", status, next=_own_path(back), wrong=wrong
    )


def _keep_session(answer: Response, session: str, request: Request) -> None:
    """Set the cookie; Secure wherever the browser came by HTTPS, also through a proxy."""
    origin = request.headers.get("origin", "")
    answer.set_cookie(
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
        return await run_in_thread(
            render.docs
        )  # the first page of all loads what fills them in, 30 ms

    @routes.get("/ui/static/{name}")
    async def static(name: Name) -> Response:
        file = render.static(name)
        return file if file is not None else await _problem(404, "there is no such file")

    @routes.get("/ui/{rest:path}")
    async def nothing(rest: Name) -> Response:
        return await _problem(404, "there is no such page")


async def _problem(status: int, detail: str) -> Response:
    return await run_in_thread(render.page, "problem.html", status, code=status, detail=detail)


def _see(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, headers=dict(render.HEADERS))


def _own_path(path: str) -> str:
    """Where to go after signing in: a path of ours, never another origin's address."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if inside and path.isprintable() else "/"


def _chosen(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
