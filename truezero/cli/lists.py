"""Commands that list rollouts and batches, the newest first."""

from __future__ import annotations

import json
from itertools import islice
from typing import Annotated, Any

import typer

from truezero.cli.options import AsJson, Token, Url, connected

_MOST = 50  # rows of a table, unless more are asked for
_MOST_BATCHES = 20

Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.", show_default=False)]


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
        str | None, typer.Option(help="Begun then or later: ISO 8601, or seconds since 1970.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Begun before then.")] = None,
    failed_since: Annotated[
        str | None, typer.Option(help="With a failed call begun then or later.")
    ] = None,
    failed_until: Annotated[str | None, typer.Option(help="Likewise, begun before then.")] = None,
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
    from truezero.cli import list_output  # noqa: PLC0415  tables are only loaded where printed

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
    list_output.print_rollouts(shown[:most], more=len(shown) > most)


def batches(
    limit: Limit = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List batches, the newest first: coverage, score, cost, what is open and what failed.

    A table has 20 of them unless --limit says otherwise; --json prints all.
    """
    from truezero.cli import list_output  # noqa: PLC0415

    with connected(url, token) as client:
        found = client.iter_batches()
        if as_json:
            items = [item.model_dump(mode="json") for item in islice(found, limit)]
            typer.echo(json.dumps(items, indent=2))
            return
        most = limit or _MOST_BATCHES
        shown = list(islice(found, most + 1))
    list_output.print_batches(shown[:most], more=len(shown) > most)
