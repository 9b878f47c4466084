"""The context of every page, and the parts that pages share: errors, forms, times."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from pydantic import BeforeValidator

from proxy.api import problems
from proxy.api.auth import ControlAuth, session_of
from proxy.api.problems import Address, of_app
from proxy.control.listing import near_names
from proxy.control.queries import Service, path_of, run_in_thread
from proxy.routing.errors import Refusal
from proxy.web import format, panels, render
from proxy.web.compression import compress
from proxy.web.panels import (
    BatchAction,
    BatchMark,
    LaneColumn,
    NavigationItem,
    Panel,
    PanelPlace,
    ShownPanel,
)
from truezero.models.batches import Moment

# --- context and routes ------------------------------------------------------------------------


Number = Annotated[int, Query(ge=1, le=1_000_000)]
Name = Annotated[str, Path()]
Text = Annotated[str, Query(max_length=200)]


class PageSharing(Protocol):
    """Makes a page once for several browsers that fetch it."""

    async def page(
        self, request: Request, make: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Return a page that ``make`` made for this request, or for one like it."""
        ...


class PageRoute(APIRoute):
    """A route whose errors are pages too; it compresses pages, and may share them."""

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
            pages: PageContext | None = getattr(request.app.state, "pages", None)
            if pages is None or pages.sharing is None or request.method != "GET":
                return await compressed(request)
            return await pages.sharing.page(request, compressed)

        return shared


_LISTS = (
    NavigationItem("batches", "/", "Batches"),
    NavigationItem("rollouts", "/ui/rollouts", "Rollouts"),
)
_UPSTREAMS = NavigationItem("upstreams", "/ui/upstreams", "Upstreams")


@dataclass(frozen=True, slots=True)
class PageContext:
    """The context of every page.

    ``address`` is the base URL handed to agents; ``panels``, ``navigation``, ``batch_actions``,
    ``batch_marks``, ``lane_columns``, ``head`` and ``sharing`` are those of features, as
    `proxy.plane.Plane` says.
    """

    service: Service
    auth: ControlAuth
    address: Address
    version: str
    registration_required: bool
    panels: Sequence[Panel] = ()
    navigation: Sequence[NavigationItem] = ()
    batch_actions: Sequence[BatchAction] = ()
    batch_marks: Sequence[BatchMark] = ()
    lane_columns: Sequence[LaneColumn] = ()
    head: Sequence[str] = ()
    sharing: PageSharing | None = None

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
            head=self.head,
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
    _, _, kind, name, *_ = [*request.url.path.split("/", 3), "", ""]
    near: Sequence[str] = ()
    if status == 404 and kind in ("batches", "rollouts") and name:
        near = await near_names(pages.service, kind, name)
        detail = detail.partition("; did you mean")[0]
    named = {
        "status": status, "code": status, "detail": detail, "incident": incident,
        "near": [(each, path_of(kind, each)) for each in near],
    }  # fmt: skip
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
