"""Facts about this copy of truezero and its machine, for `--version` and for a bug report.

Names and versions only, never a setting's value.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from pathlib import Path

from truezero.printable import plural

# --- version ---
#
# Release, commit, whether the hot path is compiled, schema.


_COMMIT = "commit.txt"  # beside the package's __init__, written by setup.py into what it builds
_PACKAGE = Path(__file__).resolve().parent.parent
_PATIENCE_S = 5


def version_line() -> str:
    """Return the release, and in brackets what is known of this copy of it."""
    noted = commit()
    known = (
        None if noted is None else f"commit {noted[:12]}",
        "compiled" if compiled() else "plain Python",
        f"schema {schema()}",
    )
    return f"truezero {metadata.version('truezero')} ({', '.join(filter(None, known))})"


def commit(package: Path = _PACKAGE) -> str | None:
    """Return the commit that a wheel was built from, or that a checkout is at."""
    file = package / _COMMIT
    if file.is_file():
        return file.read_text("ascii").strip() or None
    git = shutil.which("git")
    if git is None or not (package.parent / ".git").exists():
        return None
    command = [git, "-C", str(package.parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(  # noqa: S603  a fixed command
            command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def compiled() -> bool:
    """Return True if the hot path is compiled to C (setup.py)."""
    found = util.find_spec("proxy.relay.relay")
    return found is not None and not str(found.origin).endswith(".py")


def schema() -> str:
    """Return the schema that this release brings a database to."""
    found = util.find_spec("proxy")
    assert found is not None and found.origin is not None, "every wheel holds it"
    versions = Path(found.origin).parent / "store" / "migrations" / "versions"
    return max(file.name.partition("_")[0] for file in versions.glob("[0-9]*_*.py"))


# --- machine ---


_PACKAGES = (
    "fastapi", "httptools", "httpx", "orjson", "psycopg", "pydantic", "sqlalchemy", "starlette",
    "uvicorn", "uvloop", "websockets",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_USER_INFO = re.compile(r"(?<=://)[^/\s@]*@")


def machine_facts(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return what is told of this machine, by name."""
    yield "release", version_line()
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "system", f"{_system()}, {plural(os.cpu_count() or 1, 'core')}"
    yield "packages", ", ".join(_versions()) or "the service's are not installed"
    ours = {name for name, value in environment.items() if name.startswith("TRUEZERO_") and value}
    proxies = {name for name in environment if name.upper() in _PROXIES and environment[name]}
    yield "variables", ", ".join(sorted(ours | proxies)) or "none of truezero's are set"
    file = Path(environment.get("TRUEZERO_CONFIG") or "truezero.toml")
    yield "settings file", "present" if file.is_file() else "none"


def without_credentials(text: str) -> str:
    """Return a text without the user and password of any URL in it."""
    return _USER_INFO.sub("", text)


def _system() -> str:
    library = " ".join(platform.libc_ver()).strip()
    return f"{platform.system()} {platform.release()} {platform.machine()} {library}".rstrip()


def _versions() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
