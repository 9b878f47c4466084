"""Files of other programs: find them, recognise them by content, read them, write them whole."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from truezero.audit.runs import AuditError
from truezero.audit.values import Json
from truezero.whole_file import write_whole

PEEKED = 50  # files of a folder that are opened to recognise it


def load(path: Path) -> Any:
    """Read a JSON file; NaN is read as Inspect writes it.

    Raises:
        AuditError: the file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AuditError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{path}: {error}") from None


def load_lines(path: Path) -> Iterator[Json]:
    """Yield the objects of a file of JSON lines.

    Raises:
        AuditError: a line is no JSON object; its number is named.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for place, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise AuditError(f"{path}: line {place} is no object")
                yield record
    except OSError as error:
        raise AuditError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise AuditError(f"{path}: {error}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise AuditError(f"{path}: line {place}: {error}") from None


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
        with path.open(encoding="utf-8") as file:
            first = file.readline()
            try:
                return json.loads(first)
            except ValueError:
                return json.loads(first + file.read())
    except (OSError, ValueError, RecursionError):
        return None


def found(path: Path, *patterns: str) -> Iterator[Path]:
    """Yield the file itself, or a folder's files of these names, in order; no unread ones."""
    if not path.is_dir():
        yield path
        return
    for pattern in patterns:
        files = sorted(each for each in path.rglob(pattern) if each.is_file())
        yield from (each for each in files if not is_pointer(each))


_POINTER: Final = b"version https://git-lfs.github.com/spec/v1"
_LARGEST: Final = 1_024  # bytes of a pointer, by the specification of Git LFS


def is_pointer(file: Path) -> bool:
    """Return True if Git LFS left a pointer in a file's place."""
    try:
        if file.stat().st_size > _LARGEST:
            return False
        with file.open("rb") as content:
            return content.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def unreadable(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file in a path that stands where results should and cannot be read, and why."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if is_pointer(file):
            yield file, "a Git LFS pointer, not the file: fetch it with `git lfs pull`"
        elif file.suffix in _ARCHIVES and file.is_file() and not zipfile.is_zipfile(file):
            yield file, "a broken archive, which ends too early: copy or download it again"


_ARCHIVES: Final = frozenset((".eval", ".zip"))


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
            if each.is_file() and marked(peek(each)):
                return True
    return False


def has(*keys: str) -> Callable[[Any], bool]:
    """Return a test for an object with all of these keys."""
    return lambda record: isinstance(record, Mapping) and record.keys() >= set(keys)
