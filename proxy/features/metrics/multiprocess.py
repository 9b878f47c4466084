"""Temporary folder shared by the processes of one service.

It is deleted when the service stops or, after a kill, when the next one starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Names the folder to processes; read by prometheus_client on import.
SHARED = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "truezero-metrics-"
_OWNER = "owner"  # a file that is locked as long as the process that created the folder lives


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Create an empty temporary folder, and delete those of dead processes."""
    _delete_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, _locked(Path(name)):
        yield Path(name)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Lock a folder; the lock file is renamed last, so that it never appears unlocked."""
    unlocked = place / (_OWNER + ".new")
    with unlocked.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(place / _OWNER)
        yield


def _delete_abandoned(place: Path) -> None:
    for folder in place.glob(_PREFIX + "*"):
        with contextlib.suppress(OSError), _abandoned(folder):
            shutil.rmtree(folder)


@contextlib.contextmanager
def _abandoned(folder: Path) -> Iterator[None]:
    """Hold the lock of one of our user's folders; OSError if it is held, or there is none."""
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(folder)
    lock = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)
