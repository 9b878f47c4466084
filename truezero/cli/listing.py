"""`truezero list` and `truezero batches`: rollouts and batches as tables, the newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

import truezero
from truezero.cli.options import (
    csv_option,
    json_option,
    print_csv,
    print_json,
    print_page,
    reading,
    service_options,
)
from truezero.cli.text import (
    escape,
    health_word,
    interval_words,
    moment,
    number,
    print_list,
    running_in,
)
from truezero.mistakes import meant
from truezero.printable import plural, visible

if TYPE_CHECKING:
    from truezero import models

_MOST = 50  # rows of a table, unless more are asked for
_MOST_BATCHES = 20
_LOOKED_AT = 1_000  # of the newest rollouts, for a task that is misspelt

limit_option = click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")


# --- rollouts ---


@click.command("list")
@click.option("--batch", multiple=True, help="Of this batch; - is none; repeatable.")
@click.option("--task", multiple=True, help="Of this task; repeatable.")
@click.option(
    "--repeat", multiple=True, type=int, help="This sample of a task, from 0; repeatable."
)
@click.option(
    "--attempt", multiple=True, type=int, help="This try of a sample, from 0; repeatable."
)
@click.option("--model", multiple=True, help="Registered for this model, or called it; repeatable.")
@click.option("--upstream", multiple=True, help="The same of this upstream; repeatable.")
@click.option("--role", multiple=True, help="With a call in this role; repeatable.")
@click.option("--health", multiple=True, help="With this health; repeatable.")
@click.option("--subcategory", multiple=True, help="Failed for this reason; repeatable.")
@click.option(
    "--fingerprint", multiple=True, help="Failed with this, such as auth:401; repeatable."
)
@click.option("--cause", multiple=True, help="Failed for this cause; repeatable.")
@click.option("--rule", multiple=True, help="By the rule that fired, as own_failures; repeatable.")
@click.option("--validity", multiple=True, help="By the worst finding, or by a check; repeatable.")
@click.option("--reward", multiple=True, help="zero, nonzero, null or missing; repeatable.")
@click.option("--reported", multiple=True, help="Reported: zero, nonzero or null; repeatable.")
@click.option("--scoreable", multiple=True, help="yes, no or unknown; repeatable.")
@click.option("--unearned", is_flag=True, default=None, help="With a score no model earned.")
@click.option("--false-zero", is_flag=True, default=None, help="Reported as 0, and not measured.")
@click.option("--false-one", is_flag=True, default=None, help="Reported above 0, not measured.")
@click.option("--measured", is_flag=True, default=None, help="With a reward that counts.")
@click.option(
    "--superseded/--not-superseded",
    default=None,
    help="Another attempt counts for its repeat; or one rollout for each repeat.",
)
@click.option("--running", is_flag=True, default=None, help="Not ended.")
@click.option("--skipped", is_flag=True, default=None, help="Not admitted by an open breaker.")
@click.option("--text", help="Part of a name or a cause, such as quota.")
@click.option("--since", help="Started at or after this time: ISO 8601, or seconds since 1970.")
@click.option("--until", help="Started before this time.")
@click.option("--failed-since", help="With a failed call started at or after this time.")
@click.option("--failed-until", help="With a failed call started before this time.")
@click.option(
    "--sort", default="created_at", help="A column, such as created_at, task, reward or cost_usd."
)
@click.option("--order", default="desc", help="asc or desc.")
@limit_option
@service_options
@csv_option
@json_option
def rollouts(
    *,
    limit: int | None,
    url: str | None,
    token: str | None,
    as_csv: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """List rollouts, the newest first; filters as of `GET /rollouts`.

    A table has 50 of them unless --limit says otherwise; --csv and --json print all.
    """
    asked = {name: value for name, value in filters.items() if value not in (None, ())}
    with reading(url, token) as service:
        if as_csv:
            for line in islice(service.rollouts_csv(**asked), limit and limit + 1):
                click.echo(line)
            return
        found = service.iter_rollouts(**asked)
        if as_json:
            print_json([*islice(found, limit)])
            return
        most = limit or _MOST
        shown = list(islice(found, most + 1))
        if not shown:
            _note_misspelt(service, asked)
    print_rollouts(shown[:most], more=len(shown) > most)
    defaults = {"sort": "created_at", "order": "desc"}
    chosen = {name: each for name, each in asked.items() if each != defaults.get(name)}
    print_page(service.url, "rollouts", **chosen)


def _note_misspelt(service: Any, asked: Mapping[str, Any]) -> None:
    """Say which batch or task does not exist, where nothing matches; exit codes stay."""
    names = [name for name in asked.get("batch", ()) if name != "-"]
    for name in names:
        try:
            service.summary(name)
        except truezero.ServiceError as error:
            click.echo(f"truezero: {visible(str(error))}", err=True)
            return
    if tasks := asked.get("task", ()):
        items = islice(service.iter_rollouts(**({"batch": names} if names else {})), _LOOKED_AT)
        known = {item.task for item in items if item.task}
        for task in (known.isdisjoint(tasks) and tasks) or ():
            note = f"no rollout of task {task!r}{meant(task, known, repr)}"
            click.echo(f"truezero: {visible(note)}", err=True)


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
            "health": _health(item),
            "cause": escape(item.fingerprint or _opened_by(item)),
            "reward": _reward(item),
            "tokens": number(item.total_tokens, ",d"),
            "cost": number(item.cost_usd, ".4f", "$"),
            "began (UTC)": moment(item.created_at),
        }
        for item in items
    ]
    print_list(_ROLLOUT_COLUMNS, rows, _ROLLOUT_DISPENSABLE, "rollouts", more=more)


def _health(item: models.RolloutItem) -> str:
    if item.own_failures:
        return "agent's own failure"
    kept_out = item.skipped and item.health in (None, "not_judged")
    return "skipped" if kept_out else health_word(item.health)


def _opened_by(item: models.RolloutItem) -> str:
    """Return the cause of the breaker that skipped a rollout; empty if none did."""
    if item.skipped is None:
        return ""
    from classifier.reruns import opened_by  # noqa: PLC0415  loads the classifier

    return opened_by(item.skipped)


def _repeat(item: models.RolloutItem) -> str:
    return "" if item.repeat is None else f" #{item.repeat}"


def _reward(item: models.RolloutItem) -> str:
    """Return a reward; one that was reported and does not count stands behind its null."""
    if item.reward is None and item.reported_reward is not None and not item.provisional:
        return f"null [dim]({item.reported_reward:g})[/dim]"
    return number(item.reward, "g")


_ROLLOUT_COLUMNS = (
    "rollout", "batch", "task", "health", "cause", "reward", "tokens", "cost", "began (UTC)",
)  # fmt: skip
_ROLLOUT_DISPENSABLE = ("tokens", "cost", "began (UTC)", "batch", "task", "cause", "health")


# --- batches ---


@click.command()
@limit_option
@service_options
@csv_option
@json_option
def batches(
    *,
    limit: int | None,
    url: str | None,
    token: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List batches, the newest first: coverage, score, cost, what runs, what failed.

    A table has 20 of them unless --limit says otherwise; --csv and --json print all.
    """
    with reading(url, token) as service:
        found = service.iter_batches()
        if as_csv:
            print_csv(_BATCH_CSV, map(_csv_row, islice(found, limit)))
            return
        if as_json:
            print_json([*islice(found, limit)])
            return
        most = limit or _MOST_BATCHES
        shown = list(islice(found, most + 1))
    print_batches(shown[:most], more=len(shown) > most)
    print_page(service.url)


