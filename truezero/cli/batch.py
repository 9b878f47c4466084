"""`truezero batch`: what a batch's score stands on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from truezero.cli.options import (
    MOST,
    batch_argument,
    json_option,
    print_json,
    print_page,
    reading,
    service_options,
)
from truezero.cli.text import (
    HEALTH_STYLE,
    LEVEL_STYLE,
    amount,
    dollars,
    escape,
    fact_lines,
    interval_words,
    make_console,
    running_in,
    score_words,
    styled,
    wait_words,
)
from truezero.printable import (
    measured_words,
    not_measurements,
    parts_words,
    plural,
    repeat_name,
)

if TYPE_CHECKING:  # a command that prints does not wait for pydantic
    from rich.console import Console

    import truezero
    from truezero import models
    from truezero.cli.reader import Reader


@click.command()
@batch_argument
@service_options
@json_option
def batch(
    *,
    name: str,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Print a batch's scores, coverage, failure causes and rollouts to run again."""
    with reading(url, token) as service:
        summary, breaker = service.summary(name), breaker_of(service, name)
    if as_json:
        print_json(summary)
    else:
        print_batch(summary, breaker)
        print_page(service.url, "batches", name)


def print_batch(summary: models.BatchSummary, breaker: models.Breaker | None) -> None:
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
        named = repeat_name(item.task, item.repeat) or item.rollout_id
        again = f"{escape(named)}{wait_words(item.after_s)}"
        console.print(f"run again: {again} ({escape(item.reason)})")
    _print_more(console, summary.retry_total or len(summary.retry), f"truezero rerun {name}")


def _print_more(console: Console, count: int, command: str) -> None:
    """Say how many lines of a list were left out, and what lists them."""
    if count > MOST:
        console.print(f"[dim]and {count - MOST:,} more: {escape(command)}[/dim]", highlight=False)


def batch_lines(summary: models.BatchSummary, breaker: models.Breaker | None) -> list[str]:
    """Return a batch's numbers and its open breakers as lines, in rich's markup."""
    facts = {name: value for name, value in _batch_facts(summary).items() if value}
    return [
        f"[bold]{escape(summary.batch)}[/bold]",
        *fact_lines(facts),
        *breaker_lines(breaker),
    ]


def breaker_of(service: Reader | truezero.Client, name: str) -> models.Breaker | None:
    """Return the breakers of a batch that is known; None if its service has no breakers."""
    from truezero.sdk.errors import ServiceError  # noqa: PLC0415  a start need not load it

    try:
        return service.breaker(name)
    except ServiceError as error:
        if error.status != 404:
            raise
        return None


def breaker_lines(breaker: models.Breaker | None) -> list[str]:
    """Return a line for each breaker that is not closed."""
    if breaker is None:
        return []
    stopped = [lane for lane in breaker.lanes if lane.phase != "closed"]
    lines = [f"[red]{escape(_lane_line(breaker.batch, lane))}[/red]" for lane in stopped[:MOST]]
    if len(stopped) > MOST:
        lines.append(f"[dim]and {plural(len(stopped) - MOST, 'more breaker')}[/dim]")
    return lines


def _lane_line(batch: str, lane: models.BreakerLane) -> str:
    state = f"breaker {lane.phase.replace('_', ' ')} on {lane.lane}"
    failed = f"{plural(lane.streak, 'rollout')} in a row failed with {lane.fingerprint}"
    then = "fix it, then" if lane.phase == "open" else "to admit another probe:"
    return f"{state}: {failed}; {then} truezero breaker reset {shlex.quote(batch)}"


