"""Reading and writing: from names and types to roles, and from a path to evidence."""

from __future__ import annotations

from typing import Any

from calibrant._lazy import lazy_attribute

_HOMES = {
    "Columns": "io.layout",
    "Layout": "io.layout",
    "Predictions": "io.predictions",
    "find_columns": "io.resolver",
    "read_predictions": "io.readers",
    "read_table": "io.readers",
    "to_evidence": "io.predictions",
    "to_forecast": "io.predictions",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 -- names of the mapping


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)
