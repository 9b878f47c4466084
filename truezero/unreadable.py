"""Keep a process's environment and memory from other processes of its user (Linux)."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4  # linux/prctl.h; prctl(2)


def make_unreadable() -> bool:
    """Hide this process's environment, memory and open files from its user's other processes.

    Root, and whoever may trace any process, still reads them. A program that this process starts
    is readable again. Taking a variable out of ``os.environ`` leaves it in ``/proc/PID/environ``.

    Returns:
        False if the system has no such switch: nothing is hidden.
    """
    if sys.platform != "linux":
        return False
    try:
        hidden: int = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return hidden == 0
