"""The command `truezero`: one Typer application and the list of its commands.

The service is loaded only by the commands that run it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from truezero.cli import batches, card, outcomes, rollouts, service, traces
from truezero.cli.options import version_line

app = typer.Typer(
    name="truezero",
    help="Is that zero true? A recording proxy tells an agent's failure from a provider's.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
database = typer.Typer(help="Manage the service's database.", no_args_is_help=True)
kept = typer.Typer()
cards = typer.Typer(
    cls=card.CardGroup,
    help="Print a batch's measurement card: what its score stands on.",
    no_args_is_help=True,
)
_AGENT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(version_line())
        raise typer.Exit


app.command()(service.serve)
app.command()(service.token)
app.command()(rollouts.verdict)
app.command(context_settings=_AGENT)(rollouts.run)
app.command(context_settings=_AGENT)(rollouts.drill)
app.command()(rollouts.doctor)
app.command("list")(batches.rollouts)
app.command()(batches.batches)
app.command()(batches.batch)
app.command()(batches.check)
app.command()(batches.groups)
app.command()(batches.compare)
app.command()(batches.rerun)
app.command()(batches.watch)
app.command()(service.status)
app.command()(service.export)
app.command("import")(service.import_archive)
app.command()(service.prune)
app.command()(rollouts.classify)
app.command()(rollouts.audit)
app.command()(traces.mask)
app.add_typer(kept, name="outcomes")
app.add_typer(cards, name="card")
app.command()(rollouts.demo)
app.add_typer(database, name="db")
cards.command()(card.show)
cards.command()(card.disclose)
cards.command()(card.verify)
cards.command()(card.key)
kept.callback(invoke_without_command=True)(outcomes.kept)
kept.command()(outcomes.deliver)
database.command()(service.upgrade)
database.command()(service.copy)
database.command()(service.backup)
database.command()(service.recount)


def main() -> None:
    """Run the command line."""
    app()
