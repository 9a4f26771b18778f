"""Bounds: what a file may unpack to, and the one loop that unpacks it."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from calibrant.core.pipes import LIMIT, read_bytes, unpacked_limit
from calibrant.errors import FileError

__all__ = ["LIMIT", "check_archive", "open_bytes", "open_members"]

#: Modules that know Zstandard, imported when a file needs them.
_ZSTD = "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd"
_ZIPFILE = "backports.zstd.zipfile" if sys.version_info < (3, 14) else "zipfile"
#: Modules that unpack, by the first bytes of a file; parallel zstd begins with a frame to skip.
_MODULES = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "lzma",
    b"\x28\xb5\x2f\xfd": _ZSTD,
    b"\x50\x2a\x4d\x18": _ZSTD,
}
#: Bytes asked for at a time. Some versions of zipfile unpack that many packed bytes at once, up to 2¹⁵ times as many.
_PIECE = 1 << 12


def open_bytes(path: str | Path) -> bytes:
    """Return the content of a file, unpacked by its first bytes (gzip, bzip2, xz, Zstandard, one file in a zip)."""
    raw = read_bytes(path)
    if raw.startswith(b"PK\x03\x04"):
        with import_module(_ZIPFILE).ZipFile(io.BytesIO(raw)) as archive:
            held = [one for one in archive.infolist() if not one.is_dir() and "__MACOSX" not in one.filename]
            if len(held) != 1:
                raise FileError(f"{path} holds {len(held)} files", hint="unpack it and name one of them")
            _check(held, path, len(raw))
            return _unpack(archive.open(held[0]), path, len(raw))
    for mark, name in _MODULES.items():
        if raw.startswith(mark):
            return _unpack(import_module(name).open(io.BytesIO(raw)), path, len(raw))
    return raw


def open_members(path: str | Path, pattern: str) -> Iterator[bytes]:
    """Give the content of the members of a zip whose names match."""
    size = Path(path).stat().st_size
    with import_module(_ZIPFILE).ZipFile(path) as archive:
        _check(archive.infolist(), path, size)
        for name in archive.namelist():
            if fnmatchcase(name, pattern):
                yield _unpack(archive.open(name), path, size)


def check_archive(path: str | Path) -> None:
    """Refuse an archive whose directory declares more than the limit; no member gives more than it declares."""
    if not zipfile.is_zipfile(path):
        return  # the reader says what it is
    with zipfile.ZipFile(path) as archive:
        _check(archive.infolist(), path, Path(path).stat().st_size)


def _check(members: list[Any], path: str | Path, size: int) -> None:
    if sum(member.file_size for member in members) > unpacked_limit(size):
        raise _too_large(path, size)


def _unpack(stream: IO[bytes], path: str | Path, size: int) -> bytes:
    """Return all that a stream gives, piece by piece: one read of the limit would ask for that much memory at once."""
    parts, total, limit = [], 0, unpacked_limit(size)
    with stream:
        while part := stream.read(_PIECE):
            total += len(part)
            if total > limit:
                raise _too_large(path, size)
            parts.append(part)
    return b"".join(parts)


def _too_large(path: str | Path, size: int) -> FileError:
    return FileError(
        f"{path} unpacks to more than {unpacked_limit(size) / 2**30:.3g} GiB, from {size:,} bytes",
        hint=f"if that is meant, raise the limit: {LIMIT}=64",
    )
