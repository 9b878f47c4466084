"""`truezero audit`: false zeros among finished runs of other harnesses."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
from click.exceptions import Exit

from truezero.cli.options import FILE, fail, json_option, print_json, progress
from truezero.printable import plural


@click.command()
@click.argument("path", metavar="PATH", type=FILE)
@click.option("--format", "name", help="Its format; recognised by default.")
@click.option(
    "--map",
    "named",
    metavar="FIELD=NAME,…",
    help="Read JSON, JSON lines or CSV of any shape: the name of each field in a record, such as "
    "id=run_id,score=result.passed,error=exception,tokens=usage.total.",
)
@click.option("--write", is_flag=True, help="Write the verdicts into a copy beside it.")
@click.option("--out", type=FILE, help="Folder of that copy; implies --write.")
@click.option(
    "--report",
    "folder",
    type=FILE,
    metavar="FOLDER",
    help="Write report.html and runs.jsonl into it.",
)
@click.option(
    "--content-filter",
    type=click.Choice(["failure", "answer"]),
    default="failure",
    help="How a content filter on a request counts, as in a batch's policy.",
)
@json_option
def audit(
    *,
    path: Path,
    name: str | None,
    named: str | None,
    write: bool,
    out: Path | None,
    folder: Path | None,
    content_filter: Literal["failure", "answer"],
    as_json: bool,
) -> None:
    """Find false zeros among finished runs of other harnesses; no service is needed.

    PATH is a file or folder that a harness wrote: results of AgentDojo, benchflow, Harbor, Inspect,
    MASEval, MCPMark, OpenHands, SWE-bench, tau-bench, terminal-bench or verifiers, LiteLLM spend
    logs or our own export; with --map, records of any shape. What it records is judged by the
    service's rules. The original is never changed.

    Exit code: 1 if a score without a measurement was found, 2 if the path or a file in it cannot be
    read, 3 if nothing in it could be judged.
    """
    from classifier.verdicts import Policy  # noqa: PLC0415
    from truezero.audit import findings, report, report_folder, runs  # noqa: PLC0415
    from truezero.audit.formats.mapped import field_map  # noqa: PLC0415

    with progress("reading") as show:
        try:
            found = report.audit(
                path,
                name=name,
                fields=None if named is None else field_map(named),
                write=write or out is not None,
                out=out,
                policy=Policy(content_filter=content_filter),
                progress=lambda count: show(f"{plural(count, 'run')} judged"),
            )
            if folder is not None:
                show("writing the report")
                report_folder.write_report(found, folder)
        except runs.AuditError as error:
            fail(str(error), 2)
    if as_json:
        print_json(report.as_json(found) | findings.as_json(found))
    else:
        for line in (*report.lines(found), *findings.lines(found)):
            click.echo(line)
        if folder is not None:
            click.echo(f"report written to {folder / report_folder.PAGE}")
    if not found.sound:
        raise Exit(1)
    if found.lost:
        raise Exit(2)
    raise Exit(0 if found.judged else 3)
