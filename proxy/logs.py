"""What the service says while it runs: one line a call, and its own troubles, as JSON or for eyes.

It never writes a header, key, prompt, completion, query string or error message; of an exception
it writes the type and where it came from.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor

from classifier.records import Exchange
from proxy.recorder import Observer, Turn

Format = Literal["json", "console"]

_OURS = ("truezero", "uvicorn", "uvicorn.error")
_WHOLE = 4096  # PIPE_BUF of Linux, in characters of ASCII
_FRAMES = 12  # the innermost ones say where it happened

_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Where lines go, from which level on, and how they look.

    ``style`` is by default what suits ``out``: for eyes on a terminal, else JSON.
    """

    level: str = "info"
    style: Format | None = None
    out: TextIO = field(default_factory=lambda: sys.stderr)

    def install(self) -> None:
        """Route every logger of the process here; may be called again."""
        handler = logging.StreamHandler(self.out)
        handler.setFormatter(
            ProcessorFormatter(
                foreign_pre_chain=[
                    structlog.processors.add_log_level,
                    structlog.stdlib.add_logger_name,
                    _stamp,
                    _whence,
                    _tersely,
                ],
                processors=[ProcessorFormatter.remove_processors_meta, self._renderer()],
            )
        )
        root = logging.getLogger()
        root.handlers[:] = [handler]
        # Libraries tell URLs and headers at the lower levels.
        root.setLevel(max(logging.WARNING, _number(self.level)))
        for name in _OURS:
            logger = logging.getLogger(name)
            logger.setLevel(_number(self.level))
            logger.handlers[:], logger.propagate = [], True  # not the server's own way as well
        _drop(_is_of_a_cut_answer, "uvicorn.error")

    def exchanges(self) -> Observer | None:
        """What writes a line for each call that ended; None where the level says nothing of it."""
        if _number(self.level) > logging.INFO:
            return None
        render, out = self._renderer(), self.out

        def observe(turn: Turn) -> None:
            head = _head("exchange")
            for piece in _pieces(str(render(out, "info", head | _facts(e))) for e in turn.ended):
                out.write(piece)
                out.flush()

        return observe

    def announce(self, event: str, **facts: Any) -> None:
        """Say something that is wanted at every level."""
        self.out.write(f"{self._renderer()(self.out, 'info', _head(event) | facts)!s}\n")
        self.out.flush()

    def _renderer(self) -> Processor:
        if self.style == "json" or (self.style is None and not self.out.isatty()):
            return structlog.processors.JSONRenderer(serializer=_as_json)
        return structlog.dev.ConsoleRenderer(
            colors=self.out.isatty(), repr_native_str=False, sort_keys=False
        )


def _head(event: str) -> dict[str, Any]:
    return dict(_stamp(None, "info", {"event": event, "level": "info"}))


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Lines put together, up to what one write hands on whole although others write too."""
    piece = ""
    for line in lines:
        if piece and len(piece) + len(line) >= _WHOLE:
            yield piece
            piece = ""
        piece += line + "\n"
    if piece:
        yield piece


def _facts(e: Exchange) -> dict[str, Any]:
    """What one line tells of a call; what is unknown is left out."""
    timing, usage, cause = e.timing, e.usage, e.cause
    facts = {
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
    return {name: value for name, value in facts.items() if value is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _printable(text: str | None) -> str | None:
    """Text that others chose, without what would move a terminal's cursor or forge a line."""
    if text is None or text.isprintable():
        return text
    return text.encode("unicode_escape").decode("ascii")


def _as_json(line: Mapping[str, Any], **_options: Any) -> str:
    return orjson.dumps(line, default=str).decode()


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


# --- what other loggers say --------------------------------------------------------------


def _whence(_logger: object, _name: str, event: EventDict) -> EventDict:
    """An exception's type and frames in place of its message, which may hold what was asked."""
    info = event.pop("exc_info", None)
    if info and info[0] is not None:
        event["raised"] = info[0].__name__
        event["at"] = _frames(info[2])
    return event


def _frames(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-_FRAMES:]
    return " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames)


def _tersely(_logger: object, _name: str, event: MutableMapping[str, Any]) -> EventDict:
    """One line only: asyncio's further lines hold an exception's message."""
    event["event"] = str(event["event"]).strip().partition("\n")[0]
    return event


def _is_of_a_cut_answer(record: logging.LogRecord) -> bool:
    """Cutting answers short is the relay's way to hand a provider's broken connection on."""
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
