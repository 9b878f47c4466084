"""Commands on a batch: print, check and watch it."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

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
        int, typer.Option(help="Drop groups that cannot have so many measured rollouts.", min=1)
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
    from truezero.cli import report_output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.compare(a, b)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), indent=2))
    else:
        report_output.print_comparison(found, most=None if everything else MOST)


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
    from truezero.cli import report_output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.rerun(name)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), indent=2))
        return
    chosen = [choice.value for choice in only or ()]
    if ids or command:
        make = report_output.rerun_ids if ids else report_output.commands
        for line in make(found, chosen or ["transient"]):
            typer.echo(line)
    else:
        report_output.print_reruns(found, chosen, most=MOST)


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
