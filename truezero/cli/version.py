"""What `truezero --version` says: release, commit, whether the hot path is compiled, schema."""

from __future__ import annotations

import shutil
import subprocess
from importlib import metadata, util
from pathlib import Path

_COMMIT = "commit.txt"  # beside the package's __init__, written by setup.py into what it builds
_PACKAGE = Path(__file__).resolve().parent.parent
_PATIENCE_S = 5


def line() -> str:
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
    """Return whether the hot path is C (setup.py)."""
    found = util.find_spec("proxy.relay.relay")
    return found is not None and not str(found.origin).endswith(".py")


def schema() -> str:
    """Return the schema that this release brings a database to."""
    found = util.find_spec("proxy")
    assert found is not None and found.origin is not None, "every wheel holds it"
    versions = Path(found.origin).parent / "store" / "migrations" / "versions"
    return max(file.name.partition("_")[0] for file in versions.glob("[0-9]*_*.py"))
