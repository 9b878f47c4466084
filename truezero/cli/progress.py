"""Progress of what takes longer than two seconds: live on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from truezero.printable import visible

FIRST_S = 2.0
EACH_S = 30.0


@contextmanager
def progress(
    doing: str, *, first_s: float = FIRST_S, each_s: float = EACH_S, out: TextIO | None = None
) -> Iterator[Callable[[str], None]]:
    """Show what is being done, on standard error; yields what updates it.

    Arguments:
        first_s, each_s: where nobody watches: seconds until the first line, and between lines.
    """
    stream = sys.stderr if out is None else out
    if stream.isatty():
        from rich.console import Console  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415

        with Console(file=stream).status(escape(visible(doing))) as status:
            yield lambda text: status.update(escape(visible(text)))
        return
    lines = _PipedProgress(doing, stream, first_s, each_s)
    lines.start()
    try:
        yield lines.update
    finally:
        lines.stop()


class _PipedProgress:
    """Writes the latest text as a line, in a thread: the work may be one long call."""

    def __init__(self, text: str, out: TextIO, first_s: float, each_s: float) -> None:
        self._text = text
        self._out = out
        self._first_s, self._each_s = first_s, each_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.start = self._thread.start

    def update(self, text: str) -> None:
        """Take the next text."""
        self._text = text

    def stop(self) -> None:
        """Write no more."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._done.wait(wait_s):
            self._out.write(f"truezero: {visible(self._text)}\n")
            self._out.flush()
            wait_s = self._each_s
