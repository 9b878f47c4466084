"""The tab of a batch's page that lists what to run again, and its lists as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Response
from fastapi.responses import JSONResponse

from proxy.features.reruns import listing
from proxy.web import render
from proxy.web.batch_tabs import OpenTab, rerun_command
from proxy.web.context import Context, Text, page_router
from truezero import models

_COPIED = 500  # ids that a page holds to be copied; of more it has the command
_KINDS: Mapping[models.RerunName, tuple[str, str]] = {
    "transient": ("Run again now", "Such failures of the provider pass by themselves."),
    "fix_first": ("Fix first", "Each would fail again until its cause is fixed."),
    "skipped": ("Skipped", "An open breaker did not admit them."),
    "undecided": ("Undecided", "Evidence is missing, so nobody can say whether they count."),
    "unmeasured": ("Not measured", "The provider did not fail, and there is no score."),
}


router = page_router()


@router.get("/ui/rerun.json")
async def _rerun(context: Context, batch: Text) -> Response:
    reruns = await listing.rerun(context.service, batch)
    return JSONResponse(reruns, headers=dict(render.HEADERS))


async def read(tab: OpenTab) -> dict[str, Any]:
    """Return what to run again by kind: the repeats, their ids and the command for each."""
    batch, request = tab.batch, tab.request
    reruns = await listing.rerun(tab.context.service, batch)
    kinds = [
        (name, *words, reruns[name], _ids(reruns[name]), rerun_command(request, batch, name))
        for name, words in _KINDS.items()
    ]
    return {
        "kinds": kinds,
        "running": reruns["running"],
        "total": sum(reruns[name]["count"] for name in _KINDS),
        "json_path": "/ui/rerun.json?" + urlencode({"batch": batch}),
        "copied": _COPIED,
    }


def _ids(kind: Mapping[str, Any]) -> list[str]:
    names = (item["rollout_id"] for group in kind["groups"] for item in group["items"])
    return [name for name in names if name is not None]
