"""Everyday files: the values, the "read:" lines and the refusals of ``calibrant evaluate FILE``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from frozen.asking import commanded
from frozen.case import Case
from frozen.fixed import answer
from io_files import everyday

#: Files of one case.
PART = 16


def cases() -> Iterator[Case]:
    """Yield the files, some at a time."""
    names = list(everyday.MAKERS)
    for start in range(0, len(names), PART):
        yield Case(f"corpus/{start:03d}", partial(read, names[start : start + PART]))


def read(names: list[str], folder: Path, seed: int) -> Any:
    """Return what evaluate says about files, with nothing drawn."""
    return {name: answer(said, name, folder) for name in names}


def said(name: str, folder: Path) -> Any:
    path, expected = everyday.MAKERS[name](folder)
    done = commanded(folder, "evaluate", path.name, "--resamples", 0, "--json", *expected.args)
    return {**done, "out": short(done["out"])} if isinstance(done["out"], dict) else done


def short(found: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation with the value of each metric alone; what else a metric says is frozen elsewhere."""
    return {**found, "metrics": {name: one["value"] for name, one in found["metrics"].items()}}
