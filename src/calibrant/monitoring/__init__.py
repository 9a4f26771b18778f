"""Drift alarms over days of predictions: the store, windows and e-processes."""

from __future__ import annotations

from typing import Any

from calibrant._lazy import lazy_attribute

_HOMES = {
    "FamilyReport": "monitoring.family",
    "MonitorReport": "monitoring.days",
    "Store": "monitoring.store",
    "add_day": "monitoring.days",
    "add_models": "monitoring.family",
    "compare_windows": "monitoring.windows",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 -- names of the mapping


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)
