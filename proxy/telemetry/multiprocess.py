"""A folder for the processes of one service: gone when it ends, or at the next start if killed.

It knows nothing of what is put there, and takes away nothing whose owner may be alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "truezero-metrics-"
_OWNER = "owner"  # a file that is locked as long as who made the folder lives


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder among the temporary ones; those of dead owners are taken away first."""
    _take_away_the_dead(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, _owned(Path(name)):
        yield Path(name)


@contextlib.contextmanager
def _owned(place: Path) -> Iterator[None]:
    """The lock gets its name last, so that nobody finds it free while its owner lives."""
    unlocked = place / (_OWNER + ".new")
    with unlocked.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(place / _OWNER)
        yield


def _take_away_the_dead(place: Path) -> None:
    for found in place.glob(_PREFIX + "*"):
        with contextlib.suppress(OSError), _abandoned(found):
            shutil.rmtree(found)


@contextlib.contextmanager
def _abandoned(found: Path) -> Iterator[None]:
    """Hold the lock of a folder of our user's; OSError where somebody else has it, or none is."""
    if found.lstat().st_uid != os.getuid():
        raise PermissionError(found)
    lock = os.open(found / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)
