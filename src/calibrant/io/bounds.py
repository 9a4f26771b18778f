"""Bounds: what a file may unpack to, before it is read."""

from __future__ import annotations

import zipfile
from pathlib import Path

from calibrant.core.pipes import LIMIT, unpacked_limit
from calibrant.errors import FileError

__all__ = ["LIMIT", "check_archive", "too_large", "unpacked_limit", "zstd_size"]

#: Bytes of an unpacked Zstandard block at most.
_ZSTD_BLOCK = 1 << 17


def too_large(path: str | Path, limit: int) -> FileError:
    """Return the refusal of a file that unpacks to more."""
    return FileError(
        f"{path} unpacks to more than {limit / 2**30:.3g} GiB, from {Path(path).stat().st_size:,} bytes",
        hint=f"if that is meant, raise the limit: {LIMIT}=64",
    )


def check_archive(path: str | Path) -> None:
    """Refuse an archive whose directory declares more than the limit; unpacking never gives more than declared."""
    if not zipfile.is_zipfile(path):
        return  # the reader says what it is
    with zipfile.ZipFile(path) as archive:
        total = sum(member.file_size for member in archive.infolist())
    limit = unpacked_limit(Path(path).stat().st_size)
    if total > limit:
        raise too_large(path, limit)


def zstd_size(raw: bytes) -> int:
    r"""Return how many bytes Zstandard data unpack to at most: what frames declare, else what their blocks can hold.

    Examples
    --------
    >>> zstd_size(bytes.fromhex("28b52ffd0058") + b"\x03\x00\x10\x00")  # one block: a byte repeated 2¹⁷ times
    131072
    """
    total, at = 0, 0
    while at + 5 <= len(raw):
        magic = int.from_bytes(raw[at : at + 4], "little")
        if magic >> 4 == 0x184D2A5:  # a frame to skip
            at += 8 + int.from_bytes(raw[at + 4 : at + 8], "little")
            continue
        if magic != 0xFD2FB528:
            break
        told = raw[at + 4]
        single = bool(told & 0x20)
        at += 5 + (not single) + (0, 1, 2, 4)[told & 3]
        width = (int(single), 2, 4, 8)[told >> 6]
        declared = int.from_bytes(raw[at : at + width], "little") + (256 if width == 2 else 0)
        at, blocks, last = at + width, 0, False
        while not last and at + 3 <= len(raw):
            head = int.from_bytes(raw[at : at + 3], "little")
            last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
            blocks += size if kind < 2 else _ZSTD_BLOCK
            at += 3 + (1 if kind == 1 else size)
        total += declared if width else blocks
        at += 4 * bool(told & 4)
    return total
