"""Print verdicts, calls, batches, comparisons and lists as tables and sentences for people."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich import box
from rich.console import Console, Group
from rich.table import Table

from truezero.cli.options import MOST
from truezero.cli.text import (
    HEALTH_STYLE,
    LEVEL_STYLE,
    amount,
    dollars,
    escape,
    fact_lines,
    health_word,
    interval_words,
    make_console,
    moment,
    number,
    print_columns,
    print_list,
    running_in,
    score_words,
    styled,
)
from truezero.printable import exclusion_words, plural, visible
from truezero.sdk.addresses import of_batch

if TYPE_CHECKING:  # a command that prints does not wait for pydantic
    from truezero import models
    from truezero.runner.drills import DrillReport
    from truezero.sdk.events import Event
    from truezero.sdk.outcomes import KeptOutcome


# --- batches ---


def print_batch(summary: models.BatchSummary, breaker: models.Breaker) -> None:
    """Print a batch: scores, causes of failure and rollouts to run again; ten of each at most."""
    console = make_console(soft_wrap=True)
    for line in batch_lines(summary, breaker):
        console.print(line)
    across, name = summary.validity_across or [], shlex.quote(summary.batch)
    for found in across[:MOST]:
        style = LEVEL_STYLE.get(found.level, "dim")
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
    rows = [
        {
            "task": escape(group.task),
            "measured": f"{sum(group.valid)} of {group.wanted}",
            "baseline": score_words(group.baseline),
            "std": score_words(group.std),
            "run again": str(group.resample or "–"),
            "": _state(group),
        }
        for group in groups
    ]
    columns = ("task", "measured", "baseline", "std", "run again", "")
    print_columns(make_console(), columns, rows, dispensable=("std", "baseline"))


def _state(group: models.Group) -> str:
    if group.drop:
        return "[red]drop[/red]"
    return "" if group.settled else "[dim]running[/dim]"


def batch_lines(summary: models.BatchSummary, breaker: models.Breaker) -> list[str]:
    """Return a batch's numbers and its open breakers as lines, in rich's markup."""
    facts = {name: value for name, value in _batch_facts(summary).items() if value}
    return [
        f"[bold]{escape(summary.batch)}[/bold]",
        *fact_lines(facts),
        *_breaker_lines(breaker),
    ]


def _breaker_lines(breaker: models.Breaker) -> list[str]:
    """Return a line for each breaker that is not closed."""
    stopped = [lane for lane in breaker.lanes if lane.phase != "closed"]
    lines = [f"[red]{escape(_lane_line(breaker.batch, lane))}[/red]" for lane in stopped[:MOST]]
    if len(stopped) > MOST:
        lines.append(f"[dim]and {plural(len(stopped) - MOST, 'more breaker')}[/dim]")
    return lines


def _batch_facts(summary: models.BatchSummary) -> dict[str, str | None]:
    measured = f"{summary.scored} scored, {summary.scoreable} scoreable of {summary.total}"
    bounds = f"between {score_words(summary.score_worst)} and {score_words(summary.score_best)}"
    return {
        "measurement": "[green]valid[/green]" if summary.valid else "[red]not valid[/red]",
        "rollouts": f"{summary.rollouts:,}, {running_in(summary):,} running, "
        f"{summary.skipped:,} skipped",
        "zeros": zeros_line(summary.zeros),
        "unearned": unearned_line(summary),
        "own failures": _own_failures(summary.own_failures),
        "score": f"{score_words(summary.score_effective)} over measured tasks ({measured})",
        "failures as 0": f"{score_words(summary.score_all)}; the true score is {bounds}",
        "health": _counts(summary.health, HEALTH_STYLE),
        "causes": _counts(summary.fingerprint, {}),
        "validity": _found(summary),
        "tokens": _batch_tokens(summary),
        "cost": _with(
            dollars(summary.cost_usd), _without(summary, summary.cost_known_calls, "a price")
        ),
        "time": _batch_time(summary),
        "rerun although scored": _first(
            summary.retried_after_score, summary.retried_after_score_total
        ),
    }


def unearned_line(summary: models.BatchSummary) -> str | None:
    """Return how many rollouts have a score that no model earned, and how to list them."""
    if not summary.unearned:
        return None
    listed = f"truezero list --batch {shlex.quote(summary.batch)} --unearned"
    scores = plural(summary.unearned, "score")
    return f"{scores} that no model earned: {escape(listed)}"


def zeros_line(zeros: models.ReportedZeros | None) -> str | None:
    """Return how many reported zeros are no measurements, and why; None of an older service."""
    if zeros is None:
        return None
    if not zeros.reported:
        return "none reported"
    if not zeros.not_measured:
        return f"{plural(zeros.reported, 'zero')}, each a measurement"
    causes = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in zeros.by_cause.items())
    are = "is not a measurement" if zeros.not_measured == 1 else "are not measurements"
    return f"{zeros.not_measured:,} of {plural(zeros.reported, 'zero')} {are}: {escape(causes)}"


def _own_failures(count: int | None) -> str | None:
    """Return how many scores count although no model answered; None if none does."""
    if not count:
        return None
    return f"{plural(count, 'score')} of agents' own failures: no model answered, and they count"


def _lane_line(batch: str, lane: models.BreakerLane) -> str:
    state = f"breaker {lane.phase.replace('_', ' ')} on {lane.lane}"
    failed = f"{plural(lane.streak, 'rollout')} in a row failed with {lane.fingerprint}"
    reset = ""
    if lane.phase == "open":
        reset = f"; fix it, then POST {of_batch(batch, '/breaker/reset')}"
    return f"{state}: {failed}{reset}"


def _counts(counts: Mapping[str, int], styles: Mapping[str, str]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    told = [f"{count} {styled(name, styles)}" for name, count in ordered[:MOST]]
    return ", ".join([*told, *_others(len(ordered))])


def _first(names: Sequence[str], total: int | None) -> str:
    return ", ".join([*map(escape, names[:MOST]), *_others(total or len(names))])


def _others(count: int) -> list[str]:
    return [f"and {count - MOST:,} more (--json)"] if count > MOST else []


def _batch_tokens(summary: models.BatchSummary) -> str | None:
    if summary.total_tokens is None:
        return None
    told = f"{amount(summary.input_tokens)} in, {amount(summary.output_tokens)} out"
    return _with(told, _without(summary, summary.tokens_known_calls, "counts"))


def _batch_time(summary: models.BatchSummary) -> str | None:
    """Return the seconds of its rollouts that were lost and waited; None if none was."""
    parts = ((summary.lost_s, "lost to failures"), (summary.held_s, "waiting at the proxy"))
    return ", ".join(f"{seconds:,.1f} s {what}" for seconds, what in parts if seconds) or None


def _found(summary: models.BatchSummary) -> str | None:
    """Count rollouts by the worst level of what was found, and by check."""
    if not summary.validity:
        return None
    levels = _counts(summary.validity, LEVEL_STYLE)
    return f"{levels} ({_counts(summary.validity_checks or {}, {})})"


def _without(summary: models.BatchSummary, known: int | None, what: str) -> str | None:
    """Say of how many calls a sum knows nothing; None if it knows all, or nobody counted."""
    if summary.calls is None or known is None or known >= summary.calls:
        return None
    return f"{summary.calls - known} of {plural(summary.calls, 'call')} without {what}"


def _with(told: str | None, beside: str | None) -> str | None:
    return f"{told or 'unknown'} ({beside})" if beside else told


def print_check(check: models.Check, breaker: models.Breaker) -> None:
    """Print if a batch is a valid measurement, each objection on a line, and open breakers."""
    console = make_console(soft_wrap=True)
    for line in check.lines:
        console.print(escape(line))
    if (total := check.lines_total or 0) > len(check.lines):
        console.print(f"[dim]and {plural(total - len(check.lines), 'more rollout')}[/dim]")
    if check.exclusion_p is not None:
        console.print(exclusion_words(check.exclusion_bias, check.exclusion_p))
    for line in _breaker_lines(breaker):
        console.print(line)
    result = "[green]valid[/green]" if check.valid else "[red]not a valid measurement[/red]"
    console.print(f"{escape(check.batch)}: {result}")


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
    from rich.live import Live  # noqa: PLC0415  only `watch` needs it

    def state() -> list[str]:
        summary, breaker = load()
        return [*batch_lines(summary, breaker), "", f"[dim]{waiting_line(summary)}[/dim]"]

    lines: list[str] = []
    shown = state()
    changed, loaded_at = False, clock()
    console = Console(highlight=False)
    with Live(Group(*shown), console=console, auto_refresh=False, transient=False) as live:

        def follow(event: Event) -> None:
            nonlocal shown, changed, loaded_at
            if event.kind != "alive":
                changed = True
                lines.append(event_line(event))
                del lines[:-8]
            if changed and clock() - loaded_at >= every_s:
                shown = state()
                changed, loaded_at = False, clock()
            live.update(Group(*shown, *map(escape, lines)), refresh=True)

        yield follow


def waiting_line(summary: models.BatchSummary) -> str:
    """Return what a watched batch has to do next, and how to stop watching it."""
    if count := running_in(summary):
        waiting = f"waiting for {plural(count, 'running rollout')} to end"
    else:
        waiting = "no rollout is running: waiting for the next one to begin"
    return f"{waiting}; Ctrl-C stops watching"


def event_line(event: Event) -> str:
    """Return an event as a line: kind, rollout or lane, details."""
    data = event.data
    who = data.get("task") or data.get("rollout_id") or data.get("lane")
    names = ("health", "error", "subcategory", "fingerprint", "status", "validity")
    how = [*map(data.get, names), *(data.get("validity_checks") or ())]
    details: Iterable[str] = dict.fromkeys(str(value) for value in how if value is not None)
    line = " · ".join(filter(None, (event.kind.replace("_", " "), str(who or ""), *details)))
    return visible(line)


# --- comparisons ---


_CHANGES: dict[str, str] = {
    "broken": "red", "fixed": "green", "unmeasured_b": "yellow", "unmeasured_a": "yellow",
    "unmeasured_both": "yellow", "only_a": "dim", "only_b": "dim", "unchanged": "dim",
}  # fmt: skip
_RERUNS: dict[models.RerunName, str] = {
    "transient": "run again now",
    "fix_first": "fix first, then run again",
    "skipped": "not admitted by an open breaker",
    "undecided": "evidence is missing",
    "unmeasured": "the provider did not fail, and there is no score",
}


def print_comparison(found: models.BatchComparison, *, most: int | None) -> None:
    """Print both scores, their difference over what both measured, and what changed.

    Arguments:
        most: how many tasks are listed of each change; None lists all.
    """
    console = make_console(soft_wrap=True)
    _print_sides(console, found)
    console.print(_difference(found))
    for change, style in _CHANGES.items():
        count = found.counts.get(change, 0)
        if count:
            console.print(f"[{style}]{_label(change, found)}[/{style}]: {count}")
        if count and change != "unchanged":
            _print_tasks(console, [t for t in found.tasks if t.change == change], most)
    if found.without_task:
        console.print(
            f"{plural(found.without_task, 'rollout')} without a task compare with nothing"
        )


def _print_sides(console: Console, found: models.BatchComparison) -> None:
    rows = [
        {
            "": letter,
            "batch": escape(side.batch),
            "score": number(side.score_effective, ".3f"),
            "95 %": interval_words(side.score_ci),
            "measured": f"{side.scored} of {side.total}",
        }
        for letter, side in (("A", found.a), ("B", found.b))
    ]
    columns = ("", "batch", "score", "95 %", "measured")
    print_columns(console, columns, rows, dispensable=("95 %", "measured"))


def _difference(found: models.BatchComparison) -> str:
    if found.difference is None:
        return "no task was measured in both: nothing to compare"
    interval = (
        "" if found.difference_ci is None else f" (95 % {interval_words(found.difference_ci)})"
    )
    tasks = plural(found.compared, "task")
    return (
        f"difference B - A: [bold]{found.difference:+.3f}[/bold]{interval} "
        f"over the {tasks} that both measured "
        f"({number(found.score_a, '.3f')} to {number(found.score_b, '.3f')})"
    )


def _label(change: str, found: models.BatchComparison) -> str:
    a, b = escape(found.a.batch), escape(found.b.batch)
    return {
        "broken": "broken, lower in B",
        "fixed": "fixed, higher in B",
        "unmeasured_a": f"not measured in A, {a}",
        "unmeasured_b": f"not measured in B, {b}",
        "unmeasured_both": "measured in neither",
        "only_a": "only in A",
        "only_b": "only in B",
        "unchanged": "unchanged",
    }[change]


def _print_tasks(console: Console, tasks: Sequence[models.TaskChange], most: int | None) -> None:
    shown = tasks if most is None else tasks[:most]
    for each in shown:
        console.print(f"  {escape(each.task)}  {_task(each.a)} → {_task(each.b)}")
    if len(shown) < len(tasks):
        console.print(f"  [dim]and {len(tasks) - len(shown)} more: --all lists them[/dim]")


def _task(score: models.TaskScore) -> str:
    if score.repeats < 2:
        return number(score.score, ".3f")
    return f"{number(score.score, '.3f')} ({score.measured} of {score.repeats})"


# --- what to run again ---


def print_reruns(found: models.Reruns, only: Sequence[str], *, most: int) -> None:
    """Print what to run again, by what is to be done first and then by cause.

    Arguments:
        only: names of lists; none prints all of them.
        most: how many rollouts are listed of one cause.
    """
    console = make_console(soft_wrap=True)
    for name, words in _RERUNS.items():
        kind = found.kind(name)
        if only and name not in only:
            continue
        if kind.count or only:
            console.print(f"[bold]{name}[/bold]: {kind.count} ({words})")
        for group in kind.groups:
            fix = f": {escape(group.fix)}" if group.fix else ""
            console.print(f"  {escape(group.cause)}, {group.count}{fix}")
            for item in group.items[:most]:
                console.print(f"    {_item(item)}")
            if group.count > most:
                more = group.count - most
                console.print(f"    [dim]and {more} more: --ids --only {name}[/dim]")
    if found.running:
        console.print(f"[dim]{plural(found.running, 'rollout')} still running[/dim]")
    if not any(found.kind(name).count for name in _RERUNS):
        console.print(f"{escape(found.batch)}: nothing to run again")


def _item(item: models.RerunItem) -> str:
    name = item.rollout_id or f"{item.task}, repeat {item.repeat}"
    wait = "" if item.after_s is None else f" after {item.after_s:g} s"
    return escape(name) + wait


def rerun_ids(found: models.Reruns, only: Sequence[str]) -> Iterator[str]:
    """Yield the ids of the last attempts in these lists."""
    for item in _items(found, only):
        if item.rollout_id is not None:
            yield visible(item.rollout_id)


def commands(found: models.Reruns, only: Sequence[str], url: str | None = None) -> Iterator[str]:
    """Yield a command for each repeat in these lists; ``$AGENT`` stands for the agent's own.

    The policy is the batch's: whoever registers a rollout in it later cannot change it.

    Arguments:
        url: address of the service; None leaves it out.
    """
    for item in _items(found, only):
        words = ["truezero", "run", "--batch", found.batch]
        if item.task is not None:
            words += ["--task", item.task]
            words += [] if item.repeat is None else ["--repeat", str(item.repeat)]
            words += [] if item.repeats is None else ["--repeats", str(item.repeats)]
            words += ["--attempt", str(item.attempt)]
        words += [] if item.model is None else ["--model", item.model]
        words += [] if item.upstream is None else ["--upstream", item.upstream]
        words += [] if url is None else ["--url", url]
        yield visible(shlex.join([*words, "--"])) + " $AGENT"


def _items(found: models.Reruns, only: Sequence[str]) -> Iterator[models.RerunItem]:
    for name in only:
        for group in found.kind(cast("models.RerunName", name)).groups:
            yield from group.items


# --- lists ---


def print_rollouts(items: Sequence[models.RolloutItem], *, more: bool) -> None:
    """Print a line for each rollout.

    Arguments:
        more: whether there are others.
    """
    rows = [
        {
            "rollout": escape(item.id),
            "batch": escape(item.batch or "–"),
            "task": escape(f"{item.task}{_repeat(item)}" if item.task else "–"),
            "health": "agent's own failure" if item.own_failures else health_word(item.health),
            "cause": escape(item.fingerprint or ""),
            "reward": _reward(item),
            "tokens": number(item.total_tokens, ",d"),
            "cost": number(item.cost_usd, ".4f", "$"),
            "began (UTC)": moment(item.created_at),
        }
        for item in items
    ]
    print_list(_ROLLOUT_COLUMNS, rows, _ROLLOUT_DISPENSABLE, "rollouts", more=more)


_ROLLOUT_COLUMNS = (
    "rollout", "batch", "task", "health", "cause", "reward", "tokens", "cost", "began (UTC)",
)  # fmt: skip
_ROLLOUT_DISPENSABLE = ("tokens", "cost", "began (UTC)", "batch", "task", "cause", "health")


def _repeat(item: models.RolloutItem) -> str:
    return "" if item.repeat is None else f" #{item.repeat}"


def _reward(item: models.RolloutItem) -> str:
    """Return a reward; one that was reported and does not count stands behind its null."""
    if item.reward is None and item.reported_reward is not None and not item.provisional:
        return f"null [dim]({item.reported_reward:g})[/dim]"
    return number(item.reward, "g")


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


def print_batches(items: Sequence[models.BatchItem], *, more: bool) -> None:
    """Print a line for each batch.

    Arguments:
        more: whether there are others.
    """
    rows = [
        {
            "batch": escape(item.batch),
            "rollouts": f"{item.rollouts:,d}",
            "running": f"{running_in(item):,d}",
            "measured": f"{item.scored} of {item.total}",
            "not measurements": _false_zeros(item.zeros),
            "score": number(item.score_effective, ".3f"),
            "95 %": "" if item.score_ci is None else interval_words(item.score_ci),
            "valid": "[green]yes[/green]" if item.valid else "[red]no[/red]",
            "cost": number(item.cost_usd, ".4f", "$"),
            "last began (UTC)": moment(item.last_at),
        }
        for item in items
    ]
    print_list(_BATCH_COLUMNS, rows, _BATCH_DISPENSABLE, "batches", more=more)


_BATCH_COLUMNS = (
    "batch", "rollouts", "running", "measured", "not measurements", "score", "95 %", "valid",
    "cost", "last began (UTC)",
)  # fmt: skip
_BATCH_DISPENSABLE = (
    "cost", "95 %", "last began (UTC)", "rollouts", "running", "measured", "not measurements",
    "score",
)  # fmt: skip


def _false_zeros(zeros: models.ReportedZeros | None) -> str:
    if zeros is None or not zeros.reported:
        return ""
    return f"{zeros.not_measured or 'none'} of {plural(zeros.reported, 'zero')}"


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
