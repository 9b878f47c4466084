"""What a process of the service is told first, before its modules are loaded.

It is for the service's own processes only, and serves nothing.
"""

from __future__ import annotations

import ctypes
import gc

# malloc.h of glibc: from which size on a block is mapped on its own, and how much free memory the
# heap may end in before it is given back; in bytes.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = (-3, 1 << 20), (-1, 8 << 20)


def tune_process() -> None:
    """Disable garbage collection until the service has started, and keep freed memory.

    What a start makes is kept, so that looking for garbage in it takes a seventh of it for
    nothing.

    The C library keeps some freed memory for the next request. Where its heap happens to end in
    one, each of 100 kB would be given back and taken anew page by page: 12 page faults, and a
    sixth of its CPU.
    """
    _keep_memory()
    gc.disable()


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(*option)
