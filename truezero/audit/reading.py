"""The interface of audit formats, and the steps of reading and writing that they share."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from truezero.audit.errors import (
    AuditError,
    FinishedRun,
    PageScope,
    RecordedCall,
    RecordedError,
)
from truezero.audit.judge import Audited

Json = dict[str, Any]
Verdicts = Mapping[str, Audited]
"""Judged runs by their id."""

KEY = "truezero"  # where a written record keeps our verdict and what stood there before
PEEKED = 50  # files of a folder that are opened to recognise it


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFormat:
    """One format of finished runs.

    ``marks`` say what it is recognised by. ``read`` yields its runs; ``write`` puts verdicts into
    the fields of a copy, and returns sentences on what it could not correct there.
    """

    name: str
    title: str
    marks: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Iterator[PageScope]]
    write: Callable[[Path, Verdicts], Sequence[str] | None]


# --- values of other programs ---


def mapping(value: object) -> Json:
    """Return an object, empty where it is none."""
    return dict(value) if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Return a list, empty where it is none."""
    return value if isinstance(value, list) else []


def text(value: object) -> str | None:
    """Return a text that is not empty."""
    return value if isinstance(value, str) and value else None


def number(value: object) -> float | None:
    """Return a finite number; true is 1, false is 0."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def count(value: object) -> int | None:
    """Return a number of things, which is whole and not negative."""
    whole = number(value)
    if isinstance(value, bool) or whole is None or whole < 0 or whole != int(whole):
        return None
    return int(whole)


def total(values: Iterable[int | None]) -> int | None:
    """Add up what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def instant(value: object) -> float | None:
    """Return an ISO time or a number of seconds as seconds since the epoch."""
    if isinstance(value, str) and value:
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    return number(value)


# --- files ---


def load(path: Path) -> Any:
    """Read a JSON file; NaN is read as Inspect writes it.

    Raises:
        AuditError: the file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
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
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path}: {error}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise AuditError(f"{path}: line {place}: {error}") from None


def save(path: Path, value: object, *, indent: int | None = 2) -> None:
    """Write a JSON file, whole or not at all."""
    _replace(path, json.dumps(value, indent=indent, ensure_ascii=False) + "\n")


def save_lines(path: Path, records: Iterable[object]) -> None:
    """Write a file of JSON lines, whole or not at all."""
    _replace(path, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records))


def _replace(path: Path, content: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(content, encoding="utf-8")
    part.replace(path)


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
    """Yield the file itself, or a folder's files of these names, in order."""
    if not path.is_dir():
        yield path
        return
    for pattern in patterns:
        yield from sorted(each for each in path.rglob(pattern) if each.is_file())


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
    return lambda record: isinstance(record, dict) and record.keys() >= set(keys)


# --- a folder for each run ---


def folder_id(path: Path, file: Path, name: object) -> str:
    """Return the path of a run's folder in its job, or the run's own name outside of one."""
    below = file.parent.relative_to(path).as_posix() if path.is_dir() else "."
    return str(name) if below == "." else below


def numbered(
    runs: Iterable[tuple[object, FinishedRun]], number: Literal["attempt", "repeat"]
) -> Iterator[FinishedRun]:
    """Yield the runs of each task in the order of their start, numbered from 0.

    Arguments:
        runs: the start of each run, as its harness wrote it, and the run.
    """
    by_task: dict[str, list[tuple[float, str, FinishedRun]]] = defaultdict(list)
    for started_at, run in runs:
        by_task[run.task].append((instant(started_at) or 0.0, run.id, run))
    for of_task in by_task.values():
        ordered = sorted(of_task, key=lambda each: each[:2])
        for place, (_, _, run) in enumerate(ordered):
            yield replace(run, attempt=place) if number == "attempt" else replace(run, repeat=place)


# --- what is written ---


def block(judged: Audited) -> Json:
    """Return what a marked record says of its verdict; no text of the run is in it."""
    verdict = judged.verdict
    return {
        "health": verdict.health.value,
        "error_category": verdict.error_category,
        "subcategory": verdict.subcategory and verdict.subcategory.value,
        "transient": verdict.transient,
        "fingerprint": verdict.fingerprint,
        "rule": verdict.rule,
        "layer": verdict.layer and verdict.layer.value,
        "error": verdict.error,
        "scoreable": verdict.scoreable,
    }


def stamped(record: Json, judged: Audited, fields: Json) -> Json:
    """Return a record with these fields set, and what they were kept beside the verdict."""
    before = unstamped(record)
    reported = {name: before[name] for name in fields if name in before}
    added = sorted(fields.keys() - before.keys())
    return {**before, **fields, KEY: {**block(judged), "reported": reported, "added": added}}


def unstamped(record: Mapping[str, Any]) -> Json:
    """Return a record as its harness wrote it."""
    ours = mapping(record.get(KEY))
    if "reported" not in ours:
        return dict(record)
    added = set(items(ours.get("added")))
    plain = {name: value for name, value in record.items() if name not in added | {KEY}}
    return {**plain, **mapping(ours["reported"])}


