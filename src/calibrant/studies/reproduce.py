"""Old address of the papers' tables and figures: now `calibrant_papers`."""

from __future__ import annotations

from typing import Any

from calibrant._deprecated import moved_attribute


def __getattr__(name: str) -> Any:
    return moved_attribute(__name__, "calibrant_papers", name)
