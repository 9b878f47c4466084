"""A database's place, as messages name it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.admin.location import denial, place
from proxy.store.errors import BadUrl


def test_a_place_is_printed_without_its_password() -> None:
    assert place("sqlite:///a/t.db") == place("a/t.db") == "a/t.db"
    assert place("postgresql://me:s3cret@h/d") == "postgresql+psycopg://me:***@h/d"
    with pytest.raises(BadUrl):
        place("mysql://h/d")


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process may read and not write: root looks as another user."""
    folder = Path(tempfile.mkdtemp())
    (folder / "t.db").touch(0o444)
    folder.chmod(0o555)
    us = os.geteuid()
    if us == 0:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(us)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["t.db", "new.db"])
def test_a_folder_that_may_not_be_written_is_told_with_its_owner_and_ours(
    read_only: Path, name: str
) -> None:
    said = denial(read_only / name)
    assert said is not None
    owner, us = read_only.stat().st_uid, os.geteuid()
    assert said.startswith(f"{read_only} belongs to uid {owner} (")
    assert "with mode 555, and truezero runs as uid " + str(us) in said


def test_so_is_a_file_in_a_folder_that_may(read_only: Path) -> None:
    os.seteuid(os.getuid())
    read_only.chmod(0o777)
    file = read_only / "t.db"
    file.chmod(0)
    if os.getuid() == 0:
        os.seteuid(65534)
    assert (denial(file) or "").startswith(f"{file} belongs to uid {file.stat().st_uid} (")
    assert denial(read_only / "new.db") is None


def test_what_can_be_written_is_nobodys_fault(tmp_path: Path) -> None:
    assert denial(tmp_path / "t.db") is None
    assert denial(tmp_path / "absent" / "t.db") is None, "the message names the folder"
