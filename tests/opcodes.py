"""Count the bytecode instructions of some code: the same on any machine, however busy it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Counting:
    """Counts what this thread does inside of it, in ``opcodes``.

    Garbage of others waits meanwhile: what ends their objects would run in this thread.
    """

    def __init__(self) -> None:
        self.opcodes = 0
        self._collects = True
        self._before: Any = None

    def __enter__(self) -> Counting:
        """Begin."""
        self._collects, self._before = gc.isenabled(), sys.gettrace()
        gc.disable()
        sys.settrace(self._entered)
        return self

    def __exit__(self, *raised: object) -> None:
        """End, and leave everything as it was."""
        sys.settrace(self._before)
        if self._collects:
            gc.enable()

    def _entered(self, frame: FrameType, _event: str, _argument: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._inside

    def _inside(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self.opcodes += event == "opcode"
        return self._inside


def opcodes(action: Callable[[], object]) -> int:
    """Count the bytecode instructions of an action."""
    with Counting() as count:
        action()
    return count.opcodes
