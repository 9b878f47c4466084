"""The Overview tab of a batch: its to-do list, objections to its score, and its squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import Request

from classifier.batch_parts import OTHER_KEYS
from classifier.fingerprints import Lane
from classifier.reruns import Rerun
from classifier.verdicts import AttributedTo, Subcategory
from proxy.control.batches import UnscoredGroup
from proxy.web import badges, figures
from proxy.web.badges import Badge
from proxy.web.batch_tabs import BatchTab, rerun_command
from proxy.web.figures import ShownFigure
from proxy.web.remedies import remedy, remedy_of_part
from truezero.printable import exclusion_words, plural

MOST_SQUARES = 200
"""Repeats of a batch that are drawn one by one."""

# --- what to do ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoRow:
    """The repeats of a batch that lack a score for one reason, and what to do about them.

    ``listed`` is the query of their rollouts; ``zeros`` of them were reported as 0. ``where`` names
    their lanes; ``first`` and ``last`` say when the first and the last rollout that failed so began
    (epoch seconds; None: not known). ``link`` is the query of their list of what to run again,
    ``command`` runs them.
    """

    badge: Badge
    label: str
    listed: str | None
    zeros: ShownFigure | None
    repeats: int
    shown: ShownFigure | None
    where: str
    first: float | None
    last: float | None
    whose: str
    remedy: str
    link: str | None
    command: str | None


_WHOSE: Mapping[str | None, str] = {
    AttributedTo.OPERATOR: "operator's", AttributedTo.PROVIDER: "provider's",
    AttributedTo.AGENT: "agent's", AttributedTo.PROXY: "proxy's",
}  # fmt: skip
# What a repeat needs, by the reason for which it lacks a score; all others are looked at.
_TRANSIENT = frozenset((Subcategory.PROVIDER_ERROR, Subcategory.RATE_LIMIT))
_NEEDS: Mapping[str, Rerun] = {
    "undecided": Rerun.UNDECIDED, "suspected": Rerun.FIX_FIRST, "skipped": Rerun.SKIPPED,
    **{each: Rerun.TRANSIENT if each in _TRANSIENT else Rerun.FIX_FIRST for each in Subcategory},
}  # fmt: skip
_ORDER = (
    Rerun.FIX_FIRST, Rerun.TRANSIENT, Rerun.SKIPPED, Rerun.UNDECIDED, Rerun.UNMEASURED,
)  # fmt: skip
_APART: Mapping[str, Badge] = {
    "skipped": badges.SKIPPED, "running": badges.RUNNING, "never_started": badges.NEVER_STARTED,
}  # fmt: skip


def todo(
    summary: Mapping[str, Any],
    groups: Sequence[UnscoredGroup],
    kinds: Mapping[Rerun, int],
    *,
    batch: str,
    request: Request,
    tabs: Sequence[BatchTab],
) -> list[TodoRow]:
    """List why repeats of a batch lack a score: the rows add up to all that do.

    Their zeros add up to those that are not measurements.

    Arguments:
        summary: of the batch.
        groups: its verdicts without a score.
        kinds: how many repeats need what, as `RerunCounts` has them.
        tabs: of its page; one of them may list what to run again.
    """
    parts, zeros = summary["parts"], summary["zeros"]["by_cause"]
    listed = {kind: f"?tab={tab.name}#{kind}" for tab in tabs for kind in tab.sections}
    reasons = {**dict.fromkeys(zeros, 0), **parts["not_measured"]}
    rows: list[tuple[Rerun | None, dict[str, Any]]] = []
    for name, repeats in reasons.items():
        of = [group for group in groups if group.reason == name]
        rows.append((_needs(name, kinds), _row(name, repeats, of, summary)))
    for name, repeats in parts["not_scored"].items():
        said = summary["no_score"] if name == OTHER_KEYS else None
        row = _apart(badges.NOT_SCORED, name, repeats, said or remedy_of_part(name))
        rows.append((Rerun.UNMEASURED, row))
    for name, badge in _APART.items():
        if parts[name]:
            needs = None if name == "running" else _NEEDS.get(name, Rerun.UNMEASURED)
            rows.append((needs, _apart(badge, name, parts[name], remedy_of_part(name), summary)))
    rows.sort(key=lambda each: (_place(each[0]), -each[1]["repeats"]))
    return [
        TodoRow(
            **row,
            link=None if needs is None else listed.get(needs),
            command=None
            if needs is None or needs not in listed or not row["repeats"]
            else rerun_command(request, batch, needs),
        )
        for needs, row in rows
    ]


def _needs(name: str, kinds: Mapping[Rerun, int]) -> Rerun:
    needs = _NEEDS.get(name, Rerun.UNMEASURED)
    # A failure that comes again and again no longer passes by itself.
    again = needs is Rerun.TRANSIENT and not kinds.get(needs) and kinds.get(Rerun.FIX_FIRST)
    return Rerun.FIX_FIRST if again else needs


def _place(needs: Rerun | None) -> int:
    return len(_ORDER) if needs is None else _ORDER.index(needs)


def _row(
    name: str, repeats: int, groups: Sequence[UnscoredGroup], summary: Mapping[str, Any]
) -> dict[str, Any]:
    badge = badges.of_zero(name)
    said = max(groups, key=lambda each: each.rollouts, default=None)
    statuses = {each.fingerprint.partition(":")[2] for each in groups if each.fingerprint}
    # A status, or the rule of a suspicion; with several, the name alone.
    only = statuses.pop().replace("_", " ") if len(statuses) == 1 else ""
    subcategory = name if name in set(Subcategory) else None
    failed = subcategory is not None or name == "suspected"
    return {
        "badge": badge,
        "label": f"{badge.label} {only}".strip(),
        "listed": _listed(name, summary),
        "zeros": figures.shown(summary, "zeros.by_cause", name)
        if name in summary["zeros"]["by_cause"]
        else None,
        "repeats": repeats,
        "shown": figures.shown(summary, "parts.not_measured", name) if repeats else None,
        "where": _where(groups),
        "first": min((each.first for each in groups), default=None),
        "last": max((each.last for each in groups), default=None),
        "whose": _WHOSE.get(said.attributed_to if said else None, "not known"),
        "remedy": remedy(
            (said and said.fingerprint) or name, subcategory, said.cause if said else None
        )
        if failed
        else remedy_of_part(name),
    }


def _apart(
    badge: Badge, name: str, repeats: int, said: str, summary: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a row of repeats that no failure left without a score."""
    label = badge.label
    if badge is badges.NOT_SCORED:
        label += ": several rewards" if name == OTHER_KEYS else ": no reward"
    return {
        "badge": badge, "label": label,
        "listed": summary and _listed(name, summary), "zeros": None, "repeats": repeats,
        "shown": None if summary is None else figures.shown(summary, f"parts.{name}"),
        "where": "", "first": None, "last": None, "whose": "", "remedy": said,
    }  # fmt: skip


