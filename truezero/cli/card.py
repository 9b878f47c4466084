"""The measurement card of a batch: print, disclose, sign and verify it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from truezero.cli.options import AsJson, Token, Url, connected, fail, write_file
from truezero.printable import plural, visible

SHOW = "show"
_SIGNATURE = ".intoto.json"  # behind a card's file name
_KEY = Path("~/.config/truezero/card.pem")
BatchName = Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")]
KeyFile = Annotated[Path, typer.Option("--key", help="Private key (Ed25519, PEM).")]


class CardGroup(TyperGroup):
    """A group in which a name that is no command is a batch: `truezero card BATCH`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command before a batch's name."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


def show(
    name: BatchName,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the card's canonical JSON to this file.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write the card as one printable page.")
    ] = None,
    harness: Annotated[
        str | None, typer.Option(help="Name and version of what ran the agents.")
    ] = None,
    signing_key: Annotated[
        Path | None,
        typer.Option("--sign", help="Sign the JSON file with this key; see `truezero card key`."),
    ] = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Print what a batch's score stands on; --json and --html write the card.

    The JSON is the same on every machine that holds the batch's export: `truezero card verify`
    makes it again. --sign writes a DSSE envelope beside it, into FILE.intoto.json.
    """
    if signing_key is not None and json_file is None:
        fail("--sign signs a file: name one with --json", 2)
    with connected(url, token) as client:
        content = client.card(name, harness=harness)
        page = None
        if html_file is not None:
            page = client.card(name, harness=harness, accept="text/html")
    if json_file is not None:
        write_file(json_file, content)
    if html_file is not None and page is not None:
        write_file(html_file, page)
    if json_file is not None and signing_key is not None:
        _sign(json.loads(content), json_file, signing_key)
    if json_file is None and html_file is None:
        from truezero.cli import output  # noqa: PLC0415  loaded where it is printed

        output.print_card(json.loads(content))


def disclose(
    name: BatchName,
    seed: Annotated[
        str, typer.Option(help="Seed that selects the calls; chosen by whoever asks for them.")
    ],
    leaves: Annotated[int, typer.Option(min=1, max=1000, help="How many calls.")] = 20,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file.")] = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Disclose some of a card's calls, each with its path to the card's root.

    A board gives the word; the request ids that it draws can be asked of the provider.
    """
    with connected(url, token) as client:
        disclosure = client.disclose(name, seed=seed, leaves=leaves)
    text = disclosure.model_dump_json(indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text.encode())


def verify(
    card: Annotated[Path, typer.Argument(metavar="CARD", help="The card's JSON file.")],
    export: Annotated[
        Path | None, typer.Option(help="The batch's export, to rebuild the card from.")
    ] = None,
    disclosure: Annotated[
        Path | None, typer.Option(help="Disclosed calls, to be checked against the card.")
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(help="DSSE envelope.  [default: CARD.intoto.json, if --key is given]"),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Public key to check the signature with.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a card offline: print what holds and what differs; exit code 1 if anything does.

    Needs no service. Without --export only the disclosure and the signature can be checked.
    """
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier

    if key is not None and signature is None:
        signature = card.with_name(card.name + _SIGNATURE)
    if export is None and disclosure is None and signature is None:
        fail("nothing to verify the card by: give --export, --disclosure or --key", 2)
    try:
        parts = cards.verify(
            cards.read_json(card),
            export=export,
            disclosure=None if disclosure is None else cards.read_json(disclosure),
            envelope=None if signature is None else cards.read_json(signature),
            key=None if key is None else cards.public_key(key),
        )
    except cards.CardError as error:
        fail(str(error), 2)
    if as_json:
        typer.echo(json.dumps({part.part: list(part.wrong) for part in parts}, indent=2))
    else:
        for part in parts:
            typer.echo(_verified(part.part, part.wrong))
            for line in part.wrong:
                typer.echo(visible(f"  {line}"))
    raise typer.Exit(1 if any(part.wrong for part in parts) else 0)


def _verified(part: str, wrong: tuple[str, ...]) -> str:
    return f"{part}: holds" if not wrong else f"{part}: {plural(len(wrong), 'difference')}"


def key(
    file: Annotated[
        Path, typer.Option("--file", help="Private key; made if there is none.")
    ] = _KEY,
) -> None:
    """Print the public key that signs your cards, and make the key pair if there is none."""
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier

    try:
        public = cards.private_key(file.expanduser(), make=True).public_key()
        typer.echo(cards.public_pem(public), nl=False)
        typer.echo(f"key id {cards.key_id(public)}\nprivate key {file.expanduser()}", err=True)
    except cards.CardError as error:
        fail(str(error), 1)


def _sign(card: Any, file: Path, key_file: Path) -> None:
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier

    try:
        envelope = cards.sign(cards.statement(card), cards.private_key(key_file.expanduser()))
    except cards.CardError as error:
        fail(str(error), 1)
    write_file(file.with_name(file.name + _SIGNATURE), json.dumps(envelope).encode())
