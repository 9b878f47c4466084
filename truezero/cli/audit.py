"""The command `truezero audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from truezero.cli.options import AsJson, fail
from truezero.cli.progress import progress
from truezero.printable import plural


def audit(
    path: Annotated[Path, typer.Argument(help="A file or folder that a harness wrote.")],
    name: Annotated[
        str | None, typer.Option("--format", help="Its format; recognised by default.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the verdicts into a copy beside it.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of that copy; implies --write.")
    ] = None,
    content_filter: Annotated[
        Literal["failure", "answer"],
        typer.Option(help="What a content filter on a request is, as in a batch's policy."),
    ] = "failure",
    as_json: AsJson = False,
) -> None:
    """Find false zeros among finished runs of other harnesses; no service is needed.

    Reads benchflow, Harbor, Inspect, MASEval, OpenHands, SWE-bench and verifiers results,
    LiteLLM spend logs and our own export, and judges what they record by the service's rules.
    The original is never changed.

    Exit code: 1 if a score without a measurement was found, 2 if the path cannot be read, 3 if
    nothing in it could be judged.
    """
    from classifier.verdicts import Policy  # noqa: PLC0415
    from truezero.runner.audit import record, report, run  # noqa: PLC0415

    with progress("reading") as show:
        try:
            found = run.audit(
                path,
                name=name,
                write=write or out is not None,
                out=out,
                policy=Policy(content_filter=content_filter),
                progress=lambda count: show(f"{plural(count, 'run')} judged"),
            )
        except record.AuditError as error:
            fail(str(error), 2)
    if as_json:
        typer.echo(json.dumps(report.as_json(found), indent=2))
    else:
        for line in report.lines(found):
            typer.echo(line)
    if not found.sound:
        raise typer.Exit(1)
    raise typer.Exit(0 if found.judged else 3)