def unhealthy(verdicts: Verdicts, run: str) -> Audited | None:
    """Return the judged run where a verdict takes its score away."""
    judged = verdicts.get(run)
    return judged if judged is not None and judged.verdict.health.unhealthy else None


# --- providers' answers ---
#
# Read whole where a harness kept their JSON; counts and yes or no only.


# Names of one count in the dialects: OpenAI, Anthropic and Responses, Gemini, Bedrock, Gemini's
# Interactions.
_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens",
          "total_input_tokens")  # fmt: skip
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens",
           "total_output_tokens")  # fmt: skip


def call_of(
    status: int | None, request: dict[str, Any], answer: dict[str, Any], *, at: float | None = None
) -> RecordedCall:
    """Return one call by its status and the JSON that went either way."""
    model = text(request.get("model")) or text(answer.get("model"))
    offered = bool(request.get("tools") or request.get("functions")) if request else None
    failed = answer.get("error") or (answer.get("status") == "failed" and "steps" in answer)
    if (status or 0) >= 400 or (failed and not answer.get("choices")):
        error = RecordedError(status=status if (status or 0) >= 400 else None, body=answer)
        return RecordedCall(error=error, model=model, has_tools=offered, started_at=at)
    usage = mapping(answer.get("usage")) or mapping(answer.get("usageMetadata"))
    parts = _parts(answer)
    return RecordedCall(
        model=model,
        content=None if parts is None else any(parts),
        input_tokens=next(
            (n for n in (count(usage.get(k)) for k in _INPUT) if n is not None), None
        ),
        output_tokens=next(
            (n for n in (count(usage.get(k)) for k in _OUTPUT) if n is not None), None
        ),
        tool_calls=None if parts is None else sum(each == _CALL for each in parts),
        has_tools=offered,
        finish_reason=_finish(answer),
        started_at=at,
    )


_CALL = "tool call"


def _parts(answer: dict[str, Any]) -> list[str] | None:
    """Return what came back, part by part; None in a dialect that is not known."""
    for read in (_chat, _messages, _responses, _gemini, _interactions):
        parts = read(answer)
        if parts is not None:
            return [part for part in parts if part]
    return None


def _chat(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("choices"), list):
        return None
    parts: list[str] = []
    for choice in answer["choices"]:
        message = mapping(mapping(choice).get("message"))
        parts += content(message.get("content"))
        parts += [_CALL for _ in items(message.get("tool_calls"))]
    return parts


def _messages(answer: dict[str, Any]) -> list[str] | None:
    return content(answer["content"]) if isinstance(answer.get("content"), list) else None


def _responses(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("output"), list):
        return None
    parts: list[str] = []
    for item in map(mapping, answer["output"]):
        if str(item.get("type", "")).endswith("_call"):
            parts.append(_CALL)
        parts += content(item.get("content"))
    return parts


def _gemini(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("candidates"), list):
        return None
    parts: list[str] = []
    for candidate in map(mapping, answer["candidates"]):
        for part in map(mapping, items(mapping(candidate.get("content")).get("parts"))):
            if "functionCall" in part:
                parts.append(_CALL)
            elif not part.get("thought"):
                parts.append(text(part.get("text")) or "")
    return parts


def _interactions(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("steps"), list):
        return None
    parts: list[str] = []
    for step in map(mapping, answer["steps"]):
        if step.get("type") == "function_call":
            parts.append(_CALL)
        elif step.get("type") == "model_output":
            parts += content(step.get("content"))
    return parts


def content(value: object) -> list[str]:
    """Return the visible parts of a message's content; reasoning is none."""
    if isinstance(value, str):
        return [value]
    parts: list[str] = []
    for part in items(value):
        if isinstance(part, str):
            parts.append(part)
            continue
        kind = str(mapping(part).get("type", ""))
        if kind in ("tool_use", "tool_call", "function_call"):
            parts.append(_CALL)
        elif kind not in ("thinking", "redacted_thinking", "reasoning"):
            parts.append(text(mapping(part).get("text")) or "")
    return parts


def _finish(answer: dict[str, Any]) -> str | None:
    first = mapping(
        next(iter(items(answer.get("choices")) or items(answer.get("candidates"))), None)
    )
    return (
        text(first.get("finish_reason"))
        or text(first.get("finishReason"))
        or text(answer.get("stop_reason"))
        or (text(answer.get("status")) if "steps" in answer else None)
    )


def tokens_of(usage: object) -> int | None:
    """Return a usage block's tokens, input and output; None if it counts none."""
    counts = mapping(usage)
    stated = count(counts.get("total_tokens"))
    names = (*_INPUT, *_OUTPUT)
    return total(count(counts.get(name)) for name in names) if stated is None else stated
