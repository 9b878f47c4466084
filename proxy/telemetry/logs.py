"""Logging as JSON or console lines: one line per call, and the service's own events.

Never logs headers, keys, prompts, completions, query strings or error messages; of an exception it
logs the type and where it was raised.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO

import orjson

from classifier.records import Exchange
from proxy.recording.backlog import FlushObserver, FlushResult

Format = Literal["json", "console"]

_OURS = ("truezero", "uvicorn", "uvicorn.error")
_WHOLE = 4096  # PIPE_BUF of Linux, in characters of ASCII
_FRAMES = 12  # the innermost ones say where it happened

Fields = dict[str, Any]
Renderer = Callable[[Fields], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The destination, the lowest level and the format of log lines.

    ``style`` defaults to console on a terminal, else JSON.
    """

    level: str = "info"
    style: Format | None = None
    out: TextIO = field(default_factory=lambda: sys.stderr)

    def install(self) -> None:
        """Route all loggers of the process here; may be called again."""
        handler = logging.StreamHandler(self.out)
        handler.setFormatter(_Formatter(self._renderer()))
        root = logging.getLogger()
        root.handlers[:] = [handler]
        # Libraries log URLs and headers at lower levels.
        root.setLevel(max(logging.WARNING, _number(self.level)))
        for name in _OURS:
            logger = logging.getLogger(name)
            logger.setLevel(_number(self.level))
            logger.handlers[:], logger.propagate = (
                [],
                True,
            )  # drop the handlers that uvicorn installs
        _drop(_is_truncated_response, "uvicorn.error")

    def exchanges(self) -> FlushObserver | None:
        """Return an observer that logs one line per finished call; None above level info."""
        if _number(self.level) > logging.INFO:
            return None
        render, out = self._renderer(), self.out

        def observe(flush: FlushResult) -> None:
            head = _head("exchange")
            for chunk in _chunks(render(head | _fields(e)) for e in flush.ended):
                out.write(chunk)
                out.flush()

        return observe

    def announce(self, event: str, **fields: Any) -> None:
        """Log an event whatever the level."""
        self.out.write(f"{self._renderer()(_head(event) | fields)}\n")
        self.out.flush()

    def _renderer(self) -> Renderer:
        if self.style == "json" or (self.style is None and not self.out.isatty()):
            return _as_json
        return _console(self.out)


def _console(out: TextIO) -> Renderer:
    from structlog.dev import ConsoleRenderer  # noqa: PLC0415  20 ms, only needed on a terminal

    render = ConsoleRenderer(colors=out.isatty(), repr_native_str=False, sort_keys=False)
    return lambda fields: str(render(out, fields["level"], fields))


def _head(event: str, level: str = "info", **more: str) -> Fields:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {"event": event, "level": level, **more, "timestamp": now}


def _chunks(lines: Iterable[str]) -> Iterator[str]:
    """Join lines, up to the size that one write keeps whole although other processes write too."""
    chunk = ""
    for line in lines:
        if chunk and len(chunk) + len(line) >= _WHOLE:
            yield chunk
            chunk = ""
        chunk += line + "\n"
    if chunk:
        yield chunk


def _fields(e: Exchange) -> Fields:
    """Return the fields of a call's line, leaving out unknown ones."""
    timing, usage, cause = e.timing, e.usage, e.cause
    fields = {
        "exchange": e.id,
        "rollout": _printable(e.rollout_id),
        "role": _printable(e.role),
        "upstream": e.upstream,
        "api": e.api,
        "model": _printable(e.model),
        "status": e.status,
        "ending": e.ending,
        "subcategory": cause.subcategory if cause else None,
        "rule": cause.rule if cause else None,
        "duration_s": _rounded(timing.duration_s),
        "first_byte_s": _rounded(timing.first_byte_s),
        "first_token_s": _rounded(timing.first_token_s),
        "input_tokens": usage.input_total,
        "output_tokens": usage.output_total,
        "request_bytes": e.request_bytes,
        "response_bytes": e.response_bytes,
        "provider_request_id": _printable(e.provider_request_id),
        "injected": e.injected or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _printable(text: str | None) -> str | None:
    """Escape text from outside that could move a terminal's cursor or forge a line."""
    if text is None or text.isprintable():
        return text
    return text.encode("unicode_escape").decode("ascii")


def _as_json(fields: Fields) -> str:
    return orjson.dumps(fields, default=str).decode()


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


# --- other loggers -----------------------------------------------------------------------


class _Formatter(logging.Formatter):
    """One line per record; of an exception the type and frames, not the message."""

    def __init__(self, render: Renderer) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        """Format the first line of a record; the next ones may hold messages."""
        event = record.getMessage().strip().partition("\n")[0]
        fields = _head(event, record.levelname.lower(), logger=record.name)
        if record.exc_info and record.exc_info[0] is not None:
            fields |= {"raised": record.exc_info[0].__name__, "at": _location(record.exc_info[2])}
        return self._render(fields)


def _location(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-_FRAMES:]
    return " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames)


def _is_truncated_response(record: logging.LogRecord) -> bool:
    """Return True for uvicorn's line about a response cut short: the relay cuts some on purpose."""
    return "without completing response" in record.getMessage()


class _Drop(logging.Filter):
    def __init__(self, unwanted: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self._unwanted = unwanted

    def filter(self, record: logging.LogRecord) -> bool:
        return not self._unwanted(record)


def _drop(unwanted: Callable[[logging.LogRecord], bool], name: str) -> None:
    logger = logging.getLogger(name)
    logger.filters[:] = [*(f for f in logger.filters if not isinstance(f, _Drop)), _Drop(unwanted)]
