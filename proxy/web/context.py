"""What every page needs: its context, errors as pages, and types of parameters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from proxy.api import problems
from proxy.api.auth import ControlAuth, session_of
from proxy.api.problems import Address, of_app
from proxy.control.dashboard import Dashboard
from proxy.control.queries import run_in_thread
from proxy.control.services import ControlServices
from proxy.routing.errors import Refusal
from proxy.web import render
from proxy.web.live_pages import CHANGE_HEADER, LivePages

Number = Annotated[int, Query(ge=1, le=1_000_000)]
Name = Annotated[str, Path()]
Text = Annotated[str, Query(max_length=200)]


class PageRoute(APIRoute):
    """A route whose errors are pages too, and whose live pages share what is made of a change."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, with errors rendered."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except Refusal as refusal:
                return await problem(refusal.status, refusal.detail)
            except RequestValidationError:
                return await problem(422, "invalid query parameter")
            except Exception as error:  # of any kind; the log has it
                return await problem(500, "this page failed", problems.note_unexpected(error))

        async def shared(request: Request) -> Response:
            if CHANGE_HEADER not in request.headers or request.method != "GET":
                return await handled(request)
            live: LivePages = request.app.state.pages.live
            return await live.page(request, handled)

        return shared


@dataclass(frozen=True, slots=True)
class PageContext:
    """What every page needs; ``address`` is the base URL handed to agents."""

    services: ControlServices
    auth: ControlAuth
    address: Address
    version: str
    live: LivePages

    @property
    def dashboard(self) -> Dashboard:
        """The data of pages."""
        return self.services.dashboard

    async def page(self, template: str, request: Request, here: str, **values: Any) -> Response:
        """Render a page with navigation; ``here`` is its entry there.

        It is rendered in a thread: a hundred rows would delay agents' bytes.
        """
        session = session_of(request.scope["headers"])
        return await run_in_thread(
            render.page,
            template,
            here=here,
            now=self.dashboard.now(),
            version=self.version,
            guarded=self.auth.token is not None,
            form_token=self.auth.sessions.form_token(session),
            **values,
        )

    def check_form(self, request: Request, fields: dict[str, str]) -> None:
        """Check that a form came from a page of this session.

        Raises:
            Refusal: 403 otherwise.
        """
        session = session_of(request.scope["headers"])
        if not self.auth.sessions.accepts(fields.get("form_token", ""), session):
            raise Refusal(403, "stale_form", "this form has expired; reload the page")

    async def sign_out(self, session: str) -> None:
        """End a session in every process."""
        if self.auth.sessions.holds(session, self.dashboard.now()):
            name, ends = self.auth.sessions.end(session)
            await self.dashboard.sign_out(name, ends=ends)


Context = Annotated[PageContext, of_app("pages")]


def page_router() -> APIRouter:
    """Make a router of pages."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


async def problem(status: int, detail: str, incident: str | None = None) -> Response:
    """Render a page that says what is wrong; ``incident`` is the id of the log's line."""
    return await run_in_thread(
        render.page, "problem.html", status, code=status, detail=detail, incident=incident
    )


def redirect(path: str) -> RedirectResponse:
    """Send a browser to a path of ours, by GET."""
    return RedirectResponse(path, 303, headers=dict(render.HEADERS))
