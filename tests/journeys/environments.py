"""The harnesses' environments: ``python -m tests.journeys.environments NAME FOLDER [PYTHON]``.

What a harness's pins install is kept in the user's cache, in a folder named by a hash of the pins
and the Python: another checkout has it at once. FOLDER becomes a small environment that finds the
cached packages, with their commands; where a harness must find truezero as `pip install` leaves it,
this checkout's is found there too, and nowhere in the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from tests.newer_python import find

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "tests" / "journeys" / "integrations"
# These find us as a distribution.
AS_INSTALLED = frozenset({"benchflow", "gateways", "harbor", "nemo_evaluator"})
NEWER = (3, 12)  # is what these need besides
ON_REQUEST = frozenset({"heavy"})  # by `make integrations MORE=…`: they are large
KEPT_S = 30 * 24 * 3600.0
_WHICH = "import sys, sysconfig; print(sys.version, sysconfig.get_platform())"
_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "-r")


def harnesses() -> list[str]:
    """Every harness that has pins, also one that is run on request only."""
    return sorted(path.stem for path in PINS.glob("*.txt"))


def cache() -> Path:
    """The folder in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "truezero" / "harnesses"


def cached(name: str, pins: Path, python: str) -> Path:
    """Return the environment with these pins, made where it is not there yet.

    It is made beside and renamed, so that it is whole wherever it is, and whoever comes second
    takes the first one's. Those of the same harness that nobody used for a month go.
    """
    place = cache()
    place.mkdir(parents=True, exist_ok=True)
    which = _said(python, "-c", _WHICH)
    found = place / f"{name}-{hashlib.sha256(pins.read_bytes() + which.encode()).hexdigest()[:16]}"
    if not found.exists():
        made = place / f"{found.name}.{os.getpid()}"
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(made)], check=True)
        subprocess.run([str(made / "bin" / "python"), *_PIP, str(pins)], check=True)
        try:
            made.rename(found)
        except OSError:  # another was faster
            shutil.rmtree(made)
    return used(found, name)


def used(found: Path, name: str) -> Path:
    """Keep a folder of the cache for another month; delete those of its name that nobody used."""
    os.utime(found)
    for other in found.parent.glob(f"{name}-*"):
        if other.stat().st_mtime < time.time() - KEPT_S:
            shutil.rmtree(other, ignore_errors=True)
    return found


def lay(folder: Path, over: Path, python: str) -> Path:
    """Make a small environment over a cached one; return the folder of its own packages."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    [below] = over.glob("lib/python*/site-packages")
    own = folder / below.relative_to(over)
    (own / "cached.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
    python_line = f"#!{folder.absolute() / 'bin' / 'python'}\n".encode()
    for command in (over / "bin").iterdir():
        mine = folder / "bin" / command.name
        first, _, rest = command.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"python" in first:
            mine.write_bytes(python_line + rest)
            mine.chmod(0o755)
        elif not mine.exists() and not command.name.lower().startswith("activate"):
            mine.symlink_to(command)
    return own


def as_installed(folder: Path) -> None:
    """Let programs that look for packages in this folder find our version and entry points."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in points.items()
    ]
    info = folder / "truezero-0.dist-info"
    info.mkdir(exist_ok=True)
    told = f"Metadata-Version: 2.1\nName: truezero\nVersion: {metadata.version('truezero')}\n"
    (info / "METADATA").write_text(told)
    (info / "entry_points.txt").write_text("\n".join(groups))


def install(packages: Path) -> None:
    """Install this checkout as `pip install --editable` does, but that no builder is asked for."""
    (packages / "truezero.pth").write_text(f"{ROOT}\n")
    as_installed(packages)


def make(name: str, folder: Path, python: str) -> bool:
    """Make a harness's environment; False where no Python here is new enough."""
    if name in AS_INSTALLED:
        newer = find(NEWER, [python])
        if newer is None:
            sys.stderr.write(f"{name} is not run: it needs Python {NEWER[0]}.{NEWER[1]}\n")
            return False
        python = newer
    own = lay(folder, cached(name, PINS / f"{name}.txt", python), python)
    if name in AS_INSTALLED:
        install(own)
    (folder / ".ready").touch()
    return True


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main(arguments: Sequence[str]) -> int:
    """Make one."""
    name, folder, *python = arguments
    make(name, Path(folder), (python or [sys.executable])[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
