"""The measurement card of a batch: print, disclose, sign and verify it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

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
_SIGNATURE, _BUNDLE = ".intoto.json", ".sigstore.json"  # behind a card's file name
_KEY = Path("~/.config/truezero/card.pem")


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
@click.option(
    "--sign",
    "signing_key",
    type=FILE,
    help="Sign the JSON file with this key; see `truezero card key`.",
)
@click.option(
    "--sigstore",
    is_flag=True,
    help="Sign the JSON file without a key, by sigstore's client, into a public log.",
)
@service_options
def show(
    *,
    name: str,
    json_file: Path | None,
    html_file: Path | None,
    harness: str | None,
    signing_key: Path | None,
    sigstore: bool,
    url: str | None,
    token: str | None,
) -> None:
    """Print what a batch's score stands on; --json and --html write the card.

    The JSON is the same on every machine that holds the batch's export: `truezero card verify`
    makes it again. --sign writes a DSSE envelope beside it, into FILE.intoto.json, and --sigstore
    a Sigstore bundle into FILE.sigstore.json.
    """
    if (signing_key is not None or sigstore) and json_file is None:
        fail(f"{'--sigstore' if sigstore else '--sign'} signs a file: name one with --json", 2)
    with connected(url, token) as client, _reading(name) as report:
        files = client.card_files(name, report, harness=harness, page=html_file is not None)
    content = files["card"]
    if json_file is not None:
        write_file(json_file, content)
    if html_file is not None:
        write_file(html_file, files["page"])
    if json_file is not None and signing_key is not None:
        _sign(json.loads(content), json_file, signing_key)
    if json_file is not None and sigstore:
        _sign_keyless(json.loads(content), json_file)
    if json_file is None and html_file is None:
        from truezero.cli import output  # noqa: PLC0415  loaded where it is printed

        output.print_card(json.loads(content))
        print_page(client.url, "batches", name, "card")


@cards.command()
@batch_argument
@click.option(
    "--seed", required=True, help="Seed that selects the calls; chosen by whoever asks for them."
)
@click.option("--leaves", type=click.IntRange(min=1, max=1000), default=20, help="How many calls.")
@click.option("--out", type=FILE, help="Write to this file.")
@service_options
def disclose(
    *,
    name: str,
    seed: str,
    leaves: int,
    out: Path | None,
    url: str | None,
    token: str | None,
) -> None:
    """Disclose some of a card's calls, each with its path to the card's root.

    A board gives the word; the request ids that it draws can be asked of the provider.
    """
    with connected(url, token) as client, _reading(name) as report:
        disclosure = client.disclose(name, seed=seed, leaves=leaves, progress=report)
    text = disclosure.model_dump_json(indent=2) + "\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_file(out, text.encode())


@cards.command()
@click.argument("card", metavar="CARD", type=FILE)
@click.option(
    "--export",
    type=FILE,
    help="The batch's export, to rebuild the card from.",
)
@click.option(
    "--disclosure",
    type=FILE,
    help="Disclosed calls, to be checked against the card.",
)
@click.option(
    "--signature",
    type=FILE,
    help="DSSE envelope.  [default: CARD.intoto.json, if --key is given]",
)
@click.option("--key", type=FILE, help="Public key to check the signature with.")
@click.option(
    "--identity",
    help="Account that signed with --sigstore; checks CARD.sigstore.json.  [needs --issuer]",
)
@click.option("--issuer", help="Address of whoever vouches for the account.")
@json_option
def verify(
    *,
    card: Path,
    export: Path | None,
    disclosure: Path | None,
    signature: Path | None,
    key: Path | None,
    identity: str | None,
    issuer: str | None,
    as_json: bool,
) -> None:
    """Verify a card offline: print what holds and what differs; exit code 1 if anything does.

    CARD may also be benchflow's summary.json or the dump of an Inspect log, which hold one. Needs
    no service. Without --export only the disclosure and the signature can be checked.
    """
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier
    from truezero.runner import keyless  # noqa: PLC0415

    signer = None
    if identity is not None or issuer is not None:
        if identity is None or issuer is None:
            fail("--identity and --issuer are given together", 2)
        signer = keyless.SigningIdentity(identity, issuer)
    if signature is None and (key is not None or signer is not None):
        signature = card.with_name(card.name + (_SIGNATURE if signer is None else _BUNDLE))
    if export is None and disclosure is None and signature is None:
        fail("nothing to verify the card by: give --export, --disclosure, --key or --identity", 2)
    try:
        with progress("reading") as show:
            parts = cards.verify(
                cards.read_json(card),
                export=export,
                disclosure=None if disclosure is None else cards.read_json(disclosure),
                envelope=None if signature is None else cards.read_json(signature),
                key=None if key is None else cards.public_key(key),
                signer=signer,
                progress=lambda count: show(f"{plural(count, 'record')} of {export} read"),
            )
    except cards.CardError as error:
        fail(str(error), 2)
    if as_json:
        click.echo(json.dumps({part.part: list(part.wrong) for part in parts}, indent=2))
    else:
        for part in parts:
            click.echo(_verified(part.part, part.wrong))
            for line in part.wrong:
                click.echo(visible(f"  {line}"))
    raise Exit(1 if any(part.wrong for part in parts) else 0)


@contextmanager
def _reading(batch: str) -> Iterator[Callable[[int, int], None]]:
    """Show what takes long, and how far it is: the service reads each rollout of the batch."""
    with progress(f"the service reads {batch}") as show:
        yield lambda read, of: show(f"{read:,} of {plural(of, 'rollout')} of {batch} read")


def _verified(part: str, wrong: tuple[str, ...]) -> str:
    return f"{part}: holds" if not wrong else f"{part}: {plural(len(wrong), 'difference')}"


@cards.command()
@click.option(
    "--file",
    type=FILE,
    default=_KEY,
    help="Private key; made if there is none.",
)
def key(file: Path) -> None:
    """Print the public key that signs your cards, and make the key pair if there is none."""
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier

    try:
        public = cards.private_key(file.expanduser(), make=True).public_key()
        click.echo(cards.public_pem(public), nl=False)
        click.echo(f"key id {cards.key_id(public)}\nprivate key {file.expanduser()}", err=True)
    except cards.CardError as error:
        fail(str(error), 1)


def _sign(card: Any, file: Path, key_file: Path) -> None:
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier

    try:
        envelope = cards.sign(cards.statement(card), cards.private_key(key_file.expanduser()))
    except cards.CardError as error:
        fail(str(error), 1)
    write_file(file.with_name(file.name + _SIGNATURE), json.dumps(envelope).encode())


def _sign_keyless(card: Any, file: Path) -> None:
    from truezero.runner import card as cards  # noqa: PLC0415  loads the classifier
    from truezero.runner import keyless  # noqa: PLC0415

    try:
        bundle = keyless.sign_keyless(cards.statement_bytes(card))
    except keyless.KeylessError as error:
        fail(str(error), 1)
    write_file(file.with_name(file.name + _BUNDLE), json.dumps(bundle).encode())
