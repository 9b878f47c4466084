"""The page of one rollout, and the page of one call with all that is stored of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from classifier import codec
from classifier.sentences import sentence
from proxy.control.listing import beside
from proxy.control.queries import path_of
from proxy.control.rollout_view import (
    CallFilter,
    CollapsedCalls,
    RolloutDetail,
    call_detail,
    rollout_detail,
)
from proxy.web import badges, charts, list_pages, render
from proxy.web.context import Context, Name, Number, Text, page_router
from proxy.web.panels import PanelPlace
from truezero.models.batches import NO_BATCH

# --- the runner's report as text ---------------------------------------------------------------
# It is the runner's own text, not ours.


_LONGEST = 4000  # characters of one text that a page shows

_TEXTS: Mapping[str, str] = {
    "error": "Error",
    "verifier_error": "Verifier error",
    "export_error": "Export error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedText:
    """One text under its label; ``left_out`` characters of it are not shown."""

    label: str
    text: str
    left_out: int


def outcome_texts(outcome: Mapping[str, Any] | None, metadata: str | None) -> list[ReportedText]:
    """Return the errors, ``eval`` and metadata that a runner reported; absent ones are left out.

    Arguments:
        outcome: as reported; None before it.
        metadata: JSON text of the registration's metadata.
    """
    reported = outcome or {}
    texts = {label: reported[name] for name, label in _TEXTS.items() if reported.get(name)}
    if reported.get("eval"):
        texts["Evaluation"] = _indented(reported["eval"])
    if metadata:
        texts["Metadata"] = _indented(json.loads(metadata))
    return [
        ReportedText(label=label, text=text[:_LONGEST], left_out=max(0, len(text) - _LONGEST))
        for label, text in texts.items()
    ]


def _indented(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


# --- pages -------------------------------------------------------------------------------------


_MAPPED = 12  # calls from which on a map of all of them helps
_OWN = frozenset(("show", "at", "open"))  # parameters that are not the list's
_Range = Annotated[str, Query(pattern=r"^(\d{1,6}-\d{1,6})?$")]

router = page_router()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsView:
    """The calls that an address names; ``within`` is the query of the list it is opened from."""

    show: CallFilter
    at: int
    opened: str
    within: Sequence[tuple[str, str]] = ()

    @property
    def range(self) -> tuple[int, int] | None:
        """The numbers of the calls of a fold that is open."""
        first, dash, last = self.opened.partition("-")
        return (int(first), int(last)) if dash else None

    def query(self, **changes: object) -> str:
        """Return the query of the same page with other calls."""
        values = {"show": self.show, "at": self.at, "open": self.opened, **changes}
        usual = {"show": CallFilter.FOLDED, "at": 1, "open": ""}
        changed = [(name, value) for name, value in values.items() if value != usual[name]]
        return "?" + urlencode([*self.within, *changed])

    def beside(self, rollout_id: str) -> str:
        """Return the path of another rollout of the same list."""
        return path_of("rollouts", rollout_id) + (
            "?" + urlencode(self.within) if self.within else ""
        )


@router.get("/ui/rollouts/{rollout_id:path}")
async def _rollout(
    context: Context,
    request: Request,
    rollout_id: Name,
    show: CallFilter = CallFilter.FOLDED,
    at: Number = 1,
    open: _Range = "",
) -> Response:
    within = [each for each in request.query_params.multi_items() if each[0] not in _OWN]
    form = list_pages.read_form(within)
    view = CallsView(show=show, at=at, opened=open, within=form.query_items)
    page = await rollout_detail(context.service, rollout_id, show=show, at=at, opened=view.range)
    batch = page.facts["batch"] or NO_BATCH
    rollouts = form if within else list_pages.read_form((), batch=batch)
    before, after = await beside(context.service, rollouts.parameters, rollout_id)
    return await context.page(
        "rollout.html",
        request,
        "rollouts",
        rollout_id=rollout_id,
        view=view,
        before=before,
        after=after,
        live=urlencode({"rollout": rollout_id}),
        panels=await context.shown(PanelPlace.ROLLOUT_SUMS, rollout_id),
        **_values(page, context.service.now()),
    )


@router.get("/ui/call")
async def _call(context: Context, rollout: Text, id: Text) -> Response:
    fields = await call_detail(context.service, rollout, id)
    return JSONResponse(fields, headers=dict(render.HEADERS))


def _values(page: RolloutDetail, now: float) -> dict[str, Any]:
    """Return the values of the template of a rollout's page."""
    verdict = page.verdict
    evidence = deciding_calls(verdict)
    bars = charts.waterfall(
        page.calls, evidence, now=now, details=page.details, findings=verdict["validity"]
    )
    by_number = {bar.number: bar for bar in bars}
    lines = page.listed.lines
    mapped = len(page.calls) >= _MAPPED
    return {
        "page": page,
        "facts": page.facts,
        "outcome": page.outcome,
        "verdict": verdict,
        "evidence": evidence,
        "sentence": verdict["sentence"] or sentence(codec.decode_verdict(verdict)),
        "in_flight": _in_flight(page.calls),
        "reported": outcome_texts(page.outcome, page.facts["metadata"]),
        "lines": [
            line if isinstance(line, CollapsedCalls) else by_number.get(line) for line in lines
        ],
        "numbers": _numbers(page),
        "parts": charts.call_map(page.calls, page.marked) if mapped else (),
        "causes": badges.CAUSES,
        "with_key": len({call["key_digest"] for call in page.details.values()}) > 1,
    }


def deciding_calls(verdict: Mapping[str, Any]) -> Sequence[str]:
    """Return the ids of the calls that the score hangs on.

    Those of the findings that take the score away, as of a dead judge; else those of the rule.
    """
    named = verdict["excluded_by"]
    against = [each["evidence"] for each in verdict["validity"] if each["check"] in named]
    return list(dict.fromkeys(chain(*against))) or verdict["evidence"]


def _in_flight(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the calls in flight, and tell when the oldest began (epoch seconds)."""
    began = [call["started_at"] for call in calls if call["ending"] is None]
    return {"calls": len(began), "since": min(began, default=None)}


def _numbers(page: RolloutDetail) -> Mapping[str, int]:
    """Return the numbers of the calls that prove something, by id."""
    proof = page.verdict.get("proof") or {}
    proving = {*page.marked, proof.get("first"), proof.get("last")}
    return {
        call["id"]: number
        for number, call in enumerate(page.calls, start=1)
        if call["id"] in proving
    }
