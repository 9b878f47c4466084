"""LiteLLM's spend log, as JSON, JSON lines or CSV: one row a call, without scores.

Facts of litellm 1.91 (`proxy/schema.prisma`, `SpendLogsPayload`, `SpendLogsMetadata`).

Path: JSON, JSON lines or CSV of `LiteLLM_SpendLogs`.

Read: every call by `session_id`.

Unknown: scores, how a run ended, what was answered.

Copy: a tag `truezero:<fingerprint>` in `request_tags`, the verdict in `metadata`.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from truezero.audit.audit_format import KEY, AuditFormat, Verdicts, block, unhealthy
from truezero.audit.files import PEEKED, found, load, load_csv, load_lines, save, save_lines
from truezero.audit.judge import Audited
from truezero.audit.runs import AuditError, FinishedRun, RecordedCall, RecordedError, RunPlace
from truezero.audit.values import Json, count, instant, items, mapping, text
from truezero.foreign import parse
from truezero.whole_file import whole

_COLUMNS: Final = frozenset(("request_id", "call_type", "startTime", "model"))
_UNNAMED: Final = "(no session_id)"
_NOT_ASKED: Final = (
    "embedding",
    "image",
    "speech",
    "transcription",
    "rerank",
    "moderation",
    "health",
)


def _recognises(path: Path) -> bool:
    return any(map(_is_log, islice(_files(path), PEEKED)))


def _files(path: Path) -> Iterator[Path]:
    yield from found(path, "*.json", "*.jsonl", "*.csv")


def _is_log(file: Path) -> bool:
    try:
        return next(_rows(file)).keys() >= _COLUMNS
    except (AuditError, StopIteration):
        return False


def _rows(file: Path) -> Iterator[Json]:
    if file.suffix == ".csv":
        yield from _csv_rows(file)
    elif file.suffix == ".jsonl":
        yield from load_lines(file)
    else:
        held = load(file)
        yield from map(mapping, items(held) or items(mapping(held).get("data")))


def _csv_rows(file: Path) -> Iterator[Json]:
    try:
        yield from load_csv(file)
    except (OSError, ValueError, csv.Error) as error:
        raise AuditError(f"{file}: {error}") from None


def _read(path: Path) -> Iterator[FinishedRun]:
    sessions: dict[str, list[Json]] = defaultdict(list)
    files: dict[str, Path] = {}
    for file in _files(path):
        for row in _rows(file):
            if row.keys() >= _COLUMNS and _asks(row):
                sessions[_session(row)].append(row)
                files.setdefault(_session(row), file)
    for session, rows in sessions.items():
        run = _run(session, sorted(rows, key=lambda row: instant(row["startTime"]) or 0.0))
        yield replace(run, place=RunPlace(file=files[session], words=session))


def _asks(row: Json) -> bool:
    kind = str(row.get("call_type") or "")
    return not any(word in kind for word in _NOT_ASKED)


def _session(row: Json) -> str:
    return text(row.get("session_id")) or _UNNAMED


def _run(session: str, rows: list[Json]) -> FinishedRun:
    unknown = ("reward", "outcome", "content")
    return FinishedRun(
        id=session,
        task=session,
        calls=tuple(map(_call, rows)),
        unknown=(*unknown, "rollout") if session == _UNNAMED else unknown,
    )


def _decoded(value: object) -> Json:
    """Return an object that a column holds as JSON text."""
    if isinstance(value, str):
        try:
            value = parse(value)
        except ValueError:
            return {}
    return mapping(value)


def _call(row: Json) -> RecordedCall:
    metadata = _decoded(row.get("metadata"))
    provider, model = text(row.get("custom_llm_provider")), text(row.get("model")) or ""
    name = f"{provider}/{model}" if provider and "/" not in model else model
    at = instant(row.get("startTime"))
    if "failure" in (row.get("status"), metadata.get("status")):
        return RecordedCall(error=_error(metadata), model=name or None, started_at=at)
    return RecordedCall(
        model=name or None,
        input_tokens=_whole(row.get("prompt_tokens")),
        output_tokens=_whole(row.get("completion_tokens")),
        started_at=at,
    )


def _error(metadata: Json) -> RecordedError:
    error = mapping(metadata.get("error_information"))
    code = text(error.get("error_code"))
    return RecordedError(
        text=text(error.get("error_message")) or "",
        type=text(error.get("error_class")),
        status=int(code) if code and code.isdecimal() and 400 <= int(code) < 600 else None,
    )


def _whole(value: object) -> int | None:
    """Return a count, which a CSV file holds as text."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    return count(value)


# --- writing -----------------------------------------------------------------------------------


def _write(path: Path, verdicts: Verdicts) -> None:
    for file in list(_files(path)):
        if _is_log(file):
            _save(file, [_tagged(row, verdicts) for row in _rows(file)])


def _tagged(row: Json, verdicts: Verdicts) -> Json:
    judged = unhealthy(verdicts, _session(row))
    if judged is None:
        return row
    metadata = {**_decoded(row.get("metadata")), KEY: block(judged)}
    tags = [tag for tag in _tags(row) if not tag.startswith(f"{KEY}:")] + [_tag(judged)]
    textual = isinstance(row.get("metadata"), str), isinstance(row.get("request_tags"), str)
    return {
        **row,
        "metadata": json.dumps(metadata) if textual[0] else metadata,
        "request_tags": json.dumps(tags) if textual[1] else tags,
    }


def _tags(row: Json) -> list[str]:
    value = row.get("request_tags")
    if isinstance(value, str):
        try:
            value = parse(value)
        except ValueError:
            return []
    return [str(tag) for tag in items(value)]


def _tag(judged: Audited) -> str:
    return f"{KEY}:{judged.verdict.fingerprint or judged.verdict.health.value}"


def _save(file: Path, rows: list[Json]) -> None:
    if file.suffix == ".csv":
        _save_csv(file, rows)
    elif file.suffix == ".jsonl":
        save_lines(file, rows)
    else:
        held = load(file)
        save(file, rows if isinstance(held, list) else {**held, "data": rows})


def _save_csv(file: Path, rows: Iterable[Json]) -> None:
    rows = list(rows)
    with whole(file) as copy, copy.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


LITELLM = AuditFormat(
    name="litellm",
    title="LiteLLM spend log",
    marks="rows with `request_id`, `call_type`, `startTime` and `model`",
    recognises=_recognises,
    read=_read,
    write=_write,
)
