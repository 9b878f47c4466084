"""Print verdicts and batches as tables and sentences for people."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich import markup
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from truezero import models
from truezero.cli import call_output
from truezero.cli.options import MOST
from truezero.printable import plural, visible
from truezero.sdk.events import Event

HEALTH_STYLE = {
    "healthy": "green",
    "api_error": "red",
    "suspected_api_error": "yellow",
    "not_judged": "dim",
    "undecided": "magenta",
}

LEVEL_STYLE = {"invalid": "red", "suspect": "yellow", "info": "dim"}


def escape(text: str) -> str:
    """Return a text from elsewhere as it is shown: no markup, and nothing that moves a cursor."""
    return markup.escape(visible(text))


def headline(verdict: models.Verdict) -> str:
    """Return health and reason in one coloured line."""
    style = HEALTH_STYLE[verdict.health]
    reason = escape(_reason(verdict).removeprefix(verdict.health))
    gap = "" if reason.startswith((":", " ")) else " "
    return f"[{style}]{verdict.health}[/{style}]{gap}{reason}".rstrip()


def _reason(verdict: models.Verdict) -> str:
    if verdict.error:
        return verdict.error
    if verdict.health == "healthy" and verdict.scoreable == "unknown":
        return "(it is not known whether its score counts)"
    if verdict.health == "healthy" and verdict.scoreable == "no":
        return f"(its score does not count: {', '.join(verdict.excluded_by) or 'by the policy'})"
    if verdict.recovered_requests:
        return f"({plural(verdict.recovered_requests, 'failed call')}, recovered)"
    reached = verdict.health == "healthy" and verdict.total_requests
    return "" if reached else f"({verdict.rule})"


def print_verdict(
    verdict: models.Verdict, calls: Sequence[models.Exchange], *, everything: bool = False
) -> None:
    """Print one rollout: verdict, attributes and calls.

    Arguments:
        everything: print every call, not only the evidence and the calls around it.
    """
    console = call_output.make_console()
    console.print(f"[bold]{escape(verdict.rollout_id)}[/bold]  {headline(verdict)}")
    facts = {
        "rule": verdict.rule,
        "fingerprint": verdict.fingerprint,
        "lane": verdict.lane,
        "scoreable": verdict.scoreable,
        "retry": f"{'yes' if verdict.retry.eligible else 'no'}: {verdict.retry.reason}",
        "tokens": _tokens(verdict),
        "time": _time(verdict),
        "warnings": ", ".join(verdict.warnings) or None,
        "not looked at": _unseen(verdict),
        "provisional": "yes: no outcome reported yet" if verdict.provisional else None,
    }
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value is not None:
            grid.add_row(f"[dim]{name}[/dim]", escape(value))
    console.print(grid)
    for found in verdict.validity:
        style = LEVEL_STYLE[found.level]
        line = escape(finding_line(found).removeprefix(found.level))
        console.print(f"[{style}]{found.level}[/{style}]{line}", soft_wrap=True, highlight=False)
    for role, each in verdict.roles.items():
        console.print(f"role {_role_line(role, each)}", soft_wrap=True, highlight=False)
    call_output.print_calls(console, calls, call_output.marks_of(verdict), everything=everything)


def finding_line(found: models.ValidityFinding) -> str:
    """Return a validity finding as one plain line: level, check, sentence and calls."""
    calls = f"{found.calls:,} of {plural(found.of, 'call')}"
    return f"{found.level} {found.check}: {found.sentence} ({calls})"


def _role_line(role: str, verdict: models.RoleVerdict) -> str:
    calls = f"{verdict.failed_requests} of {plural(verdict.total_requests, 'call')} failed"
    why = " ".join(filter(None, (verdict.subcategory, verdict.error)))
    health = _styled(verdict.health, HEALTH_STYLE)
    return f"{escape(role)}: {health} ({escape(why or calls)})"


def _time(verdict: models.Verdict) -> str | None:
    parts = (
        (verdict.provider_s, "waiting for answers"),
        (verdict.lost_s, "lost to failures"),
        (verdict.agent_s, "the agent's own"),
    )
    return ", ".join(f"{spent:.1f} s {what}" for spent, what in parts if spent is not None) or None


def _unseen(verdict: models.Verdict) -> str | None:
    """Name the checks that could not look at every call that they are about."""
    seen = verdict.validity_coverage.items()
    missing = [
        f"{name} ({c.of - c.looked:,} of {plural(c.of, 'call')})"
        for name, c in seen
        if c.looked < c.of
    ]
    return ", ".join(missing) or None


def _tokens(verdict: models.Verdict) -> str | None:
    if verdict.total_tokens is None:
        return None
    return f"{verdict.input_tokens} in, {verdict.output_tokens} out"


def _count(count: int | None) -> str:
    return "?" if count is None else str(count)


def verdict_line(verdict: models.Verdict, error: str | None = None) -> str:
    """Return a verdict in one plain line: health, reason and cost.

    Arguments:
        error: the runner's error, shown if the rollout was not judged.
    """
    calls = plural(verdict.total_requests, "call")
    facts = ", ".join(filter(None, (calls, _tokens(verdict), _dollars(verdict.cost_usd))))
    reason = _reason(verdict)
    if verdict.health == "not_judged" and error:
        reason = f"{verdict.health}: {error}"
    line = reason if reason.startswith(verdict.health) else f"{verdict.health} {reason}".strip()
    return visible(f"{verdict.rollout_id}: {line} ({facts})")


def print_batch(summary: models.BatchSummary, breaker: models.Breaker) -> None:
    """Print a batch: scores, causes of failure and rollouts to run again; ten of each at most."""
    console = call_output.make_console(soft_wrap=True)
    console.print(batch_table(summary, breaker))
    across, name = summary.validity_across or [], shlex.quote(summary.batch)
    for found in across[:MOST]:
        style = LEVEL_STYLE[found.level]
        told = escape(f" across rollouts: {found.sentence} ({found.check})")
        console.print(f"[{style}]{found.level}[/{style}]{told}", highlight=False)
    _print_more(console, len(across), f"truezero batch --json {name}")
    for item in summary.retry[:MOST]:
        wait = "" if item.after_s is None else f" after {item.after_s:g} s"
        console.print(f"run again: {escape(item.rollout_id)}{wait} ({escape(item.reason)})")
    _print_more(console, summary.retry_total or len(summary.retry), f"truezero rerun {name}")


def _print_more(console: Console, count: int, command: str) -> None:
    """Say how many lines of a list were left out, and what lists them."""
    if count > MOST:
        console.print(f"[dim]and {count - MOST:,} more: {escape(command)}[/dim]", highlight=False)


def print_groups(groups: Sequence[models.Group]) -> None:
    """Print a line for each task: how many of its repeats count, and what becomes of the group."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("task", "measured", "baseline", "std", "run again", ""):
        table.add_column(column)
    for group in groups:
        table.add_row(
            escape(group.task),
            f"{sum(group.valid)} of {group.wanted}",
            _score(group.baseline),
            _score(group.std),
            str(group.resample or "–"),
            _state(group),
        )
    call_output.make_console().print(table)


