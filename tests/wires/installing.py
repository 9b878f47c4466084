"""Install the newest SDKs and agents, each in an environment of its own in the user's cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.agents.__main__ import HERE, SkipError
from tests.agents.programs import Program
from tests.journeys.environments import cache, cached, used

_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--retries=1", "--timeout=15", "--dry-run", "--ignore-installed", "--report=-")  # fmt: skip
# A release may need a newer Python than this one; its source is only read.
_DOWNLOAD = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--retries=1", "--timeout=15", "--no-deps", "--only-binary=:all:",
             "--python-version=3.13", "--dest")  # fmt: skip
_UNREACHED = ("Could not fetch URL", "connection broken", "No matching distribution")
_NPM = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent")


class UnreachableError(Exception):
    """A package index cannot be reached."""


def newest_sdk(package: str) -> str:
    """Install a package's newest release where it is not yet; return its Python.

    Raises:
        UnreachableError: the package index does not answer.
    """
    report = json.loads(_said((*_PIP, package)))
    named = [each["metadata"] for each in report["install"]]
    pins = sorted(f"{each['name']}=={each['version']}\n" for each in named)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pins.txt"
        file.write_text("".join(pins), encoding="utf-8")
        try:
            return str(cached(f"wires-{package}", file, sys.executable) / "bin" / "python")
        except subprocess.CalledProcessError as error:
            raise UnreachableError(f"pip could not install {package}") from error


def newest_source(package: str) -> tuple[str, dict[str, str]]:
    """Return the version of a package's newest release, and the source of its modules by path.

    Raises:
        UnreachableError: the package index does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        _said((*_DOWNLOAD, folder, package))
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            paths = [path for path in opened.namelist() if path.endswith(".py")]
            return wheel.name.split("-")[1], {p: opened.read(p).decode() for p in paths}


def newest_agent(program: Program) -> Path:
    """Install an agent's newest release where it is not yet; return its folder.

    Raises:
        SkipError: npm is not there.
        UnreachableError: npm's registry does not answer.
    """
    if shutil.which("npm") is None:
        raise SkipError("npm is not there")
    package = program.package
    with tempfile.TemporaryDirectory() as empty:  # what npm kept is not the newest
        asked = ("npm", "view", package, "version", f"--cache={empty}", "--fetch-retries=1")
        version = _said(asked).strip()
    allowed = json.loads((HERE / "package.json").read_text("utf-8"))["allowScripts"]
    wanted = {
        "private": True,
        "dependencies": {package: version},
        "allowScripts": {name: each for name, each in allowed.items() if name == package},
    }
    text = json.dumps(wanted)
    name = f"wires-{program.program}"
    folder = cache() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not folder.exists():
        cache().mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache()))  # beside, so that what is there is whole
        (made / "package.json").write_text(text, encoding="utf-8")
        if subprocess.run(_NPM, cwd=made, check=False).returncode:
            shutil.rmtree(made)
            raise UnreachableError(f"npm could not install {package}")
        made.rename(folder)
    return used(folder, name)


def _said(command: Sequence[str]) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode or any(sign in run.stderr for sign in _UNREACHED):
        raise UnreachableError("the package index cannot be reached; nothing was compared")
    return run.stdout
