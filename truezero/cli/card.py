"""The measurement card of a batch: print, write and verify it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from truezero.cli import gone
from truezero.cli.options import (
    FILE,
    batch_argument,
    connected,
    fail,
    json_option,
    print_page,
    progress,
    service_options,
    write_file,
)
from truezero.printable import plural, visible

SHOW = "show"
_SIGN = "sign the card's file with a tool of your own"
_UNSIGNED = "signatures are not checked: use the tool that signed the card"
_UNDISCLOSED = "disclosures are not checked: the export, whose digest the card has, holds all calls"


class CardGroup(click.Group):
    """A group in which a name that is no command is a batch: `truezero card BATCH`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command before a batch's name."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


@click.group("card", cls=CardGroup)
def cards() -> None:
    """Print a batch's measurement card: what its score stands on."""


@cards.command()
@batch_argument
@click.option(
    "--json",
    "json_file",
    type=FILE,
    help="Write the card's canonical JSON to this file.",
)
@click.option(
    "--html",
    "html_file",
    type=FILE,
    help="Write the card as one printable page.",
)
@click.option("--harness", help="Name and version of what ran the agents.")
@gone.option("--sign", type=FILE, instead=_SIGN)
@gone.option("--sigstore", is_flag=True, instead=_SIGN)
@service_options
def show(
    *,
    name: str,
    json_file: Path | None,
    html_file: Path | None,
    harness: str | None,
    url: str | None,
    token: str | None,
) -> None:
    """Print what a batch's score stands on; --json and --html write the card.

    The JSON is the same on every machine that holds the batch's export: `truezero card verify`
    makes it again.
    """
    with connected(url, token) as client, progress(f"the service reads {name}"):
        card = partial(client.card, name, harness=harness)
        if html_file is not None:
            write_file(html_file, card(accept="text/html"))
        if json_file is not None:
            write_file(json_file, card())
        printed = card() if html_file is None and json_file is None else None
    if printed is not None:
        from truezero.cli import output  # noqa: PLC0415  loaded where it is printed

        output.print_card(json.loads(printed))
        print_page(client.url, "batches", name, "card")


@cards.command()
@click.argument("card", metavar="CARD", type=FILE)
@click.option(
    "--export",
    type=FILE,
    required=True,
    help="The batch's export, to rebuild the card from.",
)
@gone.option("--disclosure", type=FILE, instead=_UNDISCLOSED)
@gone.option("--signature", type=FILE, instead=_UNSIGNED)
@gone.option("--key", type=FILE, instead=_UNSIGNED)
@gone.option("--identity", instead=_UNSIGNED)
@gone.option("--issuer", instead=_UNSIGNED)
@json_option
def verify(*, card: Path, export: Path, as_json: bool) -> None:
    """Verify a card offline: print what holds and what differs; exit code 1 if anything does.

    CARD may also be benchflow's summary.json or the dump of an Inspect log, which hold one. Needs
    no service.
    """
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier

    try:
        with progress(f"reading {export}"):
            verified = cards.verify(cards.read_json(card), export)
    except cards.CardError as error:
        fail(str(error), 2)
    wrong = verified.differences
    if as_json:
        click.echo(json.dumps({"export": list(wrong)}, indent=2))
    else:
        click.echo("export: " + (plural(len(wrong), "difference") if wrong else "holds"))
        for line in wrong:
            click.echo(visible(f"  {line}"))
    for note in verified.notes:
        click.echo(visible(f"note: {note}"), err=True)
    raise Exit(1 if wrong else 0)


for _name in ("disclose", "key"):
    if (_command := gone.command(f"card {_name}")) is not None:
        cards.add_command(_command, _name)