def _batch_facts(summary: models.BatchSummary) -> dict[str, str | None]:
    failures_as_0 = score_words(summary.score_all)
    if summary.score_worst is not None:
        worst, best = score_words(summary.score_worst), score_words(summary.score_best)
        failures_as_0 += f"; the true score is between {worst} and {best}"
    elif summary.reward_least is not None:
        least, greatest = f"{summary.reward_least:g}", f"{summary.reward_greatest:g}"
        failures_as_0 += f"; rewards from {least} to {greatest}, no range was registered"
    return {
        "measurement": "[green]valid[/green]" if summary.valid else "[red]not valid[/red]",
        "rollouts": f"{summary.rollouts:,}, {running_in(summary):,} running, "
        f"{summary.skipped:,} skipped",
        "repeats": _parts(summary),
        "zeros": _zeros_line(summary),
        "scores above 0": _ones_line(summary),
        "unearned": _unearned_line(summary),
        "own failures": _own_failures(summary.own_failures),
        "reported": score_words(summary.score_reported),
        "score": _score(summary),
        "coverage": measured_words(summary.scored, summary.total, summary.own_failures or 0),
        "failures as 0": failures_as_0,
        "health": _counts(summary.health, HEALTH_STYLE),
        "causes": _counts(summary.fingerprint, {}),
        "validity": _found(summary),
        "tokens": _batch_tokens(summary),
        "cost": _with(
            _bound(summary, summary.cost_known_calls, dollars(summary.cost_usd)),
            _without(summary, summary.cost_known_calls, "without a known price"),
        ),
        "time": _batch_time(summary),
        "rerun although scored": _first(
            summary.retried_after_score, summary.retried_after_score_total
        ),
    }


def _score(summary: models.BatchSummary) -> str:
    """Return the score over what was measured with its interval, or why there is none."""
    if summary.no_score is not None:
        return escape(summary.no_score)
    score = score_words(summary.score_effective)
    if summary.score_ci is None:
        return score
    return f"{score}, 95 % interval {interval_words(summary.score_ci)}"


def _parts(summary: models.BatchSummary) -> str | None:
    """Return in which part each planned repeat is; None of an older service."""
    if summary.parts is None or summary.repeats_planned is None:
        return None
    return f"{summary.repeats_planned:,} planned: {parts_words(dict(summary.parts))}"


def _ones_line(summary: models.BatchSummary) -> str | None:
    """Return how many scores above 0 are no measurements, and why; None if none is."""
    ones = summary.ones
    if ones is None or not ones.not_measured:
        return None
    ones_of = f"{ones.not_measured:,} of {plural(ones.reported, 'score')} above 0"
    why = f"{not_measurements(ones.not_measured)}: {escape(_causes(ones.by_cause))}"
    return f"{ones_of} {why}; {_listing(summary, '--false-one')}"


def _causes(by_cause: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in by_cause.items())


def _unearned_line(summary: models.BatchSummary) -> str | None:
    """Return how many rollouts have a score that no model earned, and how to list them."""
    if not summary.unearned:
        return None
    scores = plural(summary.unearned, "score")
    return f"{scores} that no model earned: {_listing(summary, '--unearned')}"


def _listing(summary: models.BatchSummary, flag: str) -> str:
    """Return the command that lists some of a batch's rollouts."""
    return escape(f"truezero list --batch {shlex.quote(summary.batch)} {flag}")


def _zeros_line(summary: models.BatchSummary) -> str | None:
    """Return how many reported zeros are no measurements, and why; None of an older service."""
    zeros = summary.zeros
    if zeros is None:
        return None
    if not zeros.reported:
        return "none reported"
    if not zeros.not_measured:
        return f"{plural(zeros.reported, 'zero')}, each a measurement"
    zeros_of = f"{zeros.not_measured:,} of {plural(zeros.reported, 'zero')}"
    why = f"{not_measurements(zeros.not_measured)}: {escape(_causes(zeros.by_cause))}"
    return f"{zeros_of} {why}; {_listing(summary, '--false-zero')}"


def _own_failures(count: int | None) -> str | None:
    """Return how many scores count although no model answered; None if none does."""
    if not count:
        return None
    return f"{plural(count, 'score')} of agents' own failures: no model answered, and they count"


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
    known = summary.tokens_known_calls
    return _with(_bound(summary, known, told), _without(summary, known, "did not say"))


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
    return f"{summary.calls - known} of {plural(summary.calls, 'call')} {what}"


def _bound(summary: models.BatchSummary, known: int | None, told: str | None) -> str | None:
    """Say of a sum that knows nothing of some calls that it is a lower bound."""
    return f"at least {told}" if told and _without(summary, known, "") else told


def _with(told: str | None, beside: str | None) -> str | None:
    return f"{told or 'unknown'} ({beside})" if beside else told
