"""Create a virtual environment with truezero in it: `python deploy/environment.py .venv LOCK…`.

Installs exactly what the locks pin, with their hashes checked, by uv where it is installed and by
pip otherwise. truezero itself comes in editable form, as `--wheel FILE`, or not at all (`--bare`).
Needs the standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PINNED = re.compile(r"^[a-z0-9]", re.MULTILINE)
_STEP = re.compile(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)")
_PIP_FOR_OTHERS = (22, 3)  # the first pip with --python
_LAST_LINES = 20  # of a failed installer


class InstallError(Exception):
    """An installer failed; the message is the end of its output."""


def main(arguments: Sequence[str]) -> int:
    """Create or complete the environment; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("locks", type=Path, nargs="+")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--bare", action="store_true")
    given = parser.parse_args(arguments)
    folder: Path = given.folder
    itself = ["--no-build-isolation", "--editable", str(ROOT)]
    if given.wheel is not None or given.bare:
        itself = [] if given.bare else ["--no-index", str(given.wheel)]
    began = time.monotonic()
    try:
        count = make(folder, given.locks, itself)
    except InstallError as error:
        print(f"{error}\n{folder}: not installed", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{folder}: interrupted; the next run goes on", file=sys.stderr)
        return 130
    print(f"{folder}: {count} packages in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def pinned(*names: str) -> str:
    """Return the lines of requirements-dev.lock that pin these packages, hashes included."""
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    pattern = rf"^(?:{'|'.join(map(re.escape, names))})==(?:.*\\\n)*.*"
    return "".join(f"{found}\n" for found in re.findall(pattern, lock, re.MULTILINE))


def make(folder: Path, locks: Sequence[Path], itself: Sequence[str]) -> int:
    """Install the locks and truezero into a folder; return how many packages the locks pin.

    Arguments:
        itself: how an installer is told to install truezero; empty for not at all.

    Raises:
        InstallError: a package is not to be had, or its hash is wrong.
    """
    python = folder / "bin" / "python"
    uv, pip = shutil.which(os.environ.get("UV", "uv")), _own_pip()
    if not python.exists():
        venv.create(folder, with_pip=uv is None and pip is None, symlinks=True)
    build = folder / "build.lock"  # what makes the editable install, pinned too
    build.write_text(pinned("setuptools"))
    count = sum(len(_PINNED.findall(lock.read_text("utf-8"))) for lock in locks)
    wanted = [part for lock in (*locks, build) for part in ("-r", str(lock))]
    by_pip = [*(pip or [str(python), "-m", "pip"]), "--disable-pip-version-check"]
    if pip:
        by_pip += ["--python", str(python)]
    by_pip += ["install", "--progress-bar", "off", "--no-compile", "--no-deps"]
    by_uv = [uv, "pip", "install", "--python", str(python), "--no-deps"] if uv else None
    _install(by_uv, by_pip, ["--require-hashes", *wanted], f"installing {count} packages")
    if itself:
        _install(by_uv, by_pip, itself, "installing truezero")
    return count


def _own_pip() -> list[str] | None:
    """Return this Python's pip if it can install elsewhere; copying one takes 4 s."""
    command = [sys.executable, "-m", "pip"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"pip (\d+)\.(\d+)", done.stdout)
    able = version is not None and (int(version[1]), int(version[2])) >= _PIP_FOR_OTHERS
    return command if able else None


def _install(
    by_uv: Sequence[str] | None, by_pip: Sequence[str], what: Sequence[str], said: str
) -> None:
    if by_uv is not None:
        try:
            _run([*by_uv, *what], f"{said} with uv")
        except InstallError:  # pip may have an index or a certificate that uv does not know
            print("uv failed; trying pip", file=sys.stderr)
        else:
            return
    _run([*by_pip, *what], f"{said} with pip")


def _run(command: Sequence[str], said: str) -> None:
    """Run an installer with a line of progress on a terminal, else with one line at its start."""
    shown = sys.stderr.isatty()
    print(said, end="" if shown else "\n", file=sys.stderr, flush=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as installer:
        assert installer.stdout is not None
        for line in installer.stdout:
            output.append(line)
            if shown and (step := _STEP.match(line)):
                print(f"\r{said}: {step[1]:40}", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if installer.returncode != 0:
        raise InstallError("".join(output[-_LAST_LINES:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
