"""The file of the admin token that the service makes: where it is, and how it is made.

It loads nothing but the standard library: commands that only print look here, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

FILE = "admin-token"
DATABASE = "truezero.db"  # where no database is named


def token_file(given: Mapping[str, object]) -> Path:
    """Return the file that the settings name, else the one beside the SQLite file.

    With PostgreSQL that is in the working directory.

    Arguments:
        given: settings by name, unchecked.
    """
    return Path(str(given.get("admin_token_file") or _folder(given) / FILE))


def _folder(given: Mapping[str, object]) -> Path:
    """Return the SQLite file's folder; a URL's path begins behind its third slash."""
    scheme, separator, rest = str(given.get("database_url") or DATABASE).partition("://")
    if not separator:
        return Path(scheme).parent
    file = rest.partition("?")[0].removeprefix("/")
    return Path(file).parent if scheme.partition("+")[0] == "sqlite" else Path()


def make_token(path: Path) -> bool:
    """Make the file whole or not at all; return whether this process was the one that made it.

    It belongs to the owner of its folder, so that what root makes the service can read.
    """
    if path.exists():  # also where its folder is mounted for reading only
        return False
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(descriptor)
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(part)
            return True
        return False
    finally:
        part.unlink()
