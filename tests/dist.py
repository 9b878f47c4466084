"""``python -m tests.dist``: build what is released into dist/, and try it in empty environments.

A source distribution, a wheel of plain Python, and a wheel with a compiled hot path for each
CPython at hand, tagged by the C library it was built on. Then, on each Python and with nothing
else around: install by the lock and the wheel, run `truezero --version` and `truezero demo` from an
empty folder, and check the types of a small project that uses truezero, with mypy and, where npm
is, with pyright. Ends with one row for each, and with 1 if one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.environment import pinned
from tests.forked import ROOT
from tests.newer_python import one_of_each

PYRIGHT = "pyright@1.1.410"
CONSUMER = Path(__file__).parent / "consumer.py"
FROM = (3, 11)
_BUILD = """
import json, sys
from setuptools import build_meta
getattr(build_meta, sys.argv[1])(*json.loads(sys.argv[2]))
"""
_COMPILER = ("setuptools", "mypy", "mypy-extensions", "ast-serialize", "librt", "pathspec")


class StepError(Exception):
    """A step failed; the message is the end of what it said."""


@dataclass(slots=True, kw_only=True)
class Row:
    """What one Python made of the release; ``results`` by step."""

    python: str
    results: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str] = ()) -> int:
    """Build and try; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="compile nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args(arguments)
    out: Path = given.out.absolute()
    with tempfile.TemporaryDirectory(prefix="truezero-dist-") as work:
        rows = released(out, Path(work), compiled=not given.plain)
    for row in rows:
        told = "; ".join(f"{step}: {result}" for step, result in row.results.items())
        print(f"{row.python}: {told}")
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size / 1e6:6.2f} MB  {file.name}")
    failed = [row for row in rows if any(r.startswith("FAILED") for r in row.results.values())]
    return 1 if failed or not rows else 0


def released(out: Path, work: Path, *, compiled: bool) -> list[Row]:
    """Build into ``out``, which is emptied first, and try each Python."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    say("source distribution")
    build(sys.executable, ROOT, "build_sdist", out)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "source", filter="data")
    (source,) = (work / "source").iterdir()
    say("wheel of plain Python")
    build(sys.executable, source, "build_wheel", out)
    (plain,) = out.glob("*-none-any.whl")
    rows = []
    for python in one_of_each(FROM):
        row = Row(python=version_of(python))
        rows.append(row)
        place = work / row.python
        wheel = plain
        if compiled:
            attempt(row, "compiled", lambda p=python, w=place: wheel_of(p, source, w, out))  # type: ignore[misc]
            tag = "cp" + "".join(row.python.split(".")[:2])
            wheel = next(iter(out.glob(f"*-{tag}-{tag}-*.whl")), plain)
        try_out(row, python, wheel, place)
    return rows


def try_out(row: Row, python: str, wheel: Path, place: Path) -> None:
    """Install a wheel where nothing else is, and use it from an empty folder."""
    tried, empty = place / "tried", place / "empty"
    empty.mkdir(parents=True)
    lock = str(ROOT / "requirements.lock")
    attempt(row, "install", lambda: environment(python, tried, lock, "--wheel", str(wheel)))
    truezero = str(tried / "bin" / "truezero")
    attempt(row, "version", lambda: run([truezero, "--version"], empty).strip())
    attempt(row, "demo", lambda: demo(truezero, empty))
    at = str(tried / "bin" / "python")
    shutil.copy(CONSUMER, empty / "consumer.py")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(place / "mypy")]
    attempt(
        row, "mypy", lambda: run([*mypy, "--python-executable", at, "consumer.py"], empty).strip()
    )
    if npx := shutil.which("npx"):
        pyright = [npx, "--yes", PYRIGHT, "--pythonpath", at, "consumer.py"]
        attempt(row, "pyright", lambda: run(pyright, empty).strip().splitlines()[-1])


def demo(truezero: str, folder: Path) -> str:
    """Run the demo and check that it tells provider failures from a genuine zero."""
    found = json.loads(run([truezero, "demo", "--json"], folder))
    health = {played["scene"]: played["verdict"]["health"] for played in found}
    expected = {"solved": "healthy", "honest-zero": "healthy", "dead-key": "api_error"}
    if not expected.items() <= health.items():
        raise StepError(f"unexpected verdicts: {health}")
    return f"{len(health)} verdicts"


def wheel_of(python: str, source: Path, place: Path, out: Path) -> str:
    """Build a compiled wheel, tagged by the C library here: it runs on that one and on later."""
    compiler = place / "compiler"
    place.mkdir(parents=True, exist_ok=True)
    (place / "compiler.lock").write_text(pinned(*_COMPILER))
    locks = (str(ROOT / "requirements.lock"), str(place / "compiler.lock"))
    environment(python, compiler, *locks, "--bare")
    before = set(out.iterdir())
    library, _, release = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    tag = f"manylinux_{release.replace('.', '_')}_{platform.machine()}"
    options = {"--build-option": ["--plat-name", tag]} if library == "glibc" else {}
    copy = place / "source"
    shutil.copytree(source, copy)
    at = str(compiler / "bin" / "python")
    build(at, copy, "build_wheel", out, options, TRUEZERO_COMPILE="1")
    (made,) = set(out.iterdir()) - before
    return made.name


def environment(python: str, folder: Path, *words: str) -> str:
    """Make an environment by deploy/environment.py."""
    run([python, str(ROOT / "deploy" / "environment.py"), str(folder), *words], ROOT)
    return "ok"


def build(
    python: str,
    source: Path,
    what: str,
    out: Path,
    options: Mapping[str, object] | None = None,
    **variables: str,
) -> None:
    """Call a hook of the build backend, as pip does."""
    words = json.dumps([str(out), options])
    run([python, "-c", _BUILD, what, words], source, **variables)


def run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Run a command with nothing of this project in its environment; return what it printed.

    Raises:
        StepError: it failed.
    """
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean = {k: v for k, v in clean.items() if not k.startswith("TRUEZERO_")}
    done = subprocess.run(
        command, cwd=folder, env=clean | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StepError((done.stdout + done.stderr)[-2000:])
    return done.stdout


def attempt(row: Row, step: str, work: Callable[[], str]) -> None:
    """Do a step unless one before it failed, and note what came of it."""
    if any(result.startswith("FAILED") for result in row.results.values()) and step != "install":
        return
    began = time.monotonic()
    say(f"{row.python}: {step}")
    try:
        row.results[step] = work()
    except StepError as error:
        row.results[step] = f"FAILED\n{error}"
    say(f"{row.python}: {step}: {row.results[step]} ({time.monotonic() - began:.0f} s)")


def version_of(python: str) -> str:
    """Return a Python's version."""
    asked = "import platform; print(platform.python_version())"
    return run([python, "-c", asked], ROOT).strip()


def say(line: str) -> None:
    """Tell the progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
