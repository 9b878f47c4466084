"""An archive's header says who can read it."""

from __future__ import annotations

import pytest

from proxy.store import migrations
from proxy.store.admin.rows import VERSION, ArchiveError, check_head, head


def test_this_version_reads_what_it_writes() -> None:
    assert head() == {"version": VERSION, "schema": migrations.HEAD}
    check_head(head())


def test_an_archive_of_an_earlier_schema_is_read() -> None:
    check_head({**head(), "schema": "0001"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": 2}, "format version 2, but this version of truezero reads 1"),
        ({"version": None}, "format version None"),
        ({"schema": "9999"}, "schema 9999, but this version of truezero supports schemas up to"),
    ],
)
def test_an_archive_of_a_later_version_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        check_head({**head(), **changed})
