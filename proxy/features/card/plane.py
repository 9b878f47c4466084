"""The part of cards in REST, their page, and the link to it on the page of a batch."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response

from classifier.card import card_bytes
from proxy.api import problems
from proxy.api.gone import gone
from proxy.api.problems import BATCH, PROBLEMS
from proxy.control.queries import Service, path_of, run_in_thread
from proxy.features.card.card import make_card
from proxy.features.card.printed import card_page, printable
from proxy.plane import Plane
from proxy.routing.errors import Refusal
from proxy.web.context import Context, Name, page_router
from proxy.web.panels import Panel, PanelPlace
from truezero import models

router = APIRouter(responses=PROBLEMS, tags=["batches"])
pages = page_router()

# A call of 0.2.0: its method, its path, and what takes its place.
GONE = (
    "POST",
    "/batches/{batch:path}/card/disclosure",
    "a card names the digest of its export, which `truezero card verify` checks",
)


async def refuse_events(accept: Annotated[str, Header(include_in_schema=False)] = "") -> None:
    """Refuse the events of a card in the making.

    Raises:
        Refusal: 410 for `Accept: text/event-stream`.
    """
    if "text/event-stream" in accept:
        raise Refusal(410, "gone", "a card has no events any more: ask for it as application/json")


_CARD: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/html": {"schema": {"type": "string"}, "example": "the card as one page"},
            "image/svg+xml": {"schema": {"type": "string"}, "example": "a badge"},
        },
        "description": "OK",
    }
}


@router.get(
    "/batches/{batch:path}/card",
    response_model=models.MeasurementCard,
    responses=_CARD,
    dependencies=[Depends(refuse_events)],
    operation_id="get_card",
)
async def card(
    service: problems.Service,
    batch: Annotated[str, BATCH],
    harness: Annotated[
        str | None, Query(max_length=200, description="name and version of what ran the agents")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Get a batch's measurement card: what its score stands on.

    Canonical JSON (RFC 8785): the batch's summary, rendered. `truezero card show --json` adds the
    digest of the batch's export, `truezero card verify` makes the card again of it offline.
    `Accept: text/html` gets a page to print, `image/svg+xml` a badge.
    """
    made = await make_card(service, batch, harness=harness)
    shown = await run_in_thread(card_page, made, accept)
    if shown is not None:
        return shown
    content = await run_in_thread(card_bytes, made)
    return Response(content, media_type="application/json", headers={"vary": "accept"})


@pages.get("/ui/batches/{batch:path}/card")
async def _page(context: Context, batch: Name) -> Response:
    return await run_in_thread(printable, await make_card(context.service, batch))


async def _link(_service: Service, batch: str) -> str:
    return path_of("batches", batch) + "/card"


PLANE = Plane(
    routes=[*gone([GONE]).routes, *router.routes, *pages.routes],
    panels=[Panel(place=PanelPlace.BATCH_CHECK, template="card/link.html", read=_link)],
)
