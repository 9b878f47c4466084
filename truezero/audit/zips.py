"""Zip archives of other programs: read member by member within bounds, and written whole.

Members may be compressed with Zstandard. Python reads those from 3.14 on; before, the `zstandard`
package of the service does.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from truezero import foreign
from truezero.whole_file import whole

RATIO: Final = 200  # times its size to which an archive may unpack, beyond what is always read
ALWAYS: Final = 2**26  # bytes, unpacked, that are read whatever their ratio

_ZSTANDARD: Final = 93  # APPNOTE.TXT 4.4.5
_LOCAL_HEAD: Final = struct.Struct("<26xHH")  # lengths of the name and of what is behind it
_HEAD_BYTES: Final = 30
# What zipfile raises of a damaged directory: lengths beyond the file, other disks, odd names.
_DAMAGED: Final = (
    zipfile.BadZipFile, EOFError, MemoryError, NotImplementedError, OSError, OverflowError,
    ValueError, struct.error,
)  # fmt: skip


class ZipError(ValueError):
    """A zip file that cannot be read; the message says why and what helps."""


def is_zip(path: Path) -> bool:
    """Return True if a regular file ends as a zip file does."""
    try:
        with foreign.open_file(path, links=False) as file:
            return zipfile.is_zipfile(file)
    except _DAMAGED:
        return False


def read_members(path: Path) -> dict[str, Callable[[], bytes]]:
    """Return a function for each member, by name, that reads it; the last of a name counts.

    Raises:
        ZipError: it is no zip file, or it unpacks to more than ``RATIO`` times its size; the
            functions raise it if a member cannot be unpacked.
    """
    try:
        with foreign.open_file(path, links=False) as file, zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            size = os.fstat(file.fileno()).st_size
    except _DAMAGED as error:
        raise ZipError(getattr(error, "strerror", None) or str(error) or "damaged") from None
    if (unpacked := sum(info.file_size for info in infos)) > max(ALWAYS, RATIO * size):
        raise ZipError(f"it unpacks to {unpacked >> 20:,} MiB, a ratio above {RATIO}:1")
    return {info.filename: partial(_read_packed, path, info) for info in infos}


def _read_packed(path: Path, info: zipfile.ZipInfo) -> bytes:
    if max(info.file_size, info.compress_size) > foreign.MOST:
        raise ZipError(f"{info.filename} is larger than {foreign.MOST >> 20:,} MiB")
    unpack = _METHODS.get(info.compress_type)
    if unpack is None:
        raise ZipError(f"{info.filename}: compression method {info.compress_type} is not known")
    try:
        content = unpack(_raw(path, info), info.file_size)
    except (OSError, ValueError, struct.error, zlib.error) as error:
        raise ZipError(f"{info.filename}: {error}") from None
    if zlib.crc32(content) != info.CRC:
        raise ZipError(f"{info.filename}: damaged")
    return content


def _raw(path: Path, info: zipfile.ZipInfo) -> bytes:
    with foreign.open_file(path, links=False) as file:
        file.seek(info.header_offset)
        name, extra = _LOCAL_HEAD.unpack(file.read(_HEAD_BYTES))
        file.seek(name + extra, os.SEEK_CUR)
        left = os.fstat(file.fileno()).st_size - file.tell()
        return file.read(max(0, min(info.compress_size, left)))


def _inflated(raw: bytes, size: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, size or 1)


def _unpacked(raw: bytes, size: int) -> bytes:
    try:
        import zstandard  # noqa: PLC0415  only these files need it
    except ModuleNotFoundError:
        raise ZipError(
            "it is compressed with Zstandard: pip install zstandard, "
            "or `inspect log convert --to json`"
        ) from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as reader:
            return reader.read(size)
    except zstandard.ZstdError as error:
        raise ZipError(str(error)) from None


_METHODS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    zipfile.ZIP_STORED: lambda raw, _: raw,
    zipfile.ZIP_DEFLATED: _inflated,
    _ZSTANDARD: _unpacked,
}


def rewrite(
    path: Path, changes: Mapping[str, Callable[[bytes], bytes]], *, last: tuple[str, ...] = ()
) -> None:
    """Replace members by what these functions make of them; others keep their content.

    Arguments:
        last: members that are written after all others, in this order.
    """
    members = read_members(path)
    order = [name for name in members if name not in last]
    order += [name for name in last if name in members]
    with whole(path) as copy, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in order:
            content = members[name]()
            info = zipfile.ZipInfo(name)  # a fixed date: the same log gives the same file
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, changes[name](content) if name in changes else content)
