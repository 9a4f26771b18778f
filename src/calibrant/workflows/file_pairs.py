"""Rows of two patterns, directories or tables, paired: as many files, with as many rows each, in the order of names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.core.text import count
from calibrant.engines.polars import open_files
from calibrant.engines.scans import read_scan
from calibrant.errors import FileError
from calibrant.io.paths import is_many, is_path, plain_errors
from calibrant.io.predictions import Predictions, frame_predictions
from calibrant.workflows.sources import LARGE, SAME_COLUMNS, Reading, open_rows

__all__ = ["check_files", "open_all_rows"]

_PART = "name the columns that tell rows apart with {key}, or compare one day or part at a time"


def open_all_rows(data: Any, how: Reading) -> tuple[Predictions, list[tuple[str, int]]]:
    """Return the rows of a file or frame, or of many files one after the other, with the files and their rows."""
    if not (is_path(data) and is_many(data)):
        return open_rows(data, how), []
    import polars as pl

    how.refuse(("input_format",), "for many files: their suffix says the format")
    scan = read_scan(data)
    scan.check(how.layout)
    size = sum(Path(name).stat().st_size for name in scan.files)
    if size > LARGE:
        held = f"{size / 1e9:.1f} GB where compare pairs at most {LARGE / 1e9:.1f} GB of rows in memory"
        raise FileError(f"{data} holds {held}", hint=_PART)
    types = {name: group.schema for group in scan.groups for name in group.files}
    with plain_errors(data, SAME_COLUMNS):
        frames = [
            open_files([name], scan.kind, types=types[name], partitions=scan.partitions).collect()
            for name in sorted(scan.files)
        ]
    files = [(name, frame.height) for name, frame in zip(sorted(scan.files), frames, strict=True)]
    return frame_predictions(pl.concat(frames, how="diagonal_relaxed"), how.layout), files


def check_files(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> None:
    """Refuse files that do not pair: another number of them, or another number of rows in one."""
    if not first or not second:
        return  # one of them is a single table: its rows are counted as a whole
    if len(first) != len(second):
        raise FileError(
            f"compare pairs files in the order of their names, and there are {count(len(first))} and "
            f"{count(len(second))} of them",
            hint="name the same parts of both forecasts",
        )
    for (one, n), (two, m) in zip(first, second, strict=True):
        if n != m:
            raise FileError(f"{one} has {count(n)} rows and {two} {count(m)}", hint="write the same rows in one order")
