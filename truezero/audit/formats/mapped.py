"""Records of any shape, by a map of their names: JSON, JSON lines and CSV.

The map is the caller's: ``id=run_id,score=result.passed,error=exception,tokens=usage.total``.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus
from truezero.audit.audit_format import AuditFormat, Verdicts
from truezero.audit.files import below, found, load, load_csv, load_lines
from truezero.audit.runs import AuditError, FinishedRun, RecordedError, RunPlace
from truezero.audit.values import Json, count, mapping, number, objects, text

FIELDS: Final = ("id", "task", "evaluation", "model", "score", "error", "tokens", "turns", "output")
PATH: Final = "@path"  # a record's file, below the folder that is audited
_EACH: Final = "*"  # each value of a list or an object is a run of its own
_PATTERNS: Final = ("*.json", "*.jsonl", "*.ndjson", "*.csv")
_LISTED: Final = 12  # names of a record that an error lists
_WORDS: Final[Mapping[str, float]] = {"true": 1.0, "false": 0.0}


def field_map(said: str) -> dict[str, str]:
    """Read ``id=…,score=…`` as a name of a record for each field.

    Raises:
        AuditError: a part is no ``field=name``, a field is unknown, or ``id`` is missing.
    """
    fields: dict[str, str] = {}
    for part in said.split(","):
        field, _, name = (each.strip() for each in part.partition("="))
        if field not in FIELDS or not name:
            raise AuditError(
                f"--map: {part.strip()!r} is no field=name; fields: {', '.join(FIELDS)}"
            )
        fields[field] = name
    if "id" not in fields:
        raise AuditError("--map: id=… is missing: it says which record is which run's")
    if len({name.partition(_EACH)[0] for name in fields.values() if _EACH in name}) > 1:
        raise AuditError("--map: names with * stand for runs of several lists; name one list")
    return fields


def mapped(fields: Mapping[str, str]) -> AuditFormat:
    """Return the format of records with these names for its fields."""
    return AuditFormat(
        name="map",
        title="mapped records",
        marks="the names that `--map` gives",
        recognises=lambda _path: True,
        read=lambda path: _read(path, fields),
        write=_write,
    )


@dataclass(frozen=True, slots=True)
class _Record:
    """The record of one run; ``line`` in files with a record a line, ``key`` among others."""

    file: Path
    line: int | None
    fields: Json
    key: str | None = None

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


def _read(path: Path, fields: Mapping[str, str]) -> Iterator[FinishedRun]:
    seen: set[str] = set()
    ids: Counter[object] = Counter()
    record = None
    for record in _records(path, fields):
        values = {}
        for field, name in fields.items():
            values[field], there = at(record.fields, name.replace(_EACH, record.key or _EACH))
            if there:
                seen.add(field)
        yield _run(record, values, fields, ids)
    lost = [field for field in fields if field not in seen]
    if record is not None and lost:
        names = ", ".join(_names(record.fields)[:_LISTED])
        missing = ", ".join(f"{field}={fields[field]}" for field in lost)
        raise AuditError(f"--map: no record of {path} has {missing}; the last one has {names}")


def _run(
    record: _Record, values: Json, fields: Mapping[str, str], ids: Counter[object]
) -> FinishedRun:
    name = values["id"]
    if not isinstance(name, str | int | float):
        raise AuditError(f"{record.where}: id={fields['id']} is {_kind(name)}, and names no run")
    task, model = str(values.get("task") or name), text(values.get("model"))
    run = f"{name}/{record.key}" if record.key else str(name)
    evaluation = str(values.get("evaluation") or "")
    ids.update((run, (evaluation, model, task)))
    turns, tokens = count(_plain(values.get("turns"))), count(_plain(values.get("tokens")))
    error = _error(values.get("error"))
    return FinishedRun(
        id=f"{run}#{ids[run] - 1}" if ids[run] > 1 else run,
        task=task,
        evaluation=evaluation,
        repeat=ids[evaluation, model, task] - 1,
        model=model,
        reward=_score(values.get("score"), record, fields),
        status=ExecutionStatus.SUCCESS if error is None else ExecutionStatus.AGENT_ERROR,
        error=error,
        tokens=None if turns and not tokens else tokens,  # turns were made: they are not counted
        output=_output(turns, tokens, values),
        unknown=("calls",) if "tokens" in fields else ("calls", "tokens"),
        place=RunPlace(file=record.file, line=record.line),
    )


def _output(turns: int | None, tokens: int | None, values: Json) -> bool | None:
    """Return whether a model is known to have answered: in turns, or with an output.

    No turns beside counted tokens say neither.
    """
    if turns is not None:
        return bool(turns) if turns or not tokens else None
    return bool(values["output"]) if "output" in values else None


def _score(value: object, record: _Record, fields: Mapping[str, str]) -> float | None:
    plain = _plain(value)
    if plain is None:
        return None
    score = number(plain)
    if score is None:
        name, kind = fields["score"], _kind(value)
        raise AuditError(f"{record.where}: score={name} is {kind}, neither a number nor true or"
                         " false")  # fmt: skip
    return score


def _plain(value: object) -> object:
    """Return a text's number, as CSV has them; an empty one is none."""
    if not isinstance(value, str):
        return value
    bare = value.strip().lower()
    if not bare or bare in _WORDS:
        return _WORDS.get(bare)
    try:
        return float(bare)
    except ValueError:
        return value


