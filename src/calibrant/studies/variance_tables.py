"""Old address of the variance tables of the proper-scores paper: now `calibrant_papers.variance_tables`."""

from __future__ import annotations

from typing import Any

from calibrant._deprecated import moved_attribute


def __getattr__(name: str) -> Any:
    return moved_attribute(__name__, "calibrant_papers.variance_tables", name)
