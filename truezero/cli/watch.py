"""`truezero watch`: a batch as it changes, and its events."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

import truezero
from truezero.cli.batch import batch_lines, breaker_of
from truezero.cli.options import batch_argument, connected, print_page, service_options
from truezero.cli.text import escape, running_in
from truezero.printable import plural, visible

if TYPE_CHECKING:
    from truezero import models
    from truezero.sdk.events import Event


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
    def state() -> tuple[models.BatchSummary, models.Breaker | None]:
        return client.summary(batch_name), breaker_of(client, batch_name)

    with live_batch(state) as follow:
        for event in client.events(batch_name, alive=True):
            follow(event)


@contextmanager
def live_batch(
    load: Callable[[], tuple[models.BatchSummary, models.Breaker | None]],
    *,
    every_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[Event], None]]:
    """Show a batch's table, updated by its events, with the last events below it.

    Arguments:
        load: fetches the batch; called at most every ``every_s`` seconds, after new events.
    """
    from rich.console import Console, Group  # noqa: PLC0415  loaded where it is shown
    from rich.live import Live  # noqa: PLC0415

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
