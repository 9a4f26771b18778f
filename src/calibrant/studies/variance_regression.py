"""Old address of the variance regressions of the proper-scores paper: now `calibrant_papers.variance_regression`."""

from __future__ import annotations

from typing import Any

from calibrant._deprecated import moved_attribute


def __getattr__(name: str) -> Any:
    return moved_attribute(__name__, "calibrant_papers.variance_regression", name)
