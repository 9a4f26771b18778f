"""A frozen case: something a user does, and what is drawn in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from frozen import FAMILIES

LANES = ("day", "duckdb", "spark")


class Case(NamedTuple):
    """One question to the library."""

    name: str  # "evaluate/classes/file", "values/ece/weights"
    run: Callable[[Path, int], Any]  # (folder that holds the inputs, seed) -> answer; an error's one line is one too
    lane: str = "day"  # "day" | "duckdb" | "spark"
    draws: int = 0  # number of resamples behind drawn numbers; 0: nothing is drawn
    tolerance: float = 1e-9  # 1e-7 for what a fit produced


def family_cases(family: str) -> list[Case]:
    """Return the cases of one family; names are unique within it."""
    found = list(import_module(f"frozen.{family}").cases())
    names = [case.name for case in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or any(case.lane not in LANES for case in found):
        raise ValueError(f"{family}: names must be unique and lanes known; look at {twice}")
    return found


def selected(
    families: tuple[str, ...] = FAMILIES, pattern: str = "*", lanes: tuple[str, ...] = LANES
) -> Iterator[tuple[str, Case]]:
    """Yield (family, case) of everything that was asked for."""
    for family in families:
        for case in family_cases(family):
            if fnmatchcase(case.name, pattern) and case.lane in lanes:
                yield family, case
