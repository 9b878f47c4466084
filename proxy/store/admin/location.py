"""The place of a database: its file, and its name for messages."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from proxy.store.database import url_of


def place(url: str) -> str:
    """Return a database's name for messages: a file's path, or a URL without its password."""
    whole = url_of(url)
    if whole.get_backend_name() == "sqlite":
        return whole.database or ":memory:"
    return whole.render_as_string(hide_password=True)


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for any other database."""
    whole = url_of(url)
    if whole.get_backend_name() != "sqlite":
        return None
    return Path(whole.database or ":memory:")


def denial(file: Path) -> str | None:
    """Say who owns what keeps this process from writing a file, and who it runs as.

    Arguments:
        file: a file that may be missing; then its folder alone matters.

    Returns:
        A clause for a message; None if the file and its folder can be written.
    """
    whole = file.absolute()
    for path, needed in ((whole.parent, os.W_OK | os.X_OK), (whole, os.R_OK | os.W_OK)):
        effective = os.access in os.supports_effective_ids
        if path.exists() and not os.access(path, needed, effective_ids=effective):
            return _owners(path)
    return None


def _owners(path: Path) -> str:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"{path} is on a file system that is mounted read-only"
    found, us = path.stat(), os.geteuid()
    mode = f"{stat.S_IMODE(found.st_mode):o}"
    return (
        f"{path} belongs to {_user(found.st_uid)} with mode {mode}, and truezero runs as "
        f"{_user(us)}: let uid {us} write it, or name another place"
    )


def _user(uid: int) -> str:
    try:
        return f"uid {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:  # a container knows few of them
        return f"uid {uid}"
