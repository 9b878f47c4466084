"""A newer Python is found wherever a machine has one; what only claims to be one is not taken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.newer_python import find, main, one_of_each

HERE = (sys.version_info.major, sys.version_info.minor)
NEVER = (3, 19)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all programs of a machine: there is none yet."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "bin"


def test_each_place_is_looked_at(bare: Path, tmp_path: Path) -> None:
    pyenv = tmp_path / "pyenv"
    assert find(NEVER, [sys.executable]) is None
    claims = program(bare / "python3.19", "exit 127")  # as a shim of pyenv does
    assert find(NEVER) is None

    program(bare / "uv", f'echo {tmp_path}/uv/python; test "$UV_PYTHON_DOWNLOADS" = never')
    of_uv = program(tmp_path / "uv" / "python", "exit 0")
    assert find(NEVER) == str(of_uv)
    program(bare / "pyenv", f"echo {pyenv}")
    of_pyenv = program(pyenv / "versions" / "3.19.1" / "bin" / "python3", "exit 0")
    assert find(NEVER) == str(of_pyenv)
    program(claims, "exit 0")
    assert find(NEVER) == "python3.19"
    assert find(HERE, ["python-that-is-not-there", sys.executable]) == sys.executable


def test_a_machine_without_one_is_told_so(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("3.99") == 1
    assert capsys.readouterr().err.startswith("no Python 3.99 or newer here")
    assert main(f"{HERE[0]}.{HERE[1]}", sys.executable) == 0
    assert capsys.readouterr().out.strip() == sys.executable


def test_one_of_each_version_is_taken_the_oldest_first(
    bare: Path,
) -> None:
    for minor, code in ((19, 0), (18, 0), (17, 127)):
        program(bare / f"python3.{minor}", f"echo {minor}; exit {code}")
    assert one_of_each((3, 17)) == ["python3.18", "python3.19"]
    assert one_of_each(HERE)[0] == sys.executable
