"""What a killed service leaves among the temporary files goes at the next start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.features.metrics import multiprocess

OWNER = """
import sys
from proxy.features.metrics import multiprocess
with multiprocess.folder() as folder:
    (folder / "counter_1.db").write_bytes(b"1")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def owner(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that has a folder there."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def test_a_killed_owners_folder_is_taken_away_at_the_next_start(temporary: Path) -> None:
    with owner(temporary) as (process, left):
        process.kill()
        process.wait()
        assert (left / "counter_1.db").exists()
        with multiprocess.folder() as ours:
            assert list(temporary.iterdir()) == [ours]
    assert list(temporary.iterdir()) == []


def test_a_living_owners_folder_stays(temporary: Path) -> None:
    with owner(temporary) as (_, theirs), multiprocess.folder():
        assert (theirs / "counter_1.db").exists()


def test_what_shows_no_owner_stays(temporary: Path) -> None:
    """It may be one that is being made at this moment, or not ours."""
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner").touch()
    (temporary / "truezero-metrics-new").mkdir()
    (temporary / "truezero-metrics-file").touch()
    (temporary / "truezero-metrics-link").symlink_to(elsewhere)
    before = sorted(temporary.rglob("*"))
    with multiprocess.folder():
        pass
    assert sorted(temporary.rglob("*")) == before
