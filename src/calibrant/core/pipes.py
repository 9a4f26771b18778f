"""Pipes and devices: what can be read once, and how much it may give."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

from calibrant.errors import FileError

__all__ = ["LIMIT", "is_pipe", "read_bytes", "unpacked_limit"]

#: Variable that raises what a compressed file may unpack to, in GiB.
LIMIT = "CALIBRANT_UNPACKED_GIB"
_GIB = 1 << 30
#: GiB that any file may unpack to, and how many times its size a larger one may.
_DEFAULT, _TIMES = 4.0, 10


def read_bytes(path: str | Path) -> bytes:
    """Return all bytes of a file, or of a pipe, a device or (``-``) standard input up to the limit."""
    if str(path) == "-":
        return _bounded(sys.stdin.buffer, path)
    with Path(path).open("rb") as file:
        return file.read() if Path(path).is_file() else _bounded(file, path)


def _bounded(stream: Any, name: str | Path) -> bytes:
    """Return all that a stream gives; one without an end is refused."""
    parts, size, limit = [], 0, unpacked_limit(0)
    while part := stream.read(1 << 22):
        parts.append(part)
        size += len(part)
        if size > limit:
            said = f"{name} gives more than {limit / _GIB:.3g} GiB"
            raise FileError(said, hint=f"name a file, or raise the limit: {LIMIT}=64")
    return b"".join(parts)


def unpacked_limit(size: int) -> int:
    """Return how many bytes a file of this size may unpack to.

    Examples
    --------
    >>> unpacked_limit(36_000_000) == 4 * 2**30, unpacked_limit(2**30) == 10 * 2**30
    (True, True)
    """
    said = os.environ.get(LIMIT, "").strip()
    if not said:
        return max(int(_DEFAULT * _GIB), _TIMES * size)
    try:
        limit = int(float(said) * _GIB)
    except (OverflowError, ValueError):
        limit = 0
    if limit <= 0:
        raise FileError(f"{LIMIT} must be a number of GiB above 0; got {said!r}", hint=f"for example {LIMIT}=64")
    return limit


def is_pipe(path: str | Path) -> bool:
    """Whether a path is a named pipe or a shell's ``<(command)``: it can be read once."""
    try:
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except OSError:
        return False
