"""Frames and batches on Polars, DuckDB, Spark and others: all they do is fill the states that metrics finish."""

from __future__ import annotations

from typing import Any

from calibrant._lazy import lazy_attribute

#: Where each public name lives; the summaries and the store have subpackages of their own now.
_HOMES = {
    "Slices": "summary.slices",
    "Store": "monitoring.store",
    "Summary": "summary.summary",
    "apply_frame": "engines.apply",
    "fit_frame": "engines.fit",
    "fit_summary": "engines.fit",
    "open_paths": "engines.registry",
    "summarize": "engines.frames",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605  # names of the mapping


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)