def _state(group: models.Group) -> str:
    if group.drop:
        return "[red]drop[/red]"
    return "" if group.settled else "[dim]running[/dim]"


def batch_table(summary: models.BatchSummary, breaker: models.Breaker) -> RenderableType:
    """Return a batch's numbers and its open breakers as a table."""
    grid = Table.grid(padding=(0, 2))
    for name, value in _batch_facts(summary).items():
        if value:
            grid.add_row(f"[dim]{name}[/dim]", value)
    parts: list[RenderableType] = [f"[bold]{escape(summary.batch)}[/bold]", grid]
    stopped = _stopped(breaker)
    parts += [f"[red]{escape(_lane_line(lane))}[/red]" for lane in stopped[:MOST]]
    if len(stopped) > MOST:
        parts.append(f"[dim]and {plural(len(stopped) - MOST, 'more breaker')}[/dim]")
    return Group(*parts)


def _batch_facts(summary: models.BatchSummary) -> dict[str, str | None]:
    measured = f"{summary.scored} scored, {summary.scoreable} scoreable of {summary.total}"
    bounds = f"between {_score(summary.score_worst)} and {_score(summary.score_best)}"
    return {
        "measurement": "[green]valid[/green]" if summary.valid else "[red]not valid[/red]",
        "rollouts": f"{summary.rollouts}, {summary.pending} pending, {summary.skipped} skipped",
        "score": f"{_score(summary.score_effective)} over measured tasks ({measured})",
        "failures as 0": f"{_score(summary.score_all)}; the true score is {bounds}",
        "health": _counts(summary.health, HEALTH_STYLE),
        "causes": _counts(summary.fingerprint, {}),
        "beside health": _found(summary),
        "tokens": _batch_tokens(summary),
        "cost": _with(
            _dollars(summary.cost_usd), _without(summary, summary.cost_known_calls, "a price")
        ),
        "rerun although scored": _first(
            summary.retried_after_score, summary.retried_after_score_total
        ),
    }


