"""Summary files: what ``calibrant summarize`` writes and every command takes in place of predictions."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import add
from pathlib import Path
from typing import Any

from calibrant.errors import FileError
from calibrant.summary.slices import Slices

__all__ = ["SUFFIX", "add_files", "load_summaries", "summary_files"]

SUFFIX = ".calsum"


def summary_files(data: Any) -> list[str] | None:
    """Return the summary files that a path, pattern or directory names; None where it names something else."""
    if not isinstance(data, str | Path):
        return None
    path = Path(data)
    if path.is_dir():
        return sorted(str(file) for file in path.glob(f"*{SUFFIX}") if not file.name.startswith((".", "_"))) or None
    if path.suffix != SUFFIX:
        return None
    if path.exists():
        return [str(path)]
    found = sorted(glob.glob(str(data), recursive=True))  # noqa: PTH207 -- patterns may be absolute
    if not found:
        raise FileError(f"{data} matches no file", hint="check the path, and quote the pattern")
    return found


def load_summaries(data: Any) -> Slices | None:
    """Return summary files added up, None where the path names something else."""
    files = summary_files(data)
    return None if files is None else add_files(files)


def add_files(files: Sequence[str]) -> Slices:
    """Return summary files added up; two of the same rows are refused by name."""
    held = [Slices.load(name) for name in files]
    for (one, mine), (two, yours) in combinations(zip(files, held, strict=True), 2):
        if mine.whole.n == yours.whole.n > 0 and mine.whole.same_rows(yours.whole):
            raise FileError(f"{one} and {two} hold the same rows, which would count twice", hint="name one of them")
    return reduce(add, held)
