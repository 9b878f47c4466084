"""Files of other programs: find them, recognise them by content, read them, write them whole."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from truezero import foreign
from truezero.audit import zips
from truezero.audit.runs import AuditError
from truezero.audit.values import Json
from truezero.whole_file import write_whole

PEEKED = 50  # files of a folder that are opened to recognise it


def load(path: Path, *, links: bool = False) -> Any:
    """Read a JSON file; NaN is read as Inspect writes it.

    Arguments:
        links: follow a symbolic link. True for a file that the user named.

    Raises:
        AuditError: the file cannot be read.
    """
    try:
        return foreign.parse(foreign.read(path, links=links))
    except OSError as error:
        raise AuditError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise AuditError(f"{path}: {error}") from None


def load_lines(path: Path, *, links: bool = False) -> Iterator[Json]:
    """Yield the objects of a file of JSON lines. ``links`` as of ``load``.

    Raises:
        AuditError: a line is no JSON object; its number is named.
    """
    try:
        for place, line in enumerate(foreign.text_lines(path, links=links), start=1):
            if not line.strip():
                continue
            try:
                record = foreign.parse(line)
            except foreign.ForeignError as error:
                raise AuditError(f"{path}: line {place}: {error}") from None
            if not isinstance(record, dict):
                raise AuditError(f"{path}: line {place} is no object")
            yield record
    except OSError as error:
        raise AuditError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, foreign.ForeignError) as error:
        raise AuditError(f"{path}: {error}") from None


def load_csv(path: Path, *, encoding: str = "utf-8") -> csv.DictReader[str]:
    """Return the rows of a CSV file, whose fields may hold whole messages.

    Iterating raises OSError, ValueError or ``csv.Error`` if the file cannot be read.
    """
    csv.field_size_limit(foreign.MOST_OF_LINE)
    return csv.DictReader(foreign.text_lines(path, links=False, encoding=encoding, newline=""))


def save(path: Path, value: object, *, indent: int | None = 2) -> None:
    """Write a JSON file, whole or not at all."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    write_whole(path, f"{text}\n".encode())


def save_lines(path: Path, records: Iterable[object]) -> None:
    """Write a file of JSON lines, whole or not at all."""
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in records]
    write_whole(path, "".join(lines).encode())


def peek(path: Path) -> Any:
    """Return what a file begins with: its one JSON value, or its first line; None if neither."""
    try:
        first = next(foreign.text_lines(path, links=False), "")
        try:
            return foreign.parse(first)
        except ValueError:
            return foreign.parse(foreign.read(path, links=False))
    except (OSError, ValueError):
        return None


def found(path: Path, *patterns: str) -> Iterator[Path]:
    """Yield the file itself, or a folder's files of these names, in order; no unread ones.

    Symbolic links in a folder are not followed: they may lead anywhere.
    """
    if not path.is_dir():
        yield path
        return
    for pattern in patterns:
        files = sorted(each for each in path.rglob(pattern) if is_there(each))
        yield from (each for each in files if not is_pointer(each))


def is_there(file: Path) -> bool:
    """Return True if a folder has a regular file of this name."""
    return foreign.is_regular(file)


_POINTER: Final = b"version https://git-lfs.github.com/spec/v1"
_LARGEST: Final = 1_024  # bytes of a pointer, by the specification of Git LFS


def is_pointer(file: Path) -> bool:
    """Return True if Git LFS left a pointer in a file's place."""
    try:
        if file.stat().st_size > _LARGEST:
            return False
        with foreign.open_file(file, links=False) as content:
            return content.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def unreadable(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file in a path that stands where results should and cannot be read, and why."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if is_pointer(file):
            yield file, "a Git LFS pointer, not the file: fetch it with `git lfs pull`"
        elif file.suffix not in _RESULTS:
            continue
        elif file.is_symlink():
            if _leads_out(path, file):
                yield file, "a symbolic link out of the folder: put a copy of its file there"
        elif file != path and not file.is_dir() and not is_there(file):
            yield file, foreign.SPECIAL
        elif file.suffix in _ARCHIVES and is_there(file) and not zips.is_zip(file):
            yield file, "a broken archive, which ends too early: copy or download it again"


def _leads_out(path: Path, link: Path) -> bool:
    """Return True for a link to what is not in the folder, or is nowhere."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # nowhere, or in a circle
        return True
    return path.resolve() not in target.parents


_ARCHIVES: Final = frozenset((".eval", ".zip"))
_RESULTS: Final = _ARCHIVES | {".csv", ".json", ".jsonl", ".ndjson", ".traj"}


def below(path: Path, file: Path) -> str:
    """Return a file's path below the folder that is audited; its name if it is audited alone."""
    return file.relative_to(path).as_posix() if path.is_dir() else file.name


def folder_below(path: Path, file: Path) -> str:
    """Return the path of a file's folder below the one that is audited, empty at its top."""
    return below(path, file).rpartition("/")[0]


def any_has(path: Path, marked: Callable[[Any], bool], *patterns: str) -> bool:
    """Return True if the file, or one of a folder's first such files, begins as the format does."""
    if not path.is_dir():
        return marked(peek(path))
    for pattern in patterns:
        for place, each in enumerate(path.rglob(pattern)):
            if place == PEEKED:
                break
            if is_there(each) and marked(peek(each)):
                return True
    return False


def has(*keys: str) -> Callable[[Any], bool]:
    """Return a test for an object with all of these keys."""
    return lambda record: isinstance(record, Mapping) and record.keys() >= set(keys)
