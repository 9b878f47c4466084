"""The measurement card of a batch: print, write and verify it."""

from __future__ import annotations

from collections.abc import Mapping
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
    print_json,
    print_page,
    progress,
    service_options,
    write_file,
)
from truezero.cli.text import escape, make_console
from truezero.foreign import parse
from truezero.printable import (
    exclusion_words,
    measured_words,
    not_measurements,
    plural,
    visible,
)

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

    The JSON names the digest of the batch's export, which is read for it: `truezero card verify`
    makes the card again of an export.
    """
    with connected(url, token) as client, progress(f"the service sums up {name}"):
        card = partial(client.card, name, harness=harness)
        if html_file is not None:
            write_file(html_file, card(accept="text/html"))
        if json_file is not None:
            from truezero.runner.card import with_digest  # noqa: PLC0415  loads the classifier

            try:
                written = with_digest(card(), client.export(batch=name))
            except ValueError as error:
                fail(f"the export of {name}: {error}", 1)
            write_file(json_file, written)
        printed = card() if html_file is None and json_file is None else None
    if printed is not None:
        print_card(parse(printed))
        print_page(client.url, "batches", name, "card")


def print_card(card: Mapping[str, Any]) -> None:
    """Print a measurement card: the score, what is no measurement, and the models."""
    console = make_console(soft_wrap=True)
    for line in card_lines(card):
        console.print(escape(line))


def card_lines(card: Mapping[str, Any]) -> list[str]:
    """Return the lines that a measurement card is printed as."""
    stated, measured = card["stated"], card["measured"]
    score, zeros, models = measured["score"], measured["zeros"], measured["models"]
    interval = score["interval"]
    without = score.get("no_score") or "no score"  # a card of an earlier release has no such field
    number = without if score["score"] is None else f"score {score['score']:.3f}"
    between = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
    share = measured_words(score["measured"], score["repeats"], score["own_failures"])
    lines = [
        f"{stated['batch']}: {number}{between}, {share}",
        "a valid measurement"
        if measured["valid"]
        else f"not a valid measurement: {plural(measured['problems']['total'], 'objection')}",
    ]
    if zeros["reported"]:
        causes = ", ".join(f"{count:,} {name}" for name, count in zeros["by_cause"].items())
        are = not_measurements(zeros["not_measured"])
        of = plural(zeros["reported"], "reported zero")
        lines.append(f"{zeros['not_measured']:,} of {of} {are}" + (f": {causes}" if causes else ""))
    exclusion = measured["exclusion"]
    if exclusion["p"] is not None:
        lines.append(exclusion_words(exclusion["bias"], exclusion["p"]))
    for row in models["registered"]:
        names = ", ".join([row["model"] or "no model", *row["fallbacks"]])
        lines.append(f"registered {names}: {plural(row['rollouts'], 'rollout')}")
    for row in models["answered"]:
        asked, answered = row["asked"] or "unknown", row["answered"] or "unknown"
        model = asked if answered == asked else f"{answered} for {asked}"
        served = f" at {row['served_by']}" if row["served_by"] else ""
        origin = row["origin"] or row["upstream"]
        lines.append(f"answered {model}{served} ({origin}): {plural(row['rollouts'], 'rollout')}")
    lines += [f"does not prove {line}" for line in card["does_not_prove"]]
    return lines


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
    from truezero.audit.files import load  # noqa: PLC0415  loads the classifier
    from truezero.audit.runs import AuditError  # noqa: PLC0415
    from truezero.runner.card import verify as verified_by  # noqa: PLC0415

    try:
        with progress(f"reading {export}"):
            verified = verified_by(load(card, links=True), export)
    except AuditError as error:
        fail(str(error), 2)
    wrong = verified.differences
    if as_json:
        print_json({"export": list(wrong)})
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
