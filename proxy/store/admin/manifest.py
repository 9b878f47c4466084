"""The header of an archive in every format: its version and schema."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.store import migrations

FORMAT = "truezero-archive"
VERSION = 1


class ArchiveError(Exception):
    """An archive cannot be read or written; the message is one sentence."""


def head() -> dict[str, object]:
    """Return the format's version, and the schema whose columns the records have."""
    return {"version": VERSION, "schema": migrations.HEAD}


def check_head(header: Mapping[str, object]) -> None:
    """Raise ``ArchiveError`` for an archive that a later version wrote."""
    if header.get("version") != VERSION:
        raise ArchiveError(
            f"the archive has format version {header.get('version')}, but this version of truezero "
            f"reads {VERSION}"
        )
    schema = str(header.get("schema"))
    if migrations.is_newer(schema):
        raise ArchiveError(
            f"the archive has schema {schema}, but this version of truezero supports schemas "
            f"up to {migrations.HEAD}"
        )
