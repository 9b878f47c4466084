"""`truezero rerun`: what of a batch to run again, and how."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from truezero.cli.options import (
    MOST,
    batch_argument,
    connected,
    csv_option,
    json_option,
    print_csv,
    print_json,
    print_page,
    service_options,
)
from truezero.cli.text import escape, make_console, wait_words
from truezero.printable import plural, visible

if TYPE_CHECKING:
    from truezero import models

# The lists of `GET /batches/{id}/rerun`, and what to do with each.
_RERUNS: dict[models.RerunName, str] = {
    "transient": "run again now",
    "fix_first": "fix first, then run again",
    "skipped": "not admitted by an open breaker",
    "undecided": "evidence is missing",
    "unmeasured": "the provider did not fail, and there is no score",
}


@click.command()
@batch_argument
@service_options
@click.option(
    "--only", multiple=True, type=click.Choice(tuple(_RERUNS)), help="Only this list; repeatable."
)
@click.option("--ids", is_flag=True, help="Print the rollouts' IDs, one a line.")
@click.option("--command", is_flag=True, help="Print a `truezero run … -- $AGENT` line for each.")
@csv_option
@json_option
def rerun(
    *,
    name: str,
    url: str | None,
    token: str | None,
    only: tuple[str, ...],
    ids: bool,
    command: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List what to run again: now, once its cause is fixed, or after a look.

    --ids and --command are of the transient ones, unless --only names other lists.
    """
    with connected(url, token) as client:
        found = client.rerun(name)
    if as_csv:
        print_csv(_CSV, _csv_rows(found, only or tuple(_RERUNS)))
        return
    if as_json:
        print_json(found)
        return
    if ids or command:
        wanted = only or ["transient"]
        for line in rerun_ids(found, wanted) if ids else commands(found, wanted, url):
            click.echo(line)
    else:
        print_reruns(found, only, most=MOST)
        print_page(client.url, "batches", name, tab="again")


_CSV = ("list", "cause", "fix", "task", "repeat", "attempt", "rollout_id", "after_s")


def _csv_rows(found: models.Reruns, only: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each repeat in these lists; ``attempt`` is the number of its next one."""
    for name in only:
        for group in found.kind(cast("models.RerunName", name)).groups:
            why = {"list": name, "cause": group.cause, "fix": group.fix}
            for item in group.items:
                yield why | {each: getattr(item, each) for each in _CSV if each not in why}


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
    return escape(name) + wait_words(item.after_s)


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
