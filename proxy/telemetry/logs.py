"""What the service says while it runs: one line a call, and its own troubles, as JSON or for eyes.

It never writes a header, key, prompt, completion, query string or error message; of an exception
it writes the type and where it came from.
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
from proxy.recording.ports import FlushObserver, FlushResult

Format = Literal["json", "console"]

_OURS = ("truezero", "uvicorn", "uvicorn.error")
_WHOLE = 4096  # PIPE_BUF of Linux, in characters of ASCII
_FRAMES = 12  # the innermost ones say where it happened

Facts = dict[str, Any]
Renderer = Callable[[Facts], str]


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
        handler.setFormatter(_Lines(self._renderer()))
        root = logging.getLogger()
        root.handlers[:] = [handler]
        # Libraries tell URLs and headers at the lower levels.
        root.setLevel(max(logging.WARNING, _number(self.level)))
        for name in _OURS:
            logger = logging.getLogger(name)
            logger.setLevel(_number(self.level))
            logger.handlers[:], logger.propagate = [], True  # not the server's own way as well
        _drop(_is_of_a_cut_answer, "uvicorn.error")

    def exchanges(self) -> FlushObserver | None:
        """What writes a line for each call that ended; None where the level says nothing of it."""
        if _number(self.level) > logging.INFO:
            return None
        render, out = self._renderer(), self.out

        def observe(turn: FlushResult) -> None:
            head = _head("exchange")
            for piece in _pieces(render(head | _facts(e)) for e in turn.ended):
                out.write(piece)
                out.flush()

        return observe

    def announce(self, event: str, **facts: Any) -> None:
        """Say something that is wanted at every level."""
        self.out.write(f"{self._renderer()(_head(event) | facts)}\n")
        self.out.flush()

    def _renderer(self) -> Renderer:
        if self.style == "json" or (self.style is None and not self.out.isatty()):
            return _as_json
        return _for_eyes(self.out)


def _for_eyes(out: TextIO) -> Renderer:
    from structlog.dev import ConsoleRenderer  # noqa: PLC0415  20 ms, and few starts have eyes on them

    render = ConsoleRenderer(colors=out.isatty(), repr_native_str=False, sort_keys=False)
    return lambda facts: str(render(out, facts["level"], facts))


def _head(event: str, level: str = "info", **more: str) -> Facts:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {"event": event, "level": level, **more, "timestamp": now}


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


def _as_json(facts: Facts) -> str:
    return orjson.dumps(facts, default=str).decode()


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


# --- what other loggers say --------------------------------------------------------------


class _Lines(logging.Formatter):
    """One line for each record: of an exception its type and frames, and not its message."""

    def __init__(self, render: Renderer) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        """What a record says, without the further lines in which asyncio tells messages."""
        event = record.getMessage().strip().partition("\n")[0]
        facts = _head(event, record.levelname.lower(), logger=record.name)
        if record.exc_info and record.exc_info[0] is not None:
            facts |= {"raised": record.exc_info[0].__name__, "at": _frames(record.exc_info[2])}
        return self._render(facts)


def _frames(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-_FRAMES:]
    return " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames)


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
