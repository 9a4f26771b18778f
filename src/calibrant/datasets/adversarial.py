"""Old address of the generators that break intervals: now `calibrant_benchmarks.generators`."""

from __future__ import annotations

from typing import Any

from calibrant._deprecated import moved_attribute


def __getattr__(name: str) -> Any:
    return moved_attribute(__name__, "calibrant_benchmarks.generators", name)
