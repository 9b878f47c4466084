"""What a page's form sends: its fields, and whether it came from a page of ours.

It changes nothing; a form of another origin is refused before its fields are looked at.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from proxy.routing.errors import Refusal

_LONGEST = 16_384  # bytes of a form


async def fields(request: Request) -> dict[str, str]:
    """A form's fields, the last value of each.

    Raises:
        Refusal: 403 for a form of another origin, 413 for one that is too large.
    """
    if not same_origin(request):
        raise Refusal(403, "foreign_form", "this form was sent from another origin")
    if int(request.headers.get("content-length") or 0) > _LONGEST:
        raise Refusal(413, "form_too_large", "this form is larger than any of ours")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise Refusal(413, "form_too_large", "this form is larger than any of ours")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def same_origin(request: Request) -> bool:
    """Whether a browser says that our own page sent this.

    `Sec-Fetch-Site` (Fetch Metadata) is the browser's own word, also behind a proxy that
    rewrites Host; browsers leave it out on plain HTTP, where Origin must name our host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
