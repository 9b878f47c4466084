"""Fields of submitted forms; forms of other origins are refused."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from proxy.routing.errors import Refusal

_MAX_BYTES = 16_384


async def fields(request: Request) -> dict[str, str]:
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
    """Return whether the browser says that a page of ours sent the request.

    `Sec-Fetch-Site` (Fetch Metadata) holds also behind a proxy that rewrites Host; browsers
    omit it on plain HTTP, where Origin must name our host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
