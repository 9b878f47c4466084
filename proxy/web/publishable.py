"""Whether a batch can be published, and what stands against it: each reason with its count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from classifier.reruns import Rerun, RerunCounts
from proxy.web import format


class Reason(NamedTuple):
    """What keeps a batch from being published: how often, in words, and the query of its list."""

    times: int | None
    text: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishable:
    """``yes``: it is a valid measurement. Reasons are the most severe first."""

    yes: bool
    head: str
    reasons: tuple[Reason, ...]


_OF_RERUNS = {
    Rerun.FIX_FIRST: ("failed for a cause that has to be fixed first",
                  "failed for causes that have to be fixed first"),
    Rerun.TRANSIENT: ("provider failure that can be run again now",
                  "provider failures that can be run again now"),
    Rerun.SKIPPED: ("skipped by an open breaker",) * 2,
    Rerun.UNDECIDED: ("undecided: evidence is missing",) * 2,
    Rerun.UNMEASURED: ("has no valid score, though no provider failed",
                   "have no valid score, though no provider failed"),
}  # fmt: skip


def answer(summary: Mapping[str, Any], reruns: RerunCounts) -> Publishable:
    """Answer for a batch, by its summary and by what it has to run again."""
    return Publishable(
        yes=summary["valid"],
        head=_head(summary),
        reasons=tuple(_reasons(summary, reruns)),
    )


def _head(summary: Mapping[str, Any]) -> str:
    scored, total = summary["scored"], summary["total"]
    share = format.percent(scored / total if total else None)
    measured = f"{scored:,} of {total:,} measured ({share})"
    if summary["valid"]:
        return f"{measured}, and no retry was cherry-picked"
    worst, best = summary["score_worst"], summary["score_best"]
    if worst is None or best is None or worst == best:
        return measured
    return f"{measured}; the score over all of them lies between {worst:.3f} and {best:.3f}"


def _reasons(summary: Mapping[str, Any], reruns: RerunCounts) -> list[Reason]:
    running = reruns.running
    found = [Reason(running, "still running", "?tab=rollouts")] if running else []
    for name, (one, many) in _OF_RERUNS.items():
        if count := reruns.kinds[name]:
            found.append(Reason(count, one if count == 1 else many, f"?tab=again#{name}"))
    if picked := summary["retried_after_score_total"]:
        text = "run again although already scored: the first score counts"
        found.append(Reason(picked, text, "?tab=tasks"))
    if summary["exclusion_bias"]:
        text = f"what is left out biases the mean (p = {summary['exclusion_p']:.2g})"
        found.append(Reason(None, text, "#check"))
    if own := (summary["diagnostics"] or {}).get("own_failure_info", 0):
        text = "failed by the agent itself, and counted: look whether it was provoked"
        found.append(Reason(own, text, "#check"))
    return found
