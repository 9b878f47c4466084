"""Find a Python of at least some version: ``python -m tests.newer_python 3.12 [CANDIDATE…]``.

Looks at the candidates, at PATH, at pyenv's versions and at uv's, and installs nothing. Prints
its path, or says where it looked and exits with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_LATEST_MINOR = 20
_PATIENCE_S = 60
# A shim of pyenv stands on PATH also for versions that are not selected, and then fails.
_CHECK = "import ensurepip, sys, venv; sys.exit(sys.version_info < ({}, {}))"


def find(wanted: tuple[int, int], candidates: Sequence[str] = ()) -> str | None:
    """Return the first Python that is new enough and can make an environment; None without."""
    tried = set()
    for python in (*candidates, *_everywhere(wanted)):
        if python not in tried and _fits(python, wanted):
            return python
        tried.add(python)
    return None


def one_of_each(wanted: tuple[int, int]) -> list[str]:
    """Return a Python of each minor version from the wanted one on, the oldest first."""
    major, oldest = wanted
    found: dict[int, str] = {}
    for python in (sys.executable, *_everywhere(wanted)):
        minor = _minor(python)
        if minor is not None and minor >= oldest and _fits(python, (major, minor)):
            found.setdefault(minor, python)
    return [found[minor] for minor in sorted(found)]


def _minor(python: str) -> int | None:
    said = _said(python, "-c", "import sys; print(sys.version_info.minor)")
    return int(said) if said and said.isdigit() else None


def _everywhere(wanted: tuple[int, int]) -> Iterator[str]:
    major, minor = wanted
    for newer in range(minor, _LATEST_MINOR):
        yield f"python{major}.{newer}"
    for root in (_said("pyenv", "root"), os.environ.get("PYENV_ROOT"), "~/.pyenv"):
        if root:
            versions = Path(root).expanduser() / "versions"
            yield from map(str, sorted(versions.glob(f"{major}.*/bin/python{major}")))
    if found := _said("uv", "python", "find", "--no-project", f">={major}.{minor}"):
        yield found


def _said(*command: str) -> str | None:
    """Return what a program prints; None without it, or where it fails."""
    if shutil.which(command[0]) is None:
        return None
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    return done.stdout.strip() or None if done.returncode == 0 else None


def _fits(python: str, wanted: tuple[int, int]) -> bool:
    if shutil.which(python) is None:
        return False
    done = subprocess.run(
        [python, "-c", _CHECK.format(*wanted)],
        capture_output=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    return done.returncode == 0


def main(version: str, *candidates: str) -> int:
    """Print the Python, or why there is none."""
    major, _, minor = version.partition(".")
    found = find((int(major), int(minor)), candidates)
    if found is None:
        sys.stderr.write(
            f"no Python {version} or newer here: neither on PATH, nor of pyenv, nor of uv\n"
        )
        return 1
    sys.stdout.write(found + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
