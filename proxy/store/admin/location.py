"""The place of a database: its file, and its name for messages."""

from __future__ import annotations

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
