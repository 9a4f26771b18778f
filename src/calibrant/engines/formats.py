"""Formats an engine writes; others are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calibrant.errors import FileError

__all__ = ["pick_writer"]


def pick_writer(writers: Mapping[str, Callable[[], Any]], kind: str) -> Callable[[], Any]:
    """Return an engine's writer of a format, or refuse the format by name."""
    if kind not in writers:
        raise FileError(f"No table is written here as {kind!r}", hint=f"use one of {', '.join(writers)}")
    return writers[kind]
