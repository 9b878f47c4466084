"""Print verdicts, calls, batches, comparisons and lists as tables and sentences for people."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from truezero.cli.text import (
    escape,
    health_word,
    make_console,
    moment,
    print_list,
)
from truezero.printable import exclusion_words, plural, visible

if TYPE_CHECKING:  # a command that prints does not wait for pydantic
    from truezero import models
    from truezero.runner.drills import DrillReport
    from truezero.sdk.outcomes import KeptOutcome


# --- batches ---


def print_card(card: Mapping[str, Any]) -> None:
    """Print a measurement card: the score, what is no measurement, the calls, and its export."""
    console = make_console(soft_wrap=True)
    for line in card_lines(card):
        console.print(escape(line))


def card_lines(card: Mapping[str, Any]) -> list[str]:
    """Return the lines that a measurement card is printed as."""
    stated, measured, roots = card["stated"], card["measured"], card["roots"]
    score, zeros, calls = measured["score"], measured["zeros"], measured["calls"]
    interval = score["interval"]
    number = "no score" if score["score"] is None else f"score {score['score']:.3f}"
    between = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
    share = f"{score['measured']:,} of {plural(score['repeats'], 'repeat')} measured"
    lines = [
        f"{stated['batch']}: {number}{between}, {share}",
        "a valid measurement"
        if measured["valid"]
        else f"not a valid measurement: {plural(measured['problems']['total'], 'objection')}",
    ]
    if zeros["reported"]:
        causes = ", ".join(f"{count:,} {name}" for name, count in zeros["by_cause"].items())
        are = "is not a measurement" if zeros["not_measured"] == 1 else "are not measurements"
        of = plural(zeros["reported"], "reported zero")
        lines.append(f"{zeros['not_measured']:,} of {of} {are}" + (f": {causes}" if causes else ""))
    exclusion = measured["exclusion"]
    if exclusion["p"] is not None:
        lines.append(exclusion_words(exclusion["bias"], exclusion["p"]))
    for row in calls["by_model"]:
        asked, answered = row["asked"] or "unknown", row["answered"]
        model = asked if answered == asked else f"{asked}, answered by {answered or 'unknown'}"
        model = f"{asked}, not answered" if row["failed"] == row["calls"] else model
        served = f" at {row['served_by']}" if row["served_by"] else ""
        failed = f", {row['failed']:,} failed" if row["failed"] else ""
        origin = row["origin"] or row["upstream"]
        lines.append(f"{model}{served} ({origin}): {plural(row['calls'], 'call')}{failed}")
    ids = f"{roots['request_ids']:,} of {plural(calls['total'], 'call')} with a request id"
    lines.append(f"{roots['provenance']}: {ids}")
    lines.append(f"export {roots['export'][:16]}…")
    lines += [f"does not prove {line}" for line in card["does_not_prove"]]
    return lines


# --- comparisons ---


# --- what to run again ---


# --- lists ---


def print_outcomes(files: Sequence[tuple[Path, KeptOutcome | None]]) -> None:
    """Print a line for each outcome that is kept."""
    rows: list[Mapping[str, str]] = []
    for file, kept in files:
        if kept is None:
            rows.append({"rollout": f"[red]no outcome: {escape(file.name)}[/red]"})
            continue
        outcome = kept.outcome
        reward = outcome.get("rewards")
        rows.append(
            {
                "rollout": escape(kept.rollout_id),
                "batch": escape(str(outcome.get("batch") or "–")),
                "task": escape(str(outcome.get("task") or "–")),
                "reported": escape(str(outcome.get("status") if reward is None else reward)),
                "kept since (UTC)": moment(kept.kept_at),
                "for the service": escape(kept.service),
            }
        )
    columns = ("rollout", "batch", "task", "reported", "kept since (UTC)", "for the service")
    dispensable = ("batch", "task", "kept since (UTC)", "for the service")
    print_list(columns, rows, dispensable, "outcomes", more=False)


_WORD_STYLE = {"healthy": "green", "degraded": "yellow", "down": "red"}


def print_status(lanes: Sequence[models.LaneStatus]) -> None:
    """Print a line for each lane, with the evidence of its word."""
    rows = [
        {
            "upstream · model · key": escape(lane_name(lane)),
            "health": f"[{_WORD_STYLE.get(lane.word, 'dim')}]{lane.word}[/]",
            "since (UTC)": "" if lane.since is None else moment(lane.since),
            "cause": escape("; ".join(_reasons(lane))),
            "failed": f"{sum(lane.failed.values()):,d} of {lane.calls:,d}",
            "waiting": f"{lane.waiting:,d}" if lane.waiting else "",
        }
        for lane in lanes
    ]
    columns = ("upstream · model · key", "health", "since (UTC)", "cause", "failed", "waiting")
    dispensable = ("waiting", "since (UTC)", "failed")
    what = "calls within the last hour"
    print_list(columns, rows, dispensable, what, more=False, foldable=("cause",))


def _reasons(lane: models.LaneStatus) -> list[str]:
    """Return why a lane has its word."""
    reasons = [] if lane.cause is None else [lane.cause]
    if lane.word == "unknown":
        denied = lane.reference is not None and lane.reference.answered is False
        reasons.append("its reference call failed" if denied else "too few calls to tell")
    return reasons


def lane_name(lane: models.LaneStatus) -> str:
    """Return a lane's name: ``openai · gpt-5 · key-3f9a``."""
    parts = (lane.upstream, lane.model or "no model named", lane.key, lane.server)
    return " · ".join(filter(None, parts))


