"""Badges of verdicts and calls: a label, a shape and a colour.

`static/page.css` has a colour for each name, after Okabe and Ito (2008, jfly.uni-koeln.de/color),
so that colour-blind readers can tell them apart; shapes differ too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from classifier.verdicts import OWN_FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """``name`` is a class of the style sheet, ``shape`` an SVG path in a box of 12 by 12."""

    name: str
    label: str
    meaning: str
    shape: str


_CIRCLE = "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0-10z"
SQUARE = "M1.5 1.5h9v9h-9z"
_DIAMOND = "M6 .5L11.5 6L6 11.5L.5 6z"
UP = "M6 1l5.5 10h-11z"
DOWN = "M6 11L.5 1h11z"
_CROSS = "M2.5.5L6 4L9.5.5L11.5 2.5L8 6l3.5 3.5l-2 2L6 8l-3.5 3.5l-2-2L4 6L.5 2.5z"
_BAR = "M.5 4h11v4H.5z"
_RING = "M6 .5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11zm0 3a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5z"
FRAME = "M1 1h10v10H1zm3 3v4h4V4z"
DASH = "M.5 5h11v2H.5z"
STROKE = "M0 6h12"
_HEXAGON = "M3.3 1h5.4L11.5 6L8.7 11H3.3L.5 6z"
_HOLLOW_UP = "M6 .8L11.8 11H.2zM6 5L3.6 9.2h4.8z"
DOT = "M6 3a3 3 0 1 1 0 6a3 3 0 1 1 0-6z"
_PENTAGON = "M6 .5L11.7 4.7L9.5 11.3h-7L.3 4.7z"
_PLUS = "M4.5.5h3v4h4v3h-4v4h-3v-4h-4v-3h4z"
_HOLLOW_DIAMOND = "M6 .2L11.8 6L6 11.8L.2 6zm0 3.4L3.6 6L6 8.4L8.4 6z"
_BARS = "M.5 3h11v2H.5zm0 4h11v2H.5z"

HEALTHY = Badge(name="healthy", label="healthy", meaning="the model was reached", shape=_CIRCLE)
MEASURED = Badge(
    name="measured",
    label="measured",
    meaning="a model answered, and the score counts",
    shape=_CIRCLE,
)
OWN = Badge(
    name="own-failure",
    label="agent's own failure",
    meaning="no model answered; it counts",
    shape=_PENTAGON,
)
SUSPECTED = Badge(
    name="suspected", label="suspected", meaning="a provider failure is suspected", shape=_RING
)
NOT_JUDGED = Badge(name="not-judged", label="not judged", meaning="no model was asked", shape=DASH)
SKIPPED = Badge(name="skipped", label="skipped", meaning="not admitted by a breaker", shape=_BARS)
NOT_SCORED = Badge(
    name="not-scored",
    label="not scored",
    meaning="no reward was reported, or none is the score",
    shape=_PLUS,
)
NEVER_STARTED = Badge(
    name="never-started",
    label="never started",
    meaning="planned, and no rollout was registered",
    shape=_HOLLOW_DIAMOND,
)
UNDECIDED = Badge(
    name="undecided", label="undecided", meaning="no evidence yet, or some is missing", shape=FRAME
)
RUNNING = Badge(name="open", label="running", meaning="not ended yet", shape=FRAME)
UNJUDGED = Badge(name="open", label="no verdict yet", meaning="not judged so far", shape=FRAME)
IN_FLIGHT = Badge(name="open", label="in flight", meaning="not answered yet", shape=FRAME)
CLOSED = Badge(
    name="not-judged", label="closed at outcome", meaning="the rollout ended first", shape=DASH
)
LEFT = Badge(name="not-judged", label="left by agent", meaning="the agent hung up", shape=DASH)

CAUSES: Mapping[str, Badge] = {
    badge.name.replace("-", "_"): badge
    for badge in (
        Badge(
            name="auth",
            label="auth",
            meaning="API key missing, invalid or forbidden",
            shape=SQUARE,
        ),
        Badge(name="quota", label="quota", meaning="credit or quota exhausted", shape=_DIAMOND),
        Badge(
            name="model-not-found",
            label="model not found",
            meaning="model not available to this account",
            shape=UP,
        ),
        Badge(
            name="rate-limit",
            label="rate limit",
            meaning="requests or tokens per minute exceeded",
            shape=DOWN,
        ),
        Badge(
            name="provider-error",
            label="provider error",
            meaning="down, overloaded, cut off or timed out",
            shape=_CROSS,
        ),
        Badge(
            name="rejected-request",
            label="rejected request",
            meaning="the provider rejected the request as invalid",
            shape=_BAR,
        ),
    )
}

# How much a validity finding says, the worst first.
LEVELS: Mapping[str, Badge] = {
    badge.name: badge
    for badge in (
        Badge(
            name="invalid", label="invalid", meaning="something else was measured", shape=_HEXAGON
        ),
        Badge(
            name="suspect", label="suspect", meaning="the score may not mean it", shape=_HOLLOW_UP
        ),
        Badge(name="info", label="info", meaning="worth knowing", shape=DOT),
    )
}
SPOILT = Badge(
    name="invalid", label="score left out", meaning="reached, but not scoreable", shape=_HEXAGON
)
DOUBTFUL = Badge(
    name="undecided", label="score in doubt", meaning="not known to be scoreable", shape=FRAME
)

_HEALTHS: Mapping[str | None, Badge] = {
    "healthy": HEALTHY,
    "suspected_api_error": SUSPECTED,
    "not_judged": NOT_JUDGED,
    "undecided": UNDECIDED,
    None: UNJUDGED,
}


def of_rollout(row: Mapping[str, Any]) -> Badge:
    """Return the badge of a rollout's verdict, by its ``health`` and ``subcategory``.

    A rollout that a breaker did not admit (``skipped``), and that did not run, is skipped.
    """
    if row["health"] in (None, "not_judged") and row.get("skipped"):
        return SKIPPED
    if _is_own(row):
        return OWN
    if row["health"] == "api_error" and row["subcategory"] in CAUSES:
        return CAUSES[row["subcategory"]]
    return _HEALTHS.get(row["health"], UNDECIDED)


def _is_own(row: Mapping[str, Any]) -> bool:
    """Return True for a verdict, or a row of a list, of an agent's own failures."""
    return bool(row.get("own_failures")) or row.get("rule") == OWN_FAILURES


