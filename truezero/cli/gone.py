"""The commands and options of the last release: one says what takes its place, one has no effect.

Each stays for one release, hidden from help, and is then unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

# The words of a command after `truezero`, and what takes its place.
COMMANDS: Mapping[str, str] = {
    "card disclose": "a card names the digest of its export; `truezero card verify` checks it",
    "card key": "sign the card's file with a tool of your own",
    "db recount": "batches are counted from their rows, so there is nothing to correct",
    "db copy": "move the rollouts with `truezero export --full` and `truezero import`",
}


def command(words: str) -> click.Command | None:
    """Return a command that says what takes its place, with exit code 2; None if never known."""
    instead = COMMANDS.get(words)
    if instead is None:
        return None

    def say() -> None:
        raise click.UsageError(f"`truezero {words}` is gone: {instead}")

    # Whatever follows was meant for the command that is gone.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(words, callback=say, context_settings=settings, hidden=True)


def option(*names: str, instead: str, **kind: Any) -> Callable[[Function], Function]:
    """Accept an option of the last release, warn on standard error, and pass nothing on.

    Arguments:
        names: as written, ``--sign``.
        instead: what to do now, a clause without a full stop.
        kind: ``is_flag`` or ``type``, as the option had it.
    """

    def warn(_ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value not in (None, False, ()):
            click.echo(f"warning: {param.opts[0]} is gone, and has no effect: {instead}", err=True)

    return click.option(*names, callback=warn, expose_value=False, hidden=True, **kind)
