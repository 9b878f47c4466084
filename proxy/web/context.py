"""The context of every page, and the parts that pages share: errors, live updates, forms, times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from pydantic import BeforeValidator

from proxy.api import problems
from proxy.api.auth import ControlAuth, session_of
from proxy.api.problems import Address, of_app
from proxy.control.live import ChangeFeed
from proxy.control.queries import Service, counted, run_in_thread
from proxy.routing.errors import Refusal
from proxy.web import format, panels, render
from proxy.web.compression import accepts_gzip, compress
from proxy.web.panels import BatchAction, NavigationItem, Panel, PanelPlace, ShownPanel
from truezero.models.batches import Moment

# --- live pages --------------------------------------------------------------------------------
# A page is made once for all browsers that fetch it for the same change.


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
        """Return a page that was begun after the change for which it is fetched.

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


# --- context and routes ------------------------------------------------------------------------


Number = Annotated[int, Query(ge=1, le=1_000_000)]
Name = Annotated[str, Path()]
Text = Annotated[str, Query(max_length=200)]


class PageRoute(APIRoute):
    """A route whose errors are pages too, whose live pages are made once for a change, and gzip."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, with errors rendered."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except Refusal as refusal:
                return await _problem(request, refusal.status, refusal.detail)
            except RequestValidationError:
                return await _problem(request, 422, "invalid query parameter")
            except Exception as error:  # of any kind; the log has it
                incident = problems.note_unexpected(error)
                return await _problem(request, 500, "this page failed", incident)

        async def compressed(request: Request) -> Response:
            return await compress(await handled(request), request)

        async def shared(request: Request) -> Response:
            if CHANGE_HEADER not in request.headers or request.method != "GET":
                return await compressed(request)
            live: LivePages = request.app.state.pages.live
            return await live.page(request, compressed)

        return shared


_LISTS = (
    NavigationItem("batches", "/", "Batches"),
    NavigationItem("rollouts", "/ui/rollouts", "Rollouts"),
)
_UPSTREAMS = NavigationItem("upstreams", "/ui/upstreams", "Upstreams")


@dataclass(frozen=True, slots=True)
class PageContext:
    """The context of every page.

    ``address`` is the base URL handed to agents; ``panels``, ``navigation`` and ``batch_actions``
    are those of features.
    """

    service: Service
    auth: ControlAuth
    address: Address
    version: str
    live: LivePages
    registration_required: bool
    panels: Sequence[Panel] = ()
    navigation: Sequence[NavigationItem] = ()
    batch_actions: Sequence[BatchAction] = ()

    @property
    def links(self) -> Sequence[NavigationItem]:
        """The links of every page's head: the kernel's, with those of features between them."""
        return (*_LISTS, *self.navigation, _UPSTREAMS)

    async def page(self, template: str, request: Request, here: str, **values: Any) -> Response:
        """Render a page with navigation; ``here`` is its entry there.

        It is rendered in a thread: a hundred rows would delay agents' bytes.
        """
        session = session_of(request.scope["headers"])
        return await run_in_thread(
            render.page,
            template,
            here=here,
            navigation=self.links,
            now=self.service.now(),
            version=self.version,
            guarded=self.auth.token is not None,
            form_token=self.auth.sessions.form_token(session),
            **values,
        )

    async def shown(self, place: PanelPlace, name: str = "") -> list[ShownPanel]:
        """Return the panels that one place shows now.

        Arguments:
            name: whose, as `PanelPlace` says.
        """
        return await panels.shown(self.panels, place, self.service, name)

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
        now = self.service.now()
        if self.auth.sessions.holds(session, now):
            name, ends = self.auth.sessions.end(session)
            end_session = self.service.database.deployment.end_session
            await self.service.run(end_session, name, ends=ends, now=now)

    async def may_sign_in(self, secret: str) -> bool:
        """Return True for the admin token, and once for the secret of a printed link."""
        if self.auth.opens(secret.encode()):
            return True
        now = self.service.now()
        link = self.auth.sessions.invited(secret, now)
        if link is None:
            return False
        name, ends = link
        use_link = self.service.database.deployment.use_link
        return await self.service.run(use_link, name, ends=ends, now=now)


Context = Annotated[PageContext, of_app("pages")]


def page_router() -> APIRouter:
    """Make a router of pages."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


async def problem(status: int, detail: str, incident: str | None = None) -> Response:
    """Render a page that names a problem; ``incident`` is the id of the log's line."""
    return await run_in_thread(
        render.page, "problem.html", status, code=status, detail=detail, incident=incident
    )


async def _problem(
    request: Request, status: int, detail: str, incident: str | None = None
) -> Response:
    """Render the same with navigation, unless it would only lead to the sign-in."""
    pages: PageContext | None = getattr(request.app.state, "pages", None)
    if pages is None or not pages.auth.authorized(dict(request.scope)):
        return await problem(status, detail, incident)
    named = {"status": status, "code": status, "detail": detail, "incident": incident}
    return await pages.page("problem.html", request, "problem", **named)


def redirect(path: str) -> RedirectResponse:
    """Send a browser to a path of ours, by GET."""
    return RedirectResponse(path, 303, headers=dict(render.HEADERS))


# --- form fields -------------------------------------------------------------------------------
# Forms of other origins are refused.


_MAX_BYTES = 16_384


async def form_fields(request: Request) -> dict[str, str]:
    """Read a form's fields, the last value of each.

    Raises:
        Refusal: 403 for a form of another origin, 413 for one over 16 KiB.
    """
    if not same_origin(request):
        raise Refusal(403, "foreign_form", "form submitted from another origin")
    if int(request.headers.get("content-length") or 0) > _MAX_BYTES:
        raise Refusal(413, "form_too_large", f"form larger than {_MAX_BYTES} bytes")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BYTES:
            raise Refusal(413, "form_too_large", f"form larger than {_MAX_BYTES} bytes")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def same_origin(request: Request) -> bool:
    """Return True if the browser says that a page of ours sent the request.

    `Sec-Fetch-Site` (Fetch Metadata) holds also behind a proxy that rewrites Host; browsers
    omit it on plain HTTP, where Origin must name our host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


# --- time range: the last seconds, or one chosen in a chart ------------------------------------


# A field left empty asks for nothing.
Bound = Annotated[Moment | None, BeforeValidator(lambda given: given or None), Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From ``since`` to ``until`` in epoch seconds; ``until`` is None if it goes on.

    ``window`` is of its seconds, None if the range was chosen.
    """

    since: float
    until: float | None
    window: int | None

    @property
    def words(self) -> str:
        """Name it as ``the last 7 d``, or by its ends."""
        if self.window is not None:
            return f"the last {format.seconds(self.window)}"
        ends = "now" if self.until is None else format.moment(self.until)
        return f"{format.moment(self.since).removesuffix(' UTC')} to {ends}"

    @property
    def query(self) -> str:
        """The query of a page about it."""
        if self.window is not None:
            return urlencode({"window": self.window})
        return urlencode(self.named("since", "until"))

    def named(self, since: str, until: str) -> dict[str, str]:
        """Return its ends as parameters of these names, as forms and lists take them."""
        ends = {since: self.since, until: self.until}
        return {name: format.local(at) for name, at in ends.items() if at is not None}


def read_time_range(now: float, window: int, since: float | None, until: float | None) -> TimeRange:
    """Read the range that an address asks for; a range that has a begin wins over a window."""
    if since is None:
        return TimeRange(since=now - window, until=None, window=window)
    return TimeRange(since=since, until=until, window=None)
