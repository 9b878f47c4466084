"""Commands on batches, and lists of rollouts and batches."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

import truezero
from truezero.cli import gone
from truezero.cli.options import (
    MOST,
    batch_argument,
    connected,
    json_option,
    print_json,
    print_page,
    reading,
    service_options,
)

if TYPE_CHECKING:
    from truezero import models


# The lists of `GET /batches/{id}/rerun`.
_RERUN_LISTS = ("transient", "fix_first", "skipped", "undecided", "unmeasured")


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
    from truezero.cli import output  # noqa: PLC0415  tables are only loaded where they are printed

    with reading(url, token) as service:
        summary, breaker = service.summary(name), service.breaker(name)
    if as_json:
        print_json(summary)
    else:
        output.print_batch(summary, breaker)
        print_page(service.url, "batches", name)


@click.command()
@batch_argument
@service_options
@json_option
def check(
    *,
    name: str,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Check that a batch is a valid measurement; exit code 1 and the reasons if it is not."""
    from truezero.cli import output  # noqa: PLC0415

    with reading(url, token) as service:
        result, breaker = service.check(name), service.breaker(name)
    if as_json:
        print_json(result)
    else:
        output.print_check(result, breaker)
        print_page(service.url, "batches", name)
    raise Exit(0 if result.valid else 1)


@click.command()
@batch_argument
@service_options
@json_option
@gone.option("--method", type=str, instead="trainers compute advantages")
@click.option(
    "--min-valid",
    type=click.IntRange(min=1),
    default=2,
    help="Drop groups that cannot reach this many measured rollouts.",
)
def groups(
    *,
    name: str,
    url: str | None,
    token: str | None,
    as_json: bool,
    min_valid: int,
) -> None:
    """Print a batch's rollouts by task: measured, to run again, to drop."""
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.groups(name, min_valid=min_valid)
    if as_json:
        print_json(found)
    else:
        output.print_groups(found)
        print_page(client.url, "batches", name, tab="tasks")


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@service_options
@json_option
@click.option(
    "--all", "everything", is_flag=True, help="List every task that differs or was not measured."
)
def compare(
    *,
    a: str,
    b: str,
    url: str | None,
    token: str | None,
    as_json: bool,
    everything: bool,
) -> None:
    """Compare two batches task by task: fixed, broken, not measured.

    A is the batch to compare with, B the one that is compared. Scores are over the tasks that
    both measured.
    """
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.compare(a, b)
    if as_json:
        print_json(found)
    else:
        output.print_comparison(found, most=None if everything else MOST)
        print_page(client.url, "compare", a=a, b=b)


@click.command()
@batch_argument
@service_options
@click.option(
    "--only", multiple=True, type=click.Choice(_RERUN_LISTS), help="Only this list; repeatable."
)
@click.option("--ids", is_flag=True, help="Print the rollouts' IDs, one a line.")
@click.option("--command", is_flag=True, help="Print a `truezero run … -- $AGENT` line for each.")
@json_option
def rerun(
    *,
    name: str,
    url: str | None,
    token: str | None,
    only: tuple[str, ...],
    ids: bool,
    command: bool,
    as_json: bool,
) -> None:
    """List what to run again: now, once its cause is fixed, or after a look.

    --ids and --command are of the transient ones, unless --only names other lists.
    """
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.rerun(name)
    if as_json:
        print_json(found)
        return
    if ids or command:
        wanted = only or ["transient"]
        for line in output.rerun_ids(found, wanted) if ids else output.commands(found, wanted, url):
            click.echo(line)
    else:
        output.print_reruns(found, only, most=MOST)
        print_page(client.url, "batches", name, tab="again")


@click.command()
@batch_argument
@service_options
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
def watch(
    *,
    name: str,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Follow a batch live; stop with Ctrl-C."""
    with connected(url, token) as client, suppress(KeyboardInterrupt):
        client.summary(name)  # a batch that does not exist has no events to wait for
        if as_json:
            _print_events(client, name)
        else:
            _show_events(client, name)
    if not as_json:
        print_page(client.url, "batches", name)


def _print_events(client: truezero.Client, batch_name: str) -> None:
    for event in client.events(batch_name):
        click.echo(json.dumps({"id": event.id, "event": event.kind, **event.data}))
        sys.stdout.flush()


def _show_events(client: truezero.Client, batch_name: str) -> None:
    from truezero.cli import output  # noqa: PLC0415

    def state() -> tuple[models.BatchSummary, models.Breaker]:
        return client.summary(batch_name), client.breaker(batch_name)

    with output.live_batch(state) as follow:
        for event in client.events(batch_name, alive=True):
            follow(event)


# --- lists ---
#
# The newest first.


_MOST = 50  # rows of a table, unless more are asked for
_MOST_BATCHES = 20

limit_option = click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")


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
@click.option("--scoreable", multiple=True, help="yes, no or unknown; repeatable.")
@click.option("--unearned", is_flag=True, default=None, help="With a score no model earned.")
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
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
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
    from truezero.cli import output  # noqa: PLC0415  tables are only loaded where printed

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
    output.print_rollouts(shown[:most], more=len(shown) > most)
    defaults = {"sort": "created_at", "order": "desc"}
    chosen = {name: each for name, each in asked.items() if each != defaults.get(name)}
    print_page(service.url, "rollouts", **chosen)


@click.command()
@limit_option
@service_options
@json_option
def batches(
    *,
    limit: int | None,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """List batches, the newest first: coverage, score, cost, what runs, what failed.

    A table has 20 of them unless --limit says otherwise; --json prints all.
    """
    from truezero.cli import output  # noqa: PLC0415

    with reading(url, token) as service:
        found = service.iter_batches()
        if as_json:
            print_json([*islice(found, limit)])
            return
        most = limit or _MOST_BATCHES
        shown = list(islice(found, most + 1))
    output.print_batches(shown[:most], more=len(shown) > most)
    print_page(service.url)
