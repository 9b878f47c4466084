"""What an archive says of itself, in whatever format, and who can read it.

It opens no file.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.store import migrations
from proxy.store.errors import UnusableDatabase

FORMAT = "truezero-archive"
VERSION = 1


class ArchiveError(Exception):
    """Why an archive cannot be read or written, in one sentence."""


def head() -> dict[str, object]:
    """The format's version, and the schema whose columns the records have."""
    return {"version": VERSION, "schema": migrations.HEAD}


def check_head(found: Mapping[str, object]) -> None:
    """Raise ``ArchiveError`` for an archive that a later version wrote."""
    if found.get("version") != VERSION:
        raise ArchiveError(
            f"the archive is of format {found.get('version')}, and this version of truezero "
            f"reads {VERSION}"
        )
    schema = str(found.get("schema"))
    try:
        migrations.refuse_newer(schema)
    except UnusableDatabase:
        raise ArchiveError(
            f"the archive is of schema {schema}, and this version of truezero knows schemas "
            f"up to {migrations.HEAD}"
        ) from None
