"""`truezero doctor`: whether the proxy is reachable, API keys work and models exist."""

from __future__ import annotations

import os
from dataclasses import asdict, replace

import click
from click.exceptions import Exit

import truezero
from truezero.cli.options import fail, json_option, print_json, service_options
from truezero.printable import visible_lines


@click.command()
@click.option("--upstream", multiple=True, help="Check this upstream too; repeatable.")
@click.option(
    "--model",
    multiple=True,
    metavar="UPSTREAM/MODEL",
    help="Check that this model exists; repeatable.",
)
@click.option(
    "--ask",
    is_flag=True,
    help="Have the service run a reference call of each --model, with its own key, as "
    "beside an untrusted agent's failure; costs some 100 tokens.",
)
@service_options
@json_option
def doctor(
    *,
    upstream: tuple[str, ...],
    model: tuple[str, ...],
    ask: bool,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Check that the proxy is reachable, API keys work and models exist.

    Each failed check says how to fix it. Begins with versions and the names of the variables that
    are set, so that the screen can be pasted into a bug report: no key, token or value of a
    setting is in it. Exit code 1 if any check failed.
    """
    from truezero.cli.machine import machine_facts, without_credentials  # noqa: PLC0415
    from truezero.runner.doctor import DoctorCheck, examine, failed, wanted  # noqa: PLC0415

    try:
        targets = wanted(upstream, model, ask=ask)
    except ValueError as error:
        fail(str(error), 2)
    facts = dict(machine_facts(os.environ))
    done = [DoctorCheck(name=name, health="ok", told=told) for name, told in facts.items()]
    if not as_json:
        for name, told in facts.items():
            click.echo(visible_lines(f"{name:14} {told}"))
        click.echo()
    try:
        with truezero.Client(url, token, keep_outcomes=False) as client:
            for check in examine(client, targets, os.environ):
                told = without_credentials(check.told)
                done.append(replace(check, told=told))
                if not as_json:
                    click.echo(visible_lines(f"{check.health:7}  {check.name}: {told}"))
    except truezero.ServiceError as error:
        fail(str(error), 1)
    if as_json:
        print_json([asdict(check) for check in done])
    raise Exit(1 if failed(done) else 0)
