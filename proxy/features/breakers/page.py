"""The tab of a batch's page that tells what its breakers did, and the form that resets one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import Request, Response

from classifier.breakers import Phase
from classifier.fingerprints import Lane
from classifier.retries import reset_command
from classifier.verdicts import Subcategory
from proxy.control.queries import Service, path_of
from proxy.features.breakers.control import (
    breaker_states,
    breaker_stories,
    open_states,
    reset_breaker,
)
from proxy.web.batch_tabs import OpenTab, rerun_command
from proxy.web.context import Context, Name, form_fields, page_router, redirect
from proxy.web.panels import LaneMark
from proxy.web.remedies import remedy

router = page_router()


@router.post("/ui/batches/{batch:path}/breaker/reset")
async def _reset(context: Context, request: Request, batch: Name) -> Response:
    fields = await form_fields(request)
    context.check_form(request, fields)
    await reset_breaker(context.service, batch, lane=fields.get("lane") or None)
    return redirect(path_of("batches", batch) + "?tab=breakers")


async def read(tab: OpenTab) -> dict[str, Any]:
    """Return what each breaker did: the rollouts, what to do, and the command for afterwards."""
    batch, skipped = tab.batch, tab.facts["summary"]["skipped"]
    stories = await breaker_stories(tab.context.service, batch, skipped=skipped)
    shown = [
        {
            "tripped_by": each.tripped_by,
            "failed_alike": each.failed_alike,
            "skipped": each.skipped,
            "names": each.names,
            "state": each.state,
            "lane": Lane.read(each.state.lane),
            "more": each.cut,
            "remedy": _remedy(each.state.fingerprint),
            "reset": reset_command(batch),
            "command": rerun_command(tab.request, batch, "fix_first", "skipped"),
        }
        for each in stories
    ]
    return {"stories": shown}


async def mark(service: Service, batch: str) -> str | None:
    """Return how many breakers of a batch are open, or half-open; None if none is."""
    phases = Counter(state.phase for state in await breaker_states(service, batch))
    counts = (phases[Phase.OPEN], "open"), (phases[Phase.HALF_OPEN], "half-open")
    return ", ".join(f"{count} {word}" for count, word in counts if count) or None


async def lane_marks(service: Service) -> dict[Lane, list[LaneMark]]:
    """Name the batches that stopped calling a lane, each with the tab that tells why."""
    marks: dict[Lane, list[LaneMark]] = {}
    for state in await open_states(service):
        path = path_of("batches", state.batch) + "?tab=breakers"
        words = f"{state.phase.value.replace('_', '-')} in {state.batch}"
        marks.setdefault(Lane.read(state.lane), []).append(LaneMark(words, path))
    return marks


def _remedy(fingerprint: str | None) -> str:
    """Return what to do about ``quota:429``, or ``suspected:`` and a rule."""
    subcategory = (fingerprint or "").partition(":")[0]
    known = subcategory if subcategory in set(Subcategory) else None
    return remedy(fingerprint or "", known, None)