def _listed(name: str, summary: Mapping[str, Any]) -> str | None:
    if name in ("skipped", "running"):
        return figures.shown(summary, name).query
    verdict = "suspected_api_error" if name == "suspected" else name
    if verdict not in summary["verdicts"]:
        return None
    return figures.shown(summary, "verdicts", verdict).query


def _where(groups: Sequence[UnscoredGroup]) -> str:
    """Name the lanes of some rollouts: the name or route that all share, else their number."""
    lanes = {lane for each in groups if (lane := each.lane and Lane.read(each.lane))}
    if not lanes:
        return ""
    if len(lanes) == 1:
        [lane] = lanes
        return f"{_route(lane)} · key-{lane.key}" if lane.key else _route(lane)
    routes = {_route(lane) for lane in lanes}
    keys = plural(len(lanes), "key")
    return f"{routes.pop()}, {keys}" if len(routes) == 1 else plural(len(lanes), "lane")


def _route(lane: Lane) -> str:
    return lane.route.replace("/", " · ", 1)


# --- what else keeps it from being published -----------------------------------------------------


class Objection(NamedTuple):
    """A reason to doubt a batch's score beside unscored repeats, and the query of its list."""

    times: int | None
    text: str
    link: str | None


def objections(summary: Mapping[str, Any]) -> list[Objection]:
    """List the reasons to doubt a batch's score beside the repeats without one."""
    found = []
    if picked := summary["retried_after_score_total"]:
        text = "run again although already scored: the first score counts"
        found.append(Objection(picked, text, "?tab=tasks"))
    if summary["exclusion_bias"]:
        text = exclusion_words(summary["exclusion_bias"], summary["exclusion_p"])
        found.append(Objection(None, text, "#check"))
    if own := (summary["diagnostics"] or {}).get("own_failure_info", 0):
        text = "failed by the agent itself, and counted: look whether it was provoked"
        found.append(Objection(own, text, "#check"))
    return found


# --- repeats, one by one -------------------------------------------------------------------------


class Squares(NamedTuple):
    """Repeats with the same result: their label, and a badge for each (None: it has a score)."""

    label: str
    repeats: int
    kind: str
    marks: Sequence[Badge | None]


def squares(summary: Mapping[str, Any]) -> list[Squares]:
    """Lay out the planned repeats of a batch one by one; none of a batch with too many."""
    planned = summary["repeats_planned"]
    if not 0 < planned <= MOST_SQUARES:
        return []
    counted = summary["scored"]
    zeros = summary["zeros"]["reported"] - summary["zeros"]["not_measured"]
    above = summary["ones"]["reported"] - summary["ones"]["not_measured"]
    below = max(0, counted - zeros - above)
    apart = [
        badge
        for badge, count in badges.parts(summary)
        if badge not in (badges.MEASURED, badges.OWN)
        for _ in range(count)
    ]
    rows = [
        Squares("scored above 0", above, "one", [None] * above),
        Squares("real zeros", zeros, "zero", [None] * zeros),
        Squares("scored below 0", below, "zero", [None] * below),
        Squares("not measured", len(apart), "miss", apart),
    ]
    return [row for row in rows if row.repeats]
