"""Commands on batches, and lists of rollouts and batches."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import truezero
from truezero.cli.options import MOST, AsJson, Token, Url, connected

if TYPE_CHECKING:
    from truezero import models


class RerunChoice(StrEnum):
    """The lists of `GET /batches/{id}/rerun`."""

    TRANSIENT = "transient"
    FIX_FIRST = "fix_first"
    SKIPPED = "skipped"
    UNDECIDED = "undecided"
    UNMEASURED = "unmeasured"


BatchName = Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")]


def batch(
    name: Annotated[str, typer.Argument(metavar="ID", help="The batch.")],
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print a batch's scores, coverage, failure causes and rollouts to run again."""
    from truezero.cli import output  # noqa: PLC0415  tables are only loaded where they are printed

    with connected(url, token) as client:
        summary, breaker = client.summary(name), client.breaker(name)
    if as_json:
        typer.echo(json.dumps(summary.model_dump(mode="json"), indent=2))
    else:
        output.print_batch(summary, breaker)


def check(
    name: BatchName,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Check that a batch is a valid measurement; exit code 1 and the reasons if it is not."""
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        result = client.check(name)
    if as_json:
        typer.echo(json.dumps(result.model_dump(mode="json"), indent=2))
    else:
        output.print_check(result)
    raise typer.Exit(0 if result.valid else 1)


def groups(
    name: BatchName,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
    method: Annotated[
        str, typer.Option(help="Of the advantages: grpo, rloo (leave one out) or mean.")
    ] = "grpo",
    min_valid: Annotated[
        int, typer.Option(help="Drop groups that cannot reach this many measured rollouts.", min=1)
    ] = 2,
) -> None:
    """Print a batch's rollouts by task: measured, to run again, to drop; advantages with --json."""
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.groups(
            name, method=cast("models.AdvantageMethod", method), min_valid=min_valid
        )
    if as_json:
        typer.echo(json.dumps([group.model_dump(mode="json") for group in found], indent=2))
    else:
        output.print_groups(found)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The batch to compare with.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The batch that is compared.")],
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
    everything: Annotated[
        bool, typer.Option("--all", help="List every task that differs or was not measured.")
    ] = False,
) -> None:
    """Compare two batches task by task: fixed, broken, not measured; over what both measured."""
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.compare(a, b)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), indent=2))
    else:
        output.print_comparison(found, most=None if everything else MOST)


def rerun(
    name: BatchName,
    url: Url = None,
    token: Token = None,
    only: Annotated[
        list[RerunChoice] | None,
        typer.Option("--only", help="Only this list; repeatable.", show_default=False),
    ] = None,
    ids: Annotated[
        bool, typer.Option("--ids", help="Print the rollouts' IDs, one a line.")
    ] = False,
    command: Annotated[
        bool, typer.Option("--command", help="Print a `truezero run … -- $AGENT` line for each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List what to run again: now, once its cause is fixed, or after a look.

    --ids and --command are of the transient ones, unless --only names other lists.
    """
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.rerun(name)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), indent=2))
        return
    chosen = [choice.value for choice in only or ()]
    if ids or command:
        make = output.rerun_ids if ids else output.commands
        for line in make(found, chosen or ["transient"]):
            typer.echo(line)
    else:
        output.print_reruns(found, chosen, most=MOST)


def watch(
    name: BatchName,
    url: Url = None,
    token: Token = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as a line of JSON.")
    ] = False,
) -> None:
    """Follow a batch live; stop with Ctrl-C."""
    with connected(url, token) as client, suppress(KeyboardInterrupt):
        client.summary(name)  # a batch that does not exist has no events to wait for
        if as_json:
            _print_events(client, name)
        else:
            _show_events(client, name)


def _print_events(client: truezero.Client, batch_name: str) -> None:
    for event in client.events(batch_name):
        typer.echo(json.dumps({"id": event.id, "event": event.kind, **event.data}))
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

Limit = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of rows.", show_default=False)
]


def _several(text: str) -> Any:
    return typer.Option(help=f"{text}; repeatable.", show_default=False)


def rollouts(
    batch: Annotated[list[str] | None, _several("Of this batch; - is none")] = None,
    task: Annotated[list[str] | None, _several("Of this task")] = None,
    repeat: Annotated[list[int] | None, _several("This sample of a task, from 0")] = None,
    attempt: Annotated[list[int] | None, _several("This try of a sample, from 0")] = None,
    model: Annotated[list[str] | None, _several("Registered for this model, or called it")] = None,
    upstream: Annotated[list[str] | None, _several("The same of this upstream")] = None,
    role: Annotated[list[str] | None, _several("With a call in this role")] = None,
    health: Annotated[list[str] | None, _several("With this health")] = None,
    subcategory: Annotated[list[str] | None, _several("Failed for this reason")] = None,
    fingerprint: Annotated[list[str] | None, _several("Failed with this, such as auth:401")] = None,
    cause: Annotated[list[str] | None, _several("Failed for this cause")] = None,
    validity: Annotated[list[str] | None, _several("By the worst finding, or by a check")] = None,
    reward: Annotated[list[str] | None, _several("zero, nonzero, null or missing")] = None,
    scoreable: Annotated[list[str] | None, _several("yes, no or unknown")] = None,
    text: Annotated[
        str | None, typer.Option(help="Part of a name or a cause, such as quota.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Started at or after this time: ISO 8601, or seconds since 1970."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Started before this time.")] = None,
    failed_since: Annotated[
        str | None, typer.Option(help="With a failed call started at or after this time.")
    ] = None,
    failed_until: Annotated[
        str | None, typer.Option(help="With a failed call started before this time.")
    ] = None,
    sort: Annotated[
        str, typer.Option(help="created_at, task, reward, cost_usd or total_tokens.")
    ] = "created_at",
    order: Annotated[str, typer.Option(help="asc or desc.")] = "desc",
    limit: Limit = None,
    url: Url = None,
    token: Token = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """List rollouts, the newest first; filters as of `GET /rollouts`.

    A table has 50 of them unless --limit says otherwise; --csv and --json print all.
    """
    given = locals()
    from truezero.sdk.arguments import RolloutFilters  # noqa: PLC0415  loads pydantic

    asked: dict[str, Any] = {
        name: given[name] for name in RolloutFilters.__annotations__ if given[name] is not None
    }
    from truezero.cli import output  # noqa: PLC0415  tables are only loaded where printed

    with connected(url, token) as client:
        if as_csv:
            for line in islice(client.rollouts_csv(**asked), limit and limit + 1):
                typer.echo(line)
            return
        found = client.iter_rollouts(**asked)
        if as_json:
            items = [item.model_dump(mode="json") for item in islice(found, limit)]
            typer.echo(json.dumps(items, indent=2))
            return
        most = limit or _MOST
        shown = list(islice(found, most + 1))
    output.print_rollouts(shown[:most], more=len(shown) > most)


def batches(
    limit: Limit = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List batches, the newest first: coverage, score, cost, what is open and what failed.

    A table has 20 of them unless --limit says otherwise; --json prints all.
    """
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.iter_batches()
        if as_json:
            items = [item.model_dump(mode="json") for item in islice(found, limit)]
            typer.echo(json.dumps(items, indent=2))
            return
        most = limit or _MOST_BATCHES
        shown = list(islice(found, most + 1))
    output.print_batches(shown[:most], more=len(shown) > most)
