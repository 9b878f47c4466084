"""`GET /metrics`, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from proxy.api.routes import PROBLEMS

Exposition = Callable[[str], tuple[bytes, str]]


def router(exposition: Exposition) -> APIRouter:
    """Make the route.

    Arguments:
        exposition: maps an `Accept` header to the exposition and its content type; called in a
            thread.
    """
    routes = APIRouter(responses={401: PROBLEMS[401]})

    @routes.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    def metrics(accept: Annotated[str, Header()] = "") -> Response:
        """Get metrics for Prometheus.

        In its text format, or as OpenMetrics by `Accept`. docs/operations/observability.md lists
        them.
        """
        text, content_type = exposition(accept)
        return Response(text, headers={"content-type": content_type})

    return routes
