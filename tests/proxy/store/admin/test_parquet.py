"""Parquet archives: a table for each type of record, whole or not at all."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from proxy.store.admin import archive, parquet
from proxy.store.admin.rows import RECORD_TYPES, ArchiveError, Record
from proxy.store.errors import UnusableDatabase
from tests.proxy.store.admin.archives import exported


def test_a_folder_of_parquet_gives_back_the_same(full: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "tables", str(tmp_path / "other.db")
    with archive.export_records(full) as found:
        count = parquet.write_folder(found, folder)
    assert count == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
    archive.import_records(other, parquet.read(folder))
    assert exported(other) == exported(full)
    assert not (tmp_path / "tables.part").exists()


def test_parquet_has_a_table_for_each_type_with_types_and_nulls(full: str, tmp_path: Path) -> None:
    with archive.export_records(full) as found:
        parquet.write_folder(found, tmp_path / "t")
    assert {path.name for path in (tmp_path / "t").iterdir()} == {
        f"{name}s.parquet" for name in RECORD_TYPES
    }
    table = pyarrow.parquet.read_table(tmp_path / "t" / "exchanges.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["status"] == "int64"
    assert kinds["started_at"] == "double"
    assert kinds["injected"] == "bool"
    assert kinds["model"] == "string"
    assert table["status"].null_count == 17


def test_many_row_groups_are_one_table(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_GROUP", 4)
    with archive.export_records(full) as found:
        parquet.write_folder(found, tmp_path / "t")
    assert pyarrow.parquet.ParquetFile(tmp_path / "t" / "exchanges.parquet").num_row_groups == 7
    archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))
    assert exported(str(tmp_path / "other.db")) == exported(full)


def test_a_folder_that_is_there_stays_and_one_that_fails_is_gone(full: str, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with archive.export_records(full) as found, pytest.raises(FileExistsError):
        parquet.write_folder(found, tmp_path / "t")

    def broken() -> Iterator[Record]:
        with archive.export_records(full) as found:
            yield from itertools.islice(found, 5)
        raise UnusableDatabase("gone")

    with pytest.raises(UnusableDatabase):
        parquet.write_folder(broken(), tmp_path / "u")
    assert not list(tmp_path.glob("u*"))


@pytest.mark.parametrize("name", RECORD_TYPES)
def test_a_folder_that_is_no_archive_is_refused_in_a_sentence(
    full: str, tmp_path: Path, name: str
) -> None:
    with archive.export_records(full) as found:
        parquet.write_folder(found, tmp_path / "t")
    file = tmp_path / "t" / f"{name}s.parquet"
    table = pyarrow.parquet.read_table(file)
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), file)
    with pytest.raises(ArchiveError, match=f"{file.name}: not part of an archive"):
        archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))
    file.write_bytes(b"PAR1")
    with pytest.raises(ArchiveError, match=file.name):
        archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))
    file.unlink()
    with pytest.raises(ArchiveError, match=f"{file.name} is missing"):
        archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))


def test_without_pyarrow_one_is_told_what_to_install(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        archive.export_records(full) as found,
        pytest.raises(ArchiveError, match=r"pip install 'truezero\[parquet\]'"),
    ):
        parquet.write_folder(found, tmp_path / "t")
