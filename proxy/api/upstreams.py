"""The REST route of how upstreams do."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Response

from proxy.api.routes import PROBLEMS
from proxy.api.state import Services
from proxy.control.queries import run_in_thread
from truezero import models
from truezero.models.lists import Moment

upstreams_router = APIRouter(responses=PROBLEMS)


@upstreams_router.get(
    "/upstreams",
    response_model=models.UpstreamReport,
    tags=["service"],
    operation_id="get_upstreams",
)
async def report(
    services: Services,
    since: Annotated[
        Moment | None, Query(description="seconds since the epoch; an hour ago by default")
    ] = None,
) -> Response:
    """Report how upstreams did, by model, by key and over time.

    Every ended call that began in the window is counted; latencies and keys stand on a
    sample of inference calls.
    """
    found = (await services.pages.upstreams.report(since)).to_dict()
    content = await run_in_thread(orjson.dumps, found)
    return Response(content, media_type="application/json")
