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
    fail,
    json_option,
    print_csv,
    print_json,
    print_page,
    service_options,
)
from truezero.cli.text import escape, make_console, wait_words
from truezero.printable import plural, repeat_name, visible

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


_NOW = ("transient",)
_AGAIN = ("transient", "fix_first", "skipped")
_USAGE = "truezero rerun BATCH --command -- CMD..."


@click.command()
@batch_argument
@service_options
@click.option(
    "--only", multiple=True, type=click.Choice(tuple(_RERUNS)), help="Only this list; repeatable."
)
@click.option("--ids", is_flag=True, help="Print the rollouts' IDs, one a line.")
@click.option(
    "--command",
    is_flag=True,
    help="Print a `truezero run … -- CMD` line for each; without CMD it says $AGENT.",
)
@click.argument("agent", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
@csv_option
@json_option
def rerun(
    *,
    name: str,
    url: str | None,
    token: str | None,
    agent: tuple[str, ...],
    only: tuple[str, ...],
    ids: bool,
    command: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List what to run again: now, once its cause is fixed, or after a look.

    --ids prints those of the transient ones, --command a line for each of the transient,
    fix_first and skipped ones, unless --only names other lists. The lines run as they stand, once
    what is to be fixed first is: `truezero rerun BATCH --command -- ./agent.sh > again.sh`.
    """
    if agent and not command:
        fail(f"{agent[0]}: a command of an agent is for --command: {_USAGE}", 2)
    with connected(url, token) as client:
        found = client.rerun(name)
    if as_csv:
        print_csv(_CSV, _csv_rows(found, only or tuple(_RERUNS)))
        return
    if as_json:
        print_json(found)
        return
    if ids or command:
        wanted = only or (_NOW if ids else _AGAIN)
        for line in rerun_ids(found, wanted) if ids else commands(found, wanted, agent, url):
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
    name = repeat_name(item.task, item.repeat) or item.rollout_id or ""
    return escape(name) + wait_words(item.after_s)


def rerun_ids(found: models.Reruns, only: Sequence[str]) -> Iterator[str]:
    """Yield the ids of the last attempts in these lists."""
    for item in _items(found, only):
        if item.rollout_id is not None:
            yield visible(item.rollout_id)


def commands(
    found: models.Reruns,
    only: Sequence[str],
    agent: Sequence[str] = (),
    url: str | None = None,
) -> Iterator[str]:
    """Yield the lines of a shell script that runs each repeat in these lists again.

    Before them come what to fix first, as comments, and the reset of breakers that skipped some.
    The policy is the batch's: whoever registers a rollout in it later cannot change it.

    Arguments:
        agent: its command; empty for ``$AGENT``, which the first line then sets.
        url: address of the service; None leaves it out.
    """
    if not any(found.kind(cast("models.RerunName", name)).count for name in only):
        return
    if not agent:
        yield 'AGENT="${AGENT:?set it to the command of your agent}"'
    for group in _groups(found, only):
        if group.fix:  # quoted, as a model's name in it is anybody's: not all shells have comments
            told = f"first, for {group.cause} ({group.count}): {group.fix}"
            yield f"# {visible(shlex.quote(told))}"
    service = [] if url is None else ["--url", url]
    if "skipped" in only and found.skipped.count:
        yield visible(shlex.join(["truezero", "breaker", "reset", found.batch, *service]))
    last = shlex.join(agent) if agent else "$AGENT"
    for item in _items(found, only):
        words = ["truezero", "run", "--batch", found.batch]
        if item.task is not None:
            words += ["--task", item.task]
        if item.task is not None and item.repeat is not None:
            # Without a repeat's number the service knows best which try is the next.
            words += ["--repeat", str(item.repeat), "--attempt", str(item.attempt)]
            words += [] if item.repeats is None else ["--repeats", str(item.repeats)]
        words += [] if item.model is None else ["--model", item.model]
        words += [] if item.upstream is None else ["--upstream", item.upstream]
        yield visible(shlex.join([*words, *service, "--"])) + f" {last}"


def _groups(found: models.Reruns, only: Sequence[str]) -> Iterator[models.RerunGroup]:
    for name in only:
        yield from found.kind(cast("models.RerunName", name)).groups


def _items(found: models.Reruns, only: Sequence[str]) -> Iterator[models.RerunItem]:
    for group in _groups(found, only):
        yield from group.items
