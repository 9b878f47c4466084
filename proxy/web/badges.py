"""One mark for each thing a verdict or a call can be: a word, a shape and a colour's name.

It decides nothing. The colours stand in `static/page.css`, one for each name, after Okabe and
Ito (2008, jfly.uni-koeln.de/color): told apart by colour-blind readers, and by shape by all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """``name`` is its class in the style sheet, ``shape`` a path in a box of 12 by 12."""

    name: str
    label: str
    says: str
    shape: str


_CIRCLE = "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0-10z"
_SQUARE = "M1.5 1.5h9v9h-9z"
_DIAMOND = "M6 .5L11.5 6L6 11.5L.5 6z"
_UP = "M6 1l5.5 10h-11z"
_DOWN = "M6 11L.5 1h11z"
_CROSS = "M2.5.5L6 4L9.5.5L11.5 2.5L8 6l3.5 3.5l-2 2L6 8l-3.5 3.5l-2-2L4 6L.5 2.5z"
_BAR = "M.5 4h11v4H.5z"
_RING = "M6 .5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11zm0 3a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5z"
_FRAME = "M1 1h10v10H1zm3 3v4h4V4z"
_DASH = "M.5 5h11v2H.5z"

HEALTHY = Badge(name="healthy", label="healthy", says="the model was reached", shape=_CIRCLE)
SUSPECTED = Badge(
    name="suspected", label="suspected", says="nothing shows that a model was asked", shape=_RING
)
NOT_JUDGED = Badge(
    name="not-judged", label="not judged", says="no prompt was executed", shape=_DASH
)
UNDECIDED = Badge(
    name="undecided", label="undecided", says="no evidence yet, or some is missing", shape=_FRAME
)
OPEN = Badge(name="open", label="open", says="still under way", shape=_FRAME)
LEFT = Badge(name="not-judged", label="left by agent", says="the agent hung up", shape=_DASH)

CAUSES: Mapping[str, Badge] = {
    mark.name.replace("-", "_"): mark
    for mark in (
        Badge(name="auth", label="auth", says="key missing, wrong or not allowed", shape=_SQUARE),
        Badge(name="quota", label="quota", says="money or an allotment is spent", shape=_DIAMOND),
        Badge(
            name="model-not-found",
            label="model not found",
            says="the model is not there for this account",
            shape=_UP,
        ),
        Badge(
            name="rate-limit", label="rate limit", says="too much in a short window", shape=_DOWN
        ),
        Badge(
            name="provider-error",
            label="provider error",
            says="down, overloaded, cut or timed out",
            shape=_CROSS,
        ),
        Badge(
            name="rejected-request",
            label="rejected request",
            says="this request is unacceptable",
            shape=_BAR,
        ),
    )
}

_HEALTHS: Mapping[str | None, Badge] = {
    "healthy": HEALTHY,
    "suspected_api_error": SUSPECTED,
    "not_judged": NOT_JUDGED,
    "undecided": UNDECIDED,
    None: OPEN,
}


def of_rollout(row: Mapping[str, Any]) -> Badge:
    """The mark of a rollout's verdict, by its ``health`` and ``subcategory``."""
    if row["health"] == "api_error" and row["subcategory"] in CAUSES:
        return CAUSES[row["subcategory"]]
    return _HEALTHS.get(row["health"], UNDECIDED)


def of_call(call: Mapping[str, Any]) -> Badge:
    """The mark of one call: what failed it, or how it stands."""
    if call["subcategory"] is not None:
        return CAUSES[call["subcategory"]]
    if call["ending"] is None:
        return OPEN
    return _ENDINGS.get(call["ending"], HEALTHY)


_ENDINGS: Mapping[str, Badge] = {"left_by_agent": LEFT, "lost": UNDECIDED}


def of_cause(name: str | None) -> Badge:
    """The mark of a subcategory; what has none is suspected."""
    return SUSPECTED if name is None else CAUSES[name]


def counted(summary: Mapping[str, Any]) -> list[tuple[Badge, int]]:
    """A batch's rollouts by mark, in one order everywhere; those that are none are left out."""
    health, cause = summary["health"], summary["subcategory"]
    judged = sum(health.values())
    counts = [
        (HEALTHY, health.get("healthy", 0)),
        *((mark, cause.get(name, 0)) for name, mark in CAUSES.items()),
        (SUSPECTED, health.get("suspected_api_error", 0)),
        (UNDECIDED, health.get("undecided", 0)),
        (NOT_JUDGED, health.get("not_judged", 0)),
        (OPEN, summary["rollouts"] - judged),
    ]
    return [(mark, count) for mark, count in counts if count]


def outcomes(calls: int, failed: Mapping[str, int]) -> list[tuple[Badge, int]]:
    """An upstream's calls by mark: those answered, then those that failed."""
    counts = [(mark, failed.get(name, 0)) for name, mark in CAUSES.items()]
    answered = (HEALTHY, calls - sum(failed.values()))
    return [(mark, count) for mark, count in (answered, *counts) if count]