def _stopped(breaker: models.Breaker) -> list[models.BreakerLane]:
    return [lane for lane in breaker.lanes if lane.phase != "closed"]


def _lane_line(lane: models.BreakerLane) -> str:
    state = f"breaker {lane.phase.replace('_', ' ')} on {lane.lane}"
    return f"{state}: {plural(lane.streak, 'rollout')} in a row failed with {lane.fingerprint}"


def _counts(counts: Mapping[str, int], styles: Mapping[str, str]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    told = [f"{count} {_styled(name, styles)}" for name, count in ordered[:MOST]]
    return ", ".join([*told, *_others(len(ordered))])


def _first(names: Sequence[str], total: int | None) -> str:
    return ", ".join([*map(escape, names[:MOST]), *_others(total or len(names))])


def _others(count: int) -> list[str]:
    return [f"and {count - MOST:,} more (--json)"] if count > MOST else []


def _styled(name: str, styles: Mapping[str, str]) -> str:
    style = styles.get(name)
    return f"[{style}]{name}[/{style}]" if style else escape(name)


def _batch_tokens(summary: models.BatchSummary) -> str | None:
    if summary.total_tokens is None:
        return None
    told = f"{_count(summary.input_tokens)} in, {_count(summary.output_tokens)} out"
    return _with(told, _without(summary, summary.tokens_known_calls, "counts"))


def _found(summary: models.BatchSummary) -> str | None:
    """Count rollouts by the worst level of what was found, and by check."""
    if not summary.validity:
        return None
    levels = _counts(summary.validity, LEVEL_STYLE)
    return f"{levels} ({_counts(summary.validity_checks or {}, {})})"


def _without(summary: models.BatchSummary, known: int | None, what: str) -> str | None:
    """Say of how many calls a sum knows nothing; None where it knows all, or nobody counted."""
    if summary.calls is None or known is None or known >= summary.calls:
        return None
    return f"{summary.calls - known} of {plural(summary.calls, 'call')} without {what}"


def _with(told: str | None, beside: str | None) -> str | None:
    return f"{told or 'unknown'} ({beside})" if beside else told


def _dollars(cost: float | None) -> str | None:
    return None if cost is None else f"${cost:.4f}"


def _score(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.3f}"


def print_check(check: models.Check) -> None:
    """Print whether a batch is a valid measurement, and each objection on a line."""
    console = call_output.make_console(soft_wrap=True, highlight=False)
    for line in check.lines:
        console.print(escape(line))
    if (total := check.lines_total or 0) > len(check.lines):
        console.print(f"[dim]and {plural(total - len(check.lines), 'more rollout')}[/dim]")
    if check.exclusion_p is not None:
        console.print(_exclusions(check.exclusion_p, check.exclusion_fisher_p))
    result = "[green]valid[/green]" if check.valid else "[red]not a valid measurement[/red]"
    console.print(f"{escape(check.batch)}: {result}")


def _exclusions(p: float, fisher_p: float | None) -> str:
    beside = "" if fisher_p is None else f"; Fisher's p over reported rewards: {fisher_p:.2g}"
    return f"exclusions against tasks: p = {p:.2g}{beside}"


@contextmanager
def live_batch(
    load: Callable[[], tuple[models.BatchSummary, models.Breaker]],
    *,
    every_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[Event], None]]:
    """Show a batch's table, updated by its events, with the last events below it.

    Arguments:
        load: fetches the batch; called at most every ``every_s`` seconds, after new events.
    """
    lines: list[str] = []
    table = batch_table(*load())
    changed, loaded_at = False, clock()
    with Live(table, console=Console(), auto_refresh=False, transient=False) as live:

        def follow(event: Event) -> None:
            nonlocal table, changed, loaded_at
            if event.kind != "alive":
                changed = True
                lines.append(event_line(event))
                del lines[:-8]
            if changed and clock() - loaded_at >= every_s:
                table = batch_table(*load())
                changed, loaded_at = False, clock()
            live.update(Group(table, "", *map(escape, lines)), refresh=True)

        yield follow


def event_line(event: Event) -> str:
    """Return an event as a line: kind, rollout or lane, details."""
    data = event.data
    who = data.get("task") or data.get("rollout_id") or data.get("lane")
    names = ("health", "error", "subcategory", "fingerprint", "status", "validity")
    how = [*map(data.get, names), *(data.get("validity_checks") or ())]
    details: Iterable[str] = dict.fromkeys(str(value) for value in how if value is not None)
    line = " · ".join(filter(None, (event.kind.replace("_", " "), str(who or ""), *details)))
    return visible(line)
