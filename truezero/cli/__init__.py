"""The command `truezero`: the list of its commands, each loaded when it is called.

A start loads click and the module of one command: https://click.palletsprojects.com, "Lazily
Loading Subcommands".
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

# By heading: each command's name, its function below `truezero.cli`, and the first sentence of
# its help, which `truezero --help` prints without loading it.
COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Start": {
        "demo": (
            "demo:demo",
            "Run sample agents against a provider that fails in known ways, and judge them.",
        ),
        "serve": (
            "serve:serve",
            "Run the proxy and its REST API.",
        ),
        "run": (
            "run:run",
            "Run an agent and report whether its model was reached.",
        ),
        "check": (
            "check:check",
            "Check that a batch is a valid measurement; exit code 1 and the reasons if it is not.",
        ),
        "audit": (
            "audit:audit",
            "Find false zeros among finished runs of other harnesses; no service is needed.",
        ),
    },
    "Look": {
        "list": (
            "listing:rollouts",
            "List rollouts, the newest first; filters as of `GET /rollouts`.",
        ),
        "verdict": (
            "verdict:verdict",
            "Print a rollout's verdict and the calls that prove it.",
        ),
        "batches": (
            "listing:batches",
            "List batches, the newest first: coverage, score, cost, what runs, what failed.",
        ),
        "batch": (
            "batch:batch",
            "Print a batch's scores, coverage, failure causes and rollouts to run again.",
        ),
        "groups": (
            "groups:groups",
            "Print a batch's rollouts by task: measured, to run again, to drop.",
        ),
        "compare": (
            "compare:compare",
            "Compare two batches task by task: fixed, broken, not measured.",
        ),
        "watch": (
            "watch:watch",
            "Follow a batch live; stop with Ctrl-C.",
        ),
        "status": (
            "status:status",
            "Print how each upstream, model and key is now, in a word with its evidence.",
        ),
        "card": (
            "card:cards",
            "Print a batch's measurement card: what its score stands on.",
        ),
        "classify": (
            "classify:classify",
            "Judge an export or archive offline, one verdict per line; no service is needed.",
        ),
        "mask": (
            "mask:mask",
            "Mask somebody else's trace: print which of its rollouts are measurements.",
        ),
    },
    "Run again": {
        "rerun": (
            "rerun:rerun",
            "List what to run again: now, once its cause is fixed, or after a look.",
        ),
        "breaker": (
            "breaker:breaker",
            "Print a batch's breakers: which are open, since when, by what, whom they skipped.",
        ),
        "outcomes": (
            "outcomes:kept",
            "List the outcomes that could not be delivered, the oldest first.",
        ),
    },
    "Operate": {
        "doctor": (
            "doctor:doctor",
            "Check that the proxy is reachable, API keys work and models exist.",
        ),
        "drill": (
            "drills:drill",
            "Inject each provider failure into an agent and report how it reacts.",
        ),
        "token": (
            "serve:token",
            "Print the service's admin token, or a sign-in link to its dashboard.",
        ),
        "export": (
            "export:export",
            "Export rollouts, outcomes and calls as JSON lines, the input of `truezero classify`.",
        ),
        "import": (
            "import_archive:import_archive",
            "Import an archive written by `truezero export --full` into a database.",
        ),
        "prune": (
            "prune:prune",
            "Delete batches with no activity for the given period.",
        ),
        "db": (
            "db:database_group",
            "Manage the service's database.",
        ),
    },
}
_INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are called, and listed by heading."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, by heading."""
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None if there is none of that name."""
        for commands in COMMANDS.values():
            if cmd_name in commands:
                module, _, function = commands[cmd_name][0].partition(":")
                loaded = importlib.import_module(f"{__name__}.{module}")
                command: click.Command = getattr(loaded, function)
                return command
        from truezero.cli import gone  # noqa: PLC0415

        return gone.command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; name the nearest where there is none."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            from truezero.mistakes import meant  # noqa: PLC0415

            near = meant(word, self.list_commands(ctx))
            raise click.UsageError(f"No such command {word!r}{near or '.'}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its first sentence, under its heading."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(width), summary) for name, (_, summary) in commands.items()]
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C ends it with 130, as a shell expects."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from truezero.cli.machine import version_line  # noqa: PLC0415

        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    name="truezero",
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def app() -> None:
    """Is that zero true? A recording proxy tells an agent's failure from a provider's."""


def main() -> None:
    """Run the command line."""
    app(prog_name="truezero")
