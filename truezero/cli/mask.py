"""`truezero mask`: which rollouts of somebody else's trace are measurements."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import click

from truezero import foreign
from truezero.cli.options import FILE, connected, fail, service_options, write_file
from truezero.printable import visible


@click.command()
@click.argument("trace", metavar="TRACE", type=FILE)
@click.option("--batch", required=True, help="The batch under which its rollouts ran.")
@click.option(
    "--shared",
    multiple=True,
    metavar="ROLLOUT",
    help="A rollout with the calls of several; repeatable.",
)
@click.option(
    "--write",
    type=FILE,
    metavar="COPY",
    help="Write the masked records to this file.",
)
@service_options
def mask(
    *,
    trace: Path,
    batch: str,
    shared: tuple[str, ...],
    write: Path | None,
    url: str | None,
    token: str | None,
) -> None:
    """Mask somebody else's trace: print which of its rollouts are measurements.

    TRACE is a file of JSON lines, or of one JSON list. Its records are joined with the calls that
    were recorded. With --write a copy of them is written whose own mask, valid flag or reward says
    so; the trace itself is not changed.
    """
    from truezero.audit import mask as masking  # noqa: PLC0415  loaded where it is needed

    records, lines = _read(trace)
    if write is not None and write.exists() and write.samefile(trace):
        fail("--write names the trace itself: choose another file", 2)
    with connected(url, token) as client:
        try:
            wire = masking.fetch(client, batch, records, shared=shared)
            masked = masking.mask(records, wire)
        except ValueError as error:
            fail(f"{trace}: {error}", 2)
    for line in masking.summary(masked):
        click.echo(visible(line))
    if write is not None:
        texts = (json.dumps(each, ensure_ascii=False) for each in masked.records)
        whole = json.dumps(masked.records, ensure_ascii=False, indent=1)
        content = "".join(f"{text}\n" for text in texts) if lines else f"{whole}\n"
        write_file(write, content.encode())


def _read(file: Path) -> tuple[list[dict[str, Any]], bool]:
    """Read the records of a trace; True if they are JSON lines."""
    try:
        texts = (line for line in foreign.text_lines(file) if line.strip())
        first = next(texts, "")
        lines = not first.lstrip().startswith("[")
        if lines:
            found = [foreign.parse(line) for line in chain([first], texts) if line]
        else:
            found = foreign.parse(foreign.read(file))
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", 2)
    except UnicodeDecodeError:
        fail(f"{file}: not UTF-8", 2)
    except foreign.ForeignError as error:
        fail(f"{file}: not JSON: {error}", 2)
    if not found or not all(isinstance(each, dict) for each in found):
        fail(f"{file}: no records: a trace is a list of JSON objects", 2)
    return found, lines
