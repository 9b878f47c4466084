"""Harness environments come from the user's cache, and belong to one checkout all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.journeys import environments
from tests.journeys.environments import ROOT, cached, install, lay


def environment(folder: Path) -> Path:
    """As `python -m venv` leaves one, but for its Python; returns the folder of its packages."""
    (folder / "bin").mkdir(parents=True)
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    return packages


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, where nothing is asked of an index: a harness's package is its pins."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = subprocess.run

    def run(command: list[str], **how: Any) -> Any:
        if "venv" in command:
            environment(Path(command[-1]))
        elif "pip" in command:
            [packages] = Path(command[0]).parent.parent.glob("lib/python*/site-packages")
            (packages / "installed.py").write_text(Path(command[-1]).read_text())
        else:
            return real(command, **how)
        return None

    monkeypatch.setattr(subprocess, "run", run)
    return environments.cache()


def test_the_same_pins_are_installed_once_and_others_beside(place: Path, tmp_path: Path) -> None:
    pins = tmp_path / "one.txt"
    pins.write_text("print('first')\n")
    first = cached("one", pins, sys.executable)
    mark = first / "mark"
    mark.touch()
    assert cached("one", pins, sys.executable) == first
    assert mark.exists()
    pins.write_text("print('second')\n")
    second = cached("one", pins, sys.executable)
    assert {path.name for path in place.iterdir()} == {first.name, second.name}


@pytest.mark.slow
def test_a_checkouts_environment_has_the_packages_and_commands_of_the_cache(tmp_path: Path) -> None:
    over, ours = tmp_path / "over", tmp_path / "ours"
    packages = environment(over)
    (packages / "installed.py").write_text("import sys; print(sys.prefix)\n")
    (packages / "more.pth").write_text("import sys; sys.told = 'heeded'\n")
    tells = "import installed, sys, truezero; from importlib.metadata import entry_points\n"
    tells += "print(sys.told, truezero.__file__, len(entry_points(name='truezero')))\n"
    (over / "bin" / "tells").write_text("#!/elsewhere/bin/python3.11\n" + tells)
    (over / "bin" / "tool").write_text("#!/bin/sh\necho told\n")
    own = lay(ours, over, sys.executable)
    assert [path.name for path in own.iterdir()] == ["cached.pth"], "nothing of truezero"
    install(own)
    done = subprocess.run([ours / "bin" / "tells"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [str(ours), f"heeded {ROOT}/truezero/__init__.py 3"], done
    assert (ours / "bin" / "tool").resolve() == over / "bin" / "tool"
    files = sorted(path.name for path in packages.iterdir() if path.is_file())
    assert files == ["installed.py", "more.pth"]
