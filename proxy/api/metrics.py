"""`GET /metrics`: the numbers of the service, for Prometheus.

It counts nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from proxy.api.routes import PROBLEMS

Exposition = Callable[[str], tuple[bytes, str]]


def router(exposition: Exposition) -> APIRouter:
    """The one route.

    Arguments:
        exposition: from an `Accept` header to the numbers as text and that text's type; it is
            asked in a thread.
    """
    routes = APIRouter(responses={401: PROBLEMS[401]})

    @routes.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    def metrics(accept: Annotated[str, Header()] = "") -> Response:
        """Numbers for Prometheus, or in OpenMetrics where that is asked for."""
        text, content_type = exposition(accept)
        return Response(text, headers={"content-type": content_type})

    return routes
