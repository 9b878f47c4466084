"""What makes a start shorter: called once, before the service's modules are loaded.

It is for the service's own processes only, and serves nothing.
"""

from __future__ import annotations

import gc
import sys


def lighten() -> None:
    """Look for no garbage until the service has started, and load no command line of httpx's.

    What a start makes is kept, so that looking for garbage in it takes a seventh of it for
    nothing. httpx does without its command line where that cannot be imported, and with it
    without rich and pygments, another twelfth.
    """
    gc.disable()
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # "cannot be imported"
