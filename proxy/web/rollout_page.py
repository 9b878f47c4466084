"""The page of one rollout, and the page of one call with all that is stored of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from classifier import codec
from classifier.records import columns
from classifier.sentences import sentence
from proxy.control.listing import beside
from proxy.control.queries import path_of
from proxy.control.rollout_view import (
    CallFilter,
    CollapsedCalls,
    RolloutDetail,
    call_detail,
    deciding_calls,
    rollout_detail,
)
from proxy.web import badges, charts, format, list_pages, render
from proxy.web.context import Context, Name, Number, Text, page_router, redirect
from proxy.web.panels import PanelPlace
from truezero.models.batches import NO_BATCH
from truezero.printable import plural

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


# --- what is stored of a call, in words -----------------------------------------------------------


_GROUPS: Mapping[str, Mapping[str, str]] = {
    "Call": {
        "id": "id", "started_at": "began", "role": "role", "kind": "kind", "upstream": "sent to",
        "method": "method", "api": "in the form of", "model": "model asked",
        "model_ambiguous": "model named twice", "output_limit": "tokens allowed",
        "prompt_words": "words of the prompt, at least", "has_tools": "tools offered",
        "continues": "goes on from", "begun_elsewhere": "begun elsewhere",
        "sdk_retry": "SDK's retry", "held_s": "waited at the proxy",
    },
    "Answer": {
        "status": "status", "error_code": "error code", "ending": "ended", "held": "held open",
        "streamed": "streamed", "first_byte_s": "first byte", "first_token_s": "first token",
        "duration_s": "time", "answered_model": "model that answered", "fallback": "stood in",
        "finish_reason": "finish reason", "tool_calls": "tool calls",
        "output_seen": "output seen", "content_seen": "text or tool call seen",
        "written_call": "tool call as text", "answer_state": "state", "pending": "fetched later",
        "provider_request_id": "provider's request id", "served_by": "served by",
        "system_fingerprint": "engine", "weight_version": "weights",
        "response_bytes": "response", "response_digest": "answer's digest",
        "output_digest": "output's digest",
    },
    "Judged as": {
        "subcategory": "cause", "rule": "by rule", "reason": "reason", "transient": "passing",
        "retry_after_s": "retry after", "output_reads_as": "reads as",
        "deaf": "not read because", "inferred": "read by its shape", "injected": "injected",
        "input_tokens": "tokens in", "cached_input_tokens": "of them cached",
        "cache_write_tokens": "written to the cache", "output_tokens": "tokens out",
        "reasoning_tokens": "of them reasoning", "total_tokens": "tokens",
        "input_total": "tokens in, all", "output_total": "tokens out, all",
        "usage_source": "tokens from", "cost_usd": "cost", "billed_as": "billed as",
    },
    "Sent by": {
        "key_digest": "key", "key_source": "key from", "selector_digest": "account's digest",
        "attribution_source": "told apart by", "request_bytes": "request",
        "request_digest": "request's digest",
    },
}  # fmt: skip
_NAMES = frozenset(each.name for each in columns() if issubclass(each.type, Enum))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFields:
    """All that is stored of a call: values under their labels; ``empty`` fields hold nothing."""

    groups: Mapping[str, Sequence[tuple[str, str]]]
    empty: int


def call_fields(call: Mapping[str, Any]) -> CallFields:
    """Put the fields of a call, as REST has them, into words, with units and few digits."""
    groups = {
        title: [
            (label, _said(name, call[name])) for name, label in labels.items()
            if call.get(name) is not None
        ]
        for title, labels in _GROUPS.items()
    }  # fmt: skip
    known = sum(map(len, groups.values()))
    return CallFields(groups=groups, empty=sum(map(len, _GROUPS.values())) - known)


def _said(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "started_at":
        return format.moment(value)
    if name == "cost_usd":
        return format.dollars(value)
    if name.endswith("_s"):
        return format.took(value)
    if name.endswith("_bytes"):
        return plural(value, "byte")
    if name in _NAMES:
        return str(value).replace("_", " ")
    return value if isinstance(value, str) else format.number(value)


# --- pages -------------------------------------------------------------------------------------


_DRAWN = 12  # calls from which on a timeline of all of them helps
_OWN = frozenset(("show", "at", "open", "call"))  # parameters that are not the list's
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
    call: Number | None = None,
) -> Response:
    within = [each for each in request.query_params.multi_items() if each[0] not in _OWN]
    form = list_pages.read_form(within)
    view = CallsView(show=show, at=at, opened=open, within=form.query_items)
    if call is not None:  # a fragment opens it, and no form can have one that depends on a field
        shown = view.query(show=CallFilter.ALL.value, at=call, open="")
        return redirect(f"{path_of('rollouts', rollout_id)}{shown}#call-{call}")
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
        address=context.address(request),
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
    by_id = {bar.call["id"]: bar for bar in bars}
    roles = {call["role"] for call in page.calls}
    return {
        "page": page,
        "facts": page.facts,
        "outcome": page.outcome,
        "verdict": verdict,
        "evidence": evidence,
        "proof": [by_id[each] for each in page.proof if each in by_id],
        "beside": {each.series: by_id.get(each.beside) for each in page.asked},
        "sentence": verdict["sentence"] or sentence(codec.decode_verdict(verdict)),
        "in_flight": _in_flight(page.calls),
        "reported": outcome_texts(page.outcome, page.facts["metadata"]),
        "lines": [
            line if isinstance(line, CollapsedCalls) else by_number.get(line)
            for line in page.listed.lines
        ],
        "numbers": _numbers(page),
        "timeline": charts.call_timeline(page.calls, now=now)
        if len(page.calls) >= _DRAWN or len(roles) > 1
        else None,
        "causes": badges.CAUSES,
        "with_key": len({call["key_digest"] for call in page.details.values()}) > 1,
        "fields": call_fields,
    }


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
