from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard

from truezero.runner.audit.formats.inspect_logs import ZipError, read_members, rewrite

CONTENT = b'{"a": "' + b"word " * 500 + b'"}'


def zstandard_zip(path: Path, frames: int = 1) -> None:
    """A zip whose one member is compressed as Inspect's are; its method is patched in."""
    size = -(-len(CONTENT) // frames)
    parts = [CONTENT[n : n + size] for n in range(0, len(CONTENT), size)]
    raw = b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/a.json", raw)
        info = archive.getinfo("samples/a.json")
        info.compress_type, info.file_size, info.CRC = 93, len(CONTENT), zlib.crc32(CONTENT)
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, info.header_offset + 8, 93)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("frames", [1, 3])
def test_zstandard_is_read_in_one_frame_or_several(tmp_path: Path, frames: int) -> None:
    zstandard_zip(tmp_path / "x.eval", frames)
    assert {n: read() for n, read in read_members(tmp_path / "x.eval").items()} == {
        "samples/a.json": CONTENT
    }


def test_without_zstandard_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard_zip(tmp_path / "x.eval")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ZipError, match="pip install zstandard"):
        read_members(tmp_path / "x.eval")["samples/a.json"]()


def test_what_is_no_zip_or_broken_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK no zip")
    with pytest.raises(ZipError):
        read_members(tmp_path / "x")
    zstandard_zip(tmp_path / "y")
    data = bytearray((tmp_path / "y").read_bytes())
    data[44:60] = b"\0" * 16
    (tmp_path / "y").write_bytes(bytes(data))
    with pytest.raises(ZipError):
        read_members(tmp_path / "y")["samples/a.json"]()


def test_a_damaged_member_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = tmp_path / f"{method}"
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("a", CONTENT)
        assert read_members(file)["a"]() == CONTENT
        data = bytearray(file.read_bytes())
        data[40] ^= 1
        file.write_bytes(bytes(data))
        with pytest.raises(ZipError):
            read_members(file)["a"]()
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", CONTENT)
    with pytest.raises(ZipError, match="method 12"):
        read_members(tmp_path / "x")["a"]()


def test_rewriting_changes_what_is_named_and_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("header.json", "a", "b"):
            archive.writestr(name, name)
    rewrite(file, {"a": bytes.upper}, last=("header.json",))
    with zipfile.ZipFile(file) as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == {
            "a": b"A", "b": b"b", "header.json": b"header.json",
        }  # fmt: skip
        assert archive.namelist()[-1] == "header.json"
    once = file.read_bytes()
    rewrite(file, {"a": bytes.upper}, last=("header.json",))
    assert file.read_bytes() == once
