"""The part of OpenAPI in REST: the document, at `/openapi.json`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from proxy.control.queries import run_in_thread
from proxy.features.openapi.document import document_of
from proxy.plane import Plane

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    """Answer with the document of the request's application."""
    return JSONResponse(await run_in_thread(document_of, request.app))


PLANE = Plane(routes=router.routes)
