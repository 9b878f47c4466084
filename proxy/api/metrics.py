"""`GET /metrics`, for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from proxy.api.routes import PROBLEMS
from proxy.api.state import Exposition

metrics_router = APIRouter(responses={401: PROBLEMS[401]})


@metrics_router.get(
    "/metrics", tags=["service"], response_class=PlainTextResponse, operation_id="get_metrics"
)
def metrics(exposition: Exposition, accept: Annotated[str, Header()] = "") -> Response:
    """Get metrics for Prometheus.

    In its text format, or as OpenMetrics by `Accept`. docs/operations/observability.md lists
    them.
    """
    text, content_type = exposition(accept)
    return Response(text, headers={"content-type": content_type})
