"""Our speed against other libraries, side by side in one run (``calibrant bench``).

A family is a module of this package with a tuple ``RACES``; a new one is found by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["BenchReport", "list_races", "run"]


def __getattr__(name: str) -> Any:
    """Load the races when they are asked for: the command's help needs none of them."""
    if name in __all__:
        return getattr(import_module("calibrant_benchmarks.report"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