def lane_line(lane: models.LaneStatus) -> str:
    """Return a lane's word as a line, with the time of now."""
    why = "".join(f", {each}" for each in _reasons(lane))
    failed = f"{sum(lane.failed.values())} of {plural(lane.calls, 'call')} failed"
    return visible(f"{moment(time.time())}  {lane_name(lane)}: {lane.word}{why} ({failed})")


# --- drills ---


def print_table(drilled: Sequence[DrillReport], console: Console) -> None:
    """Print all results as a table, and a summary of hidden failures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("fault", no_wrap=True)
    table.add_column("reaction", overflow="fold")
    for name in ("exit", "output", "calls", "retries", "sec", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for one in drilled:
        table.add_row(
            one.drill,
            f"[red]{one.conduct}[/red]" if one.hidden else one.conduct,
            str(one.exit_code),
            f"{one.output_bytes}+{one.error_bytes}",
            str(one.calls),
            str(one.retries),
            f"{one.seconds:.1f}",
            "?" if one.wasted_s is None else f"{one.wasted_s:.1f}",
            " · ".join((_short(one.verdict), *one.findings)),
        )
    console.print(table)
    for line in _lessons(drilled):
        console.print(escape(line))


def _short(verdict: models.Verdict) -> str:
    why = verdict.subcategory or ("" if verdict.health == "healthy" else verdict.rule)
    return f"{health_word(verdict.health)} {why}".rstrip()


def _spoils(verdict: models.Verdict) -> bool:
    return any(finding.level != "info" for finding in verdict.validity)


def _lessons(drilled: Sequence[DrillReport]) -> Iterator[str]:
    hidden = [one for one in drilled if one.hidden]
    failures = ", ".join(one.drill for one in hidden if not one.took_spoilt)
    spoilt = ", ".join(one.drill for one in hidden if one.took_spoilt)
    missed = ", ".join(
        one.drill for one in hidden if one.verdict.health == "healthy" and not _spoils(one.verdict)
    )
    if failures:
        yield f"Failures hidden behind exit code 0: {failures}."
    elif not all(one.took_spoilt for one in drilled):
        yield "No failure was hidden."
    if spoilt:
        yield f"Spoilt answers taken for good: {spoilt}."
    if missed:
        yield f"Judged healthy nevertheless: {missed}."
    for one in drilled:
        if one.original is not None:
            yield _compared(one.verdict, one.original)


def _compared(verdict: models.Verdict, original: models.Verdict) -> str:
    if _judged(verdict) == _judged(original):
        return f"Judged as {original.rollout_id} was: {_judged(original)}."
    return f"{original.rollout_id} was judged {_judged(original)}; now {_judged(verdict)}."


def _judged(verdict: models.Verdict) -> str:
    return " ".join(filter(None, (verdict.health, verdict.subcategory)))
