"""The page that jumps to a batch, a rollout or a cause; the palette shows its list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import Request, Response

from proxy.control.listing import NameMatch
from proxy.control.queries import path_of
from proxy.web import list_form
from proxy.web.context import Context, Text, page_router

_PAGES = (("Batches", "/"), ("Rollouts", "/ui/rollouts"), ("Causes", "/ui/causes"),
          ("Upstreams", "/ui/upstreams"), ("REST API", "/docs"), ("Help", "/help"))  # fmt: skip

router = page_router()


class Jump(NamedTuple):
    """A link, and what kind of thing it leads to."""

    kind: str
    label: str
    path: str


@router.get("/ui/find")
async def _find(context: Context, request: Request, q: Text = "") -> Response:
    text = q.strip()
    list_form.read_form([("text", text)])  # refuses what no list takes
    found = await context.services.pages.finder.find(text)
    return await context.page("find.html", request, "find", q=q, jumps=jumps(text, found), live="")


def jumps(text: str, found: Sequence[NameMatch]) -> list[Jump]:
    """Return the links for a text: pages by name, what was found, and the search itself."""
    pages = [Jump("page", name, path) for name, path in _PAGES if text.lower() in name.lower()]
    search = Jump(
        "search", f"all rollouts with “{text}”", "/ui/rollouts?" + urlencode({"text": text})
    )
    return [*map(_jump, found), *pages, *([search] if text else [])]


def _jump(named: NameMatch) -> Jump:
    if named.kind == "cause":
        path = "/ui/rollouts?" + urlencode({"fingerprint": named.name})
        return Jump(named.kind, named.name, path)
    folder = "batches" if named.kind == "batch" else "rollouts"
    return Jump(named.kind, named.name, path_of(folder, named.name))
