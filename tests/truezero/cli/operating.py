"""Commands as an operator gives them: in processes of their own, or in this one."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests import forked
from truezero.cli import app, options

CLEAN = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}


def truezero(
    *words: str, folder: Path, given: bytes = b"", **more: str
) -> subprocess.CompletedProcess[bytes]:
    return forked.run_bytes(*words, cwd=folder, env={**CLEAN, **more}, given=given)


def told(done: subprocess.CompletedProcess[bytes]) -> tuple[int, str]:
    return done.returncode, done.stderr.decode()


def made(folder: Path) -> set[str]:
    """What there is but for the files that SQLite keeps beside an open database."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("truezero.db-")}


def here(
    monkeypatch: pytest.MonkeyPatch, folder: Path, words: list[str], given: bytes | None = None
) -> Result:
    """The command in this process, which spares its start."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(options, "FIRST_S", threading.TIMEOUT_MAX)
    monkeypatch.setattr(os, "environ", {**CLEAN})  # into which flags are put
    return CliRunner().invoke(app, words, input=given)
