"""JSON-lines archives: whole files, and refusals that name the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.admin import archive
from proxy.store.admin.rows import ArchiveError, Record
from proxy.store.errors import UnusableDatabase
from tests.proxy.store.admin.archives import exported, imported


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (b"", "not an archive"),
        (b'{"record":"rollout","id":"r"}\n', "not an archive"),
        (b"PAR1", "line 1: "),
        (b"[]\n", "line 1: not a JSON object"),
        (b'{"type":"truezero-archive","version":2,"schema":"0001"}\n', "has format version 2"),
        (b'{"type":"truezero-archive","version":1,"schema":"9999"}\n', "has schema 9999"),
        (b'{"type":"truezero-archive","version":1,"schema":"0001"}\n', "truncated"),
        (b'{"type":"truezero-archive","version":1,"schema":"0001"}\n{"type":"end","rollout":1}\n',
         "number of records differs"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_refused_in_a_sentence(
    tmp_path: Path, whole: bytes, said: str
) -> None:
    with pytest.raises(ArchiveError, match=said):
        imported(str(tmp_path / "other.db"), whole)
    assert list(tmp_path.iterdir()) == [], "no database is made of it"


def test_a_file_gets_its_name_once_it_is_complete(full: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    with archive.export_records(full) as found:
        count = archive.write_file(found, path)
    assert count == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
    assert path.read_bytes() == exported(full)

    def broken() -> Iterator[Record]:
        yield next(archive.read(path.read_bytes().splitlines()))
        raise UnusableDatabase("gone")

    before = path.read_bytes()
    with pytest.raises(UnusableDatabase):
        archive.write_file(broken(), path)
    assert path.read_bytes() == before, "the earlier file stays"
    assert not list(tmp_path.glob("*.part"))


def test_the_last_line_counts_the_records(full: str) -> None:
    last = json.loads(exported(full).splitlines()[-1])
    assert last == {"type": "end", "rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
