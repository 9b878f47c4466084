"""`truezero classify`: exports and archives judged without a service."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import click

from truezero.cli.archives import readable_archives, reading
from truezero.cli.data import DataError
from truezero.cli.options import FILE, fail, json_option, print_json
from truezero.foreign import byte_lines, open_file

_ARCHIVE = b'{"type":"truezero-archive"'  # how the first line of an archive begins


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--policy", default="evidence", help="evidence or seed.")
@click.option(
    "--causes",
    type=FILE,
    metavar="TOML",
    help="Apply the rows of causes in this settings file; report what changes.",
)
@click.option(
    "--write",
    type=FILE,
    metavar="COPY",
    help="With --causes: write the export or archive with these causes.",
)
@json_option
def classify(
    *,
    file: str,
    policy: str,
    causes: Path | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Judge an export or archive offline, one verdict per line; no service is needed.

    FILE is what `truezero export` wrote, with or without --full; or exchanges as returned by
    `GET /rollouts/{id}/exchanges`, one per line; - is standard input.

    With --causes, reports which calls get another cause and which rollouts another verdict. No
    sentence of a provider is on record, so rows by `words`, or by both `code` and `type`, hold
    only for calls that they explained when these ended. A copied archive omits the verdicts
    of rollouts with a changed call; the service that imports it judges them again.

    Exit code: 2 if FILE, the rows or the copy cannot be read or written.
    """
    if write is not None and causes is None:
        fail("--write requires --causes", 2)
    try:
        source = Source(file)
        if causes is None:
            for line in verdict_lines(source, policy):
                click.echo(line)
            return
        found = rejudge(source, policy, causes, write)
    except JudgingError as error:
        fail(str(error), 2)
    if as_json:
        print_json(found.encode())
    else:
        click.echo("\n".join(found.lines()))


class JudgingError(Exception):
    """Nothing can be judged; the message says why in one sentence."""


class Source:
    """An export or an archive to judge, in a file or standard input."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._given = sys.stdin.buffer.read() if name == "-" else None
        self.is_archive = _is_archive(name, self._given)

    def lines(self) -> list[str]:
        """Return the lines of an export.

        Raises:
            JudgingError: it cannot be read.
        """
        given = self._given
        if given is None:
            with _opened(self.name) as file:
                given = b"".join(byte_lines(file))
        return given.decode("utf-8").split("\n")

    @contextmanager
    def records(self) -> Iterator[Iterator[Any]]:
        """Open the records of an archive.

        Raises:
            JudgingError: it cannot be read, or what is done meanwhile fails so.
        """
        try:
            with readable_archives():
                if self._given is None:
                    with reading(self.name) as records:
                        yield records
                else:
                    from proxy.features.exports import archive  # noqa: PLC0415

                    yield archive.read(BytesIO(self._given))
        except ModuleNotFoundError as error:
            raise JudgingError(
                f"an archive needs the service ({error.name} is missing): "
                "pip install 'truezero[server]'"
            ) from None
        except DataError as error:
            raise JudgingError(str(error)) from None


def verdict_lines(source: Source, policy: str) -> list[str]:
    """Return the verdict of each rollout as JSON.

    Raises:
        JudgingError: the source cannot be read.
    """
    from classifier.__main__ import judge_records  # noqa: PLC0415  as all of it here
    from classifier.codec import encode_verdict  # noqa: PLC0415
    from classifier.verdicts import named  # noqa: PLC0415

    with _named(source):
        verdicts = judge_records(_rollouts(source), policy=named(policy))
    return [json.dumps(encode_verdict(verdict)) for verdict in verdicts]


def rejudge(source: Source, policy: str, causes: Path, copy: Path | None) -> Any:
    """Apply the operator's rows to an export or an archive; write the result if a copy is named.

    Returns:
        What changed, a ``classifier.rejudging.Rejudged``.

    Raises:
        JudgingError: the source, the rows or the copy cannot be read or written.
    """
    from classifier.__main__ import rejudge_export, rows_in  # noqa: PLC0415
    from classifier.rejudging import Rejudged  # noqa: PLC0415
    from classifier.verdicts import named  # noqa: PLC0415

    with _named(source):
        found = Rejudged(causes=rows_in(causes), policy=named(policy))
        if source.is_archive:
            _rejudge_archive(source, found, copy)
        else:
            _write_lines(list(rejudge_export(source.lines(), found)), copy)
    return found


def _rollouts(source: Source) -> list[Any]:
    if not source.is_archive:
        from classifier.__main__ import rollouts_of  # noqa: PLC0415

        return rollouts_of(source.lines())
    with source.records() as records:
        from proxy.features.exports.rejudging import rollouts_in  # noqa: PLC0415

        return list(rollouts_in(records))


def _rejudge_archive(source: Source, found: Any, copy: Path | None) -> None:
    with source.records() as records:
        from proxy.features.exports import archive  # noqa: PLC0415
        from proxy.features.exports.rejudging import rejudged  # noqa: PLC0415

        changed = rejudged(records, found)
        if copy is None:
            for _ in changed:
                pass
        else:
            archive.write_file(changed, copy)


def _write_lines(lines: Iterable[str], copy: Path | None) -> None:
    if copy is None:
        return
    try:
        copy.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise JudgingError(f"cannot write {copy}: {error.strerror}") from None


def _is_archive(name: str, given: bytes | None) -> bool:
    if given is not None:
        return given.startswith(_ARCHIVE)
    with _opened(name) as file:
        return file.read(len(_ARCHIVE)) == _ARCHIVE


def _opened(name: str) -> BinaryIO:
    try:
        return open_file(Path(name))
    except OSError as error:
        raise JudgingError(f"cannot read {name}: {error.strerror}") from None


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Name the source in what is wrong with it; the rows name their file themselves."""
    from classifier.__main__ import RowsError  # noqa: PLC0415

    try:
        yield
    except RowsError as error:
        raise JudgingError(str(error)) from None
    except ValueError as error:
        raise JudgingError(f"{source.name}: {error}") from None
