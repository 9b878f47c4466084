"""The route that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from proxy.api.problems import PROBLEMS, of_app
from proxy.plane import Plane

# Maps an `Accept` header to the metrics and their content type; called in a thread.
Exposition = Annotated[Callable[[str], tuple[bytes, str]], of_app("exposition")]

router = APIRouter(responses={401: PROBLEMS[401]})


@router.get(
    "/metrics", tags=["service"], response_class=PlainTextResponse, operation_id="get_metrics"
)
def metrics(exposition: Exposition, accept: Annotated[str, Header()] = "") -> Response:
    """Get metrics for Prometheus.

    In its text format, or as OpenMetrics by `Accept`. docs/operations/observability.md lists
    them.
    """
    text, content_type = exposition(accept)
    return Response(text, headers={"content-type": content_type})


PLANE = Plane(routes=router.routes)
