"""The heartbeat: a process says that it lives, whatever else fails."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from proxy.server import background
from tests.proxy.api.test_routes import serving


def test_a_process_in_trouble_goes_on_saying_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would take it for dead, and its calls in flight for lost."""

    failed = threading.Event()

    def no_file_left(*_: object) -> None:
        failed.set()
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(background, "_HEARTBEAT_S", 0.05)
    with serving(tmp_path):
        monkeypatch.setattr(background, "left_behind", no_file_left)
        assert failed.wait(60)
        at_first = _seen_at(tmp_path / "t.db")
        deadline = time.monotonic() + 300
        while _seen_at(tmp_path / "t.db") == at_first and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _seen_at(tmp_path / "t.db") > at_first


def _seen_at(database: Path) -> float:
    """When the process was last seen; 0.0 as long as it was not."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        row = connection.execute("SELECT seen_at FROM workers").fetchone()
    return float(row[0]) if row else 0.0
