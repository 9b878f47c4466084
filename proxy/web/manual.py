"""The documentation at `/help`: the pages that `make site` put into ``site/``, if it did.

Wheels and the image carry them. Without them `/help` says where to read. The pages are under
`/ui/help/`, so that calls to an operator's upstream named `help` never get here.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from proxy.control.threads import run_in_thread
from proxy.web import render
from proxy.web.context import Name, PageRoute, problem, redirect

SITE = Path(__file__).with_name("site")

_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_CACHED = "private, max-age=300"
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def router(site: Path = SITE) -> APIRouter:
    """Make the routes; ``site`` is the folder of the built documentation."""
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/help")
    async def start() -> Response:
        if await run_in_thread((site / "index.html").exists):
            return redirect("/ui/help/index.html")
        return await run_in_thread(render.page, "help.html")

    @routes.get("/ui/help/{name:path}")
    async def file(name: Name) -> Response:
        found = await run_in_thread(_file, site, name or "index.html")
        return found if found is not None else await problem(404, "no such page")

    return routes


@cache
def _files(site: Path) -> Mapping[str, Path]:
    """Return what can be asked for: names are looked up here, and never joined to a folder."""
    files = (each for each in site.rglob("*") if each.is_file() and each.suffix in _TYPES)
    return {each.relative_to(site).as_posix(): each for each in files}


@cache  # two megabytes at most: deploy/site.py keeps to it
def _read(path: Path) -> tuple[bytes, str]:
    """Return a file's content and the policy under which browsers show it."""
    content = path.read_bytes()
    return content, _policy(content)


def _file(site: Path, name: str) -> Response | None:
    path = _files(site).get(name)
    if path is None:
        return None
    content, policy = _read(path)
    headers = {**render.HEADERS, "content-security-policy": policy, "cache-control": _CACHED}
    return Response(content, media_type=_TYPES[path.suffix], headers=headers)


def _policy(page: bytes) -> str:
    """Return the policy of a page of MkDocs: its own inline scripts by their hashes, no others."""
    digests = (hashlib.sha256(script).digest() for script in _INLINE_SCRIPT.findall(page))
    scripts = "".join(f" 'sha256-{b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self'{scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; worker-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
