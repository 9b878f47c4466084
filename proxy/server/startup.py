"""Tuning of a service process: memory and garbage collection, at its start and while it serves."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator

# malloc.h of glibc: the size from which a block is mapped on its own, and how much free memory the
# heap may end in before it is given back; in bytes.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = (-3, 1 << 20), (-1, 8 << 20)

GC_THRESHOLDS = (50_000, 20, 50)  # fewer, later collections: thousands of streams live long


def tune_process() -> None:
    """Tune a process before the modules of the service are imported.

    Garbage collection is off until the service has started: what a start allocates is kept, and
    searching it takes a seventh of the start.

    The C library keeps some freed memory for the next request. Where its heap happens to end in
    one, each of 100 kB would be given back and mapped again page by page: 12 page faults, and a
    sixth of its CPU.
    """
    _keep_memory()
    gc.disable()


@contextlib.contextmanager
def garbage_collection() -> Iterator[None]:
    """Collect garbage while serving, but not among what lives as long as the process."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()  # tests run several services in one process
        gc.set_threshold(*before)


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(*option)