def of_verdict(verdict: Mapping[str, Any]) -> Badge:
    """Return the badge of a verdict; that of a final healthy one tells if its score counts."""
    if verdict["health"] != "healthy" or verdict["provisional"] or _is_own(verdict):
        return of_rollout(verdict)
    return {"no": SPOILT, "unknown": DOUBTFUL}.get(verdict["scoreable"], HEALTHY)


def of_reach(verdict: Mapping[str, Any]) -> tuple[Badge, str]:
    """Return the badge and the words for the model being reached or not."""
    badge = of_rollout(verdict)
    if verdict["health"] != "healthy":
        return badge, badge.label
    if _is_own(verdict):
        return badge, "no: the agent's own failures"
    if verdict["attributed_to"] == "agent":
        return badge, "not judged: the agent failed its own calls"
    if verdict["scoreable"] == "unknown":
        return UNDECIDED, "not known"
    return badge, "yes"


def of_findings(names: str | None) -> tuple[Badge, str] | None:
    """Return the badge and the check of the worst finding. None if there is none, or it is info.

    ``names`` is the column of `verdicts`: the worst level, then checks.
    """
    level, worst, *_ = (names or "info -").split()
    return None if level == "info" else (LEVELS[level], worst)


def of_call(call: Mapping[str, Any]) -> Badge:
    """Return the badge of one call: its cause of failure, or its state."""
    if call["subcategory"] is not None:
        return CAUSES[call["subcategory"]]
    if call["ending"] is None:
        return IN_FLIGHT
    return _ENDINGS.get(call["ending"], HEALTHY)


_ENDINGS: Mapping[str, Badge] = {
    "left_by_agent": LEFT,
    "left_while_held": UNDECIDED,
    "closed_at_outcome": CLOSED,
    "lost": UNDECIDED,
}


def of_zero(reason: str) -> Badge:
    """Return the badge of the reason for which a zero is none, as `ReportedZeros` names it."""
    known = {
        **CAUSES, "suspected": SUSPECTED, "not_judged": NOT_JUDGED, "undecided": UNDECIDED,
        "excluded": SPOILT,
    }  # fmt: skip
    if reason in known:
        return known[reason]
    label = reason.replace("_", " ")
    return Badge(name="invalid", label=label, meaning=f"the check {label}", shape=_HEXAGON)


def of_cause(name: str | None) -> Badge:
    """Return the badge of a subcategory; None is suspected."""
    return SUSPECTED if name is None else CAUSES[name]


# The badge of each class of verdicts (`verdicts` of a batch's summary), always in this order.
CLASSES: Mapping[str, Badge] = {
    "healthy": HEALTHY, OWN_FAILURES: OWN, **CAUSES, "suspected_api_error": SUSPECTED,
    "undecided": UNDECIDED, "not_judged": NOT_JUDGED, "skipped": SKIPPED, "unjudged": UNJUDGED,
}  # fmt: skip


def counted(summary: Mapping[str, Any]) -> list[tuple[Badge, int]]:
    """Count a batch's rollouts by the badge of their verdict."""
    verdicts: Mapping[str, int] = summary["verdicts"]
    return [(badge, verdicts[name]) for name, badge in CLASSES.items() if name in verdicts]


def parts(summary: Mapping[str, Any]) -> list[tuple[Badge, int]]:
    """Count a batch's planned repeats by the badge of their part, those that count first."""
    of = summary["parts"]
    failed: dict[Badge, int] = {}
    for reason, count in of["not_measured"].items():
        badge = of_zero(reason)
        failed[badge] = failed.get(badge, 0) + count
    order = {badge: place for place, badge in enumerate((*CAUSES.values(), SUSPECTED))}
    return [
        (MEASURED, of["measured"]),
        (OWN, of["own_failures"]),
        *sorted(failed.items(), key=lambda each: order.get(each[0], len(order))),
        (NOT_SCORED, sum(of["not_scored"].values())),
        (SKIPPED, of["skipped"]),
        (RUNNING, of["running"]),
        (NEVER_STARTED, of["never_started"]),
    ]


def occurring(summaries: Iterable[Mapping[str, Any]]) -> list[Badge]:
    """Return the badges of the parts that one of several batches has, in the parts' order."""
    found = {badge for each in summaries for badge, count in parts(each) if count}
    named = dict.fromkeys((MEASURED, OWN, *CAUSES.values(), SUSPECTED))
    last = dict.fromkeys((NOT_SCORED, SKIPPED, RUNNING, NEVER_STARTED))
    others = sorted(found - named.keys() - last.keys(), key=lambda badge: badge.label)
    return [badge for badge in (*named, *others, *last) if badge in found]


def outcomes(calls: int, failed: Mapping[str, int]) -> list[tuple[Badge, int]]:
    """Count an upstream's calls by badge: those answered, then those that failed."""
    counts = [(badge, failed.get(name, 0)) for name, badge in CAUSES.items()]
    answered = (HEALTHY, calls - sum(failed.values()))
    return [(badge, count) for badge, count in (answered, *counts) if count]