def _error(value: object) -> RecordedError | None:
    """Return the error in a record: its text, or the object that a provider answered with."""
    if isinstance(value, Mapping):
        body = mapping(value)
        said = text(body.get("message")) or text(body.get("error")) or json.dumps(body)
        return RecordedError(
            text=said, type=text(body.get("type")), status=count(body.get("status")), body=body
        ) if body else None  # fmt: skip
    words = text(value)
    return RecordedError(text=words) if words and words.strip() else None


# --- records and their names ---


def at(record: Json, name: str) -> tuple[Any, bool]:
    """Return what a dotted name stands for in a record, and whether it is there at all."""
    value: Any = record
    if name in record:
        return record[name], True
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None, False
    return value, True


def _names(record: Json, before: str = "") -> list[str]:
    """Return a record's names, dotted where it holds others."""
    names = []
    for name, value in record.items():
        inner = _names(value, f"{before}{name}.") if isinstance(value, dict) else []
        names += inner or [f"{before}{name}"]
    return names


def _records(path: Path, fields: Mapping[str, str]) -> Iterator[_Record]:
    each = next((name for name in fields.values() if _EACH in name), None)
    for file in found(path, *_PATTERNS):
        for line, record in _held(file, fields):
            whole = {**record, PATH: below(path, file)}
            if each is None:
                yield _Record(file, line, whole)
            else:
                yield from (_Record(file, line, whole, key) for key in _keys(whole, each))


def _keys(record: Json, name: str) -> list[str]:
    """Return the names of the values that ``*`` stands for."""
    many, _ = at(record, name.partition(f".{_EACH}")[0])
    if isinstance(many, list):
        return [str(place) for place in range(len(many))]
    return list(map(str, mapping(many)))


def _held(file: Path, fields: Mapping[str, str]) -> Iterator[tuple[int | None, Json]]:
    if file.suffix == ".csv":
        yield from _rows(file)
    elif file.suffix in (".jsonl", ".ndjson"):
        yield from enumerate(load_lines(file), start=1)
    else:
        yield from ((None, record) for record in _objects(load(file), fields))


def _rows(file: Path) -> Iterator[tuple[int | None, Json]]:
    try:
        rows = load_csv(file, encoding="utf-8-sig")
        for row in rows:
            yield rows.line_num, {str(name): row[name] for name in row}
    except (OSError, ValueError, csv.Error) as error:
        raise AuditError(f"cannot read {file}: {error}") from None


def _objects(value: Any, fields: Mapping[str, str]) -> list[Json]:
    """Return the records of a JSON file: of a list, of the one list in it, of names, or itself."""
    if isinstance(value, list):
        return objects(value)
    whole = mapping(value)
    if any(at(whole, name.partition(f".{_EACH}")[0])[1] for name in fields.values()):
        return [whole]
    lists = [held for each in whole.values() if (held := objects(each))]
    if lists:
        return max(lists, key=len)
    return [dict(each) for each in whole.values() if isinstance(each, Mapping)] or [whole]


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    return {"dict": "an object", "list": "a list", "str": "a text"}.get(
        type(value).__name__, f"a {type(value).__name__}"
    )


def _write(_path: Path, _verdicts: Verdicts) -> None:
    raise AuditError("--write: mapped records have no fields of a harness; use --json or --report")
