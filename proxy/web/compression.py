"""Compression of pages and of the files that they load. Nothing that is relayed comes here.

A page that holds a secret beside text of a stranger's choice can leak the secret by its length
(BREACH, 2013). A stranger's page cannot fetch ours with a session: its cookie is `SameSite=Strict`.
"""

from __future__ import annotations

import gzip
import re

from fastapi import Request, Response

from proxy.control.queries import run_in_thread

_LEVEL = 5  # of 9, which takes a page of 240 kB from 8 kB to 7 in twice the time
_LEAST = 1000  # bytes; less fits in one packet anyway
_KINDS = ("text/", "image/svg+xml", "application/json")


def accepts_gzip(request: Request) -> bool:
    """Return True if a request's `Accept-Encoding` admits gzip (RFC 9110 §12.5.3)."""
    weights = {}
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = part.partition(";")
        weights[coding.strip()] = weight.replace(" ", "")
    weight = weights.get("gzip", weights.get("*", "q=0"))
    return re.fullmatch(r"q=0(\.0*)?", weight) is None


async def compress(response: Response, request: Request) -> Response:
    """Compress the body of a response, if it has one as a whole and the request admits gzip."""
    headers, body = response.headers, getattr(response, "body", b"")
    if len(body) < _LEAST or not headers.get("content-type", "").startswith(_KINDS):
        return response
    headers.add_vary_header("accept-encoding")
    if accepts_gzip(request) and "content-encoding" not in headers:
        response.body = await run_in_thread(gzip.compress, body, _LEVEL, mtime=0)
        headers["content-encoding"] = "gzip"
        headers["content-length"] = str(len(response.body))
    return response
