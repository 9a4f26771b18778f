"""Pipes: files that can be read once, and how long one may have no writer."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from calibrant.errors import FileError

__all__ = ["is_pipe", "read_bytes"]

#: Seconds in which somebody has to open the other end of a pipe.
PATIENCE = 5.0


def read_bytes(path: str | Path) -> bytes:
    """Return all bytes of a file or a pipe."""
    return _read_pipe(path) if is_pipe(path) else Path(path).read_bytes()


def is_pipe(path: str | Path) -> bool:
    """Whether a path is a named pipe or a shell's ``<(command)``: it can be read once, and may have no writer."""
    try:
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except OSError:
        return False


def _read_pipe(path: str | Path) -> bytes:
    """Return all that is written to a pipe; one that nobody opens for writing is refused instead of waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    end = time.monotonic() + PATIENCE
    first = b""
    with open(handle, "rb", buffering=0) as pipe:  # noqa: PTH123 -- a number, not a path
        while not first:
            try:
                first = os.read(handle, 1)  # nothing: no writer; BlockingIOError: a writer that thinks
            except BlockingIOError:
                break
            if not first:
                if time.monotonic() > end:
                    raise FileError(
                        f"{path} is a pipe that nobody writes to", hint="start its writer first, or name a file"
                    )
                time.sleep(0.01)
        os.set_blocking(handle, True)
        return first + pipe.readall()