def _csv_row(item: models.BatchItem) -> dict[str, Any]:
    """Return a batch's figures under REST's names; a part of one has both names."""
    low, high = (None, None) if item.score_ci is None else item.score_ci
    row: dict[str, Any] = {"score_ci_low": low, "score_ci_high": high}
    for name, counts in (("zeros", item.zeros), ("ones", item.ones)):
        row[f"{name}_reported"] = counts and counts.reported
        row[f"{name}_not_measured"] = counts and counts.not_measured
    return {**{name: getattr(item, name) for name in _BATCH_CSV if name not in row}, **row}


_BATCH_CSV = (
    "batch", "first_at", "last_at", "rollouts", "running", "skipped", "repeats_planned", "scored",
    "never_started", "coverage", "score_reported", "score_effective", "score_ci_low",
    "score_ci_high", "score_all", "score_worst", "score_best", "zeros_reported",
    "zeros_not_measured", "ones_reported", "ones_not_measured", "valid", "calls",
    "cost_known_calls", "cost_usd",
)  # fmt: skip


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


def _false_zeros(zeros: models.ReportedZeros | None) -> str:
    if zeros is None or not zeros.reported:
        return ""
    return f"{zeros.not_measured or 'none'} of {plural(zeros.reported, 'zero')}"


_BATCH_COLUMNS = (
    "batch", "rollouts", "running", "measured", "not measurements", "score", "95 %", "valid",
    "cost", "last began (UTC)",
)  # fmt: skip
_BATCH_DISPENSABLE = (
    "cost", "95 %", "last began (UTC)", "rollouts", "running", "measured", "not measurements",
    "score",
)  # fmt: skip
