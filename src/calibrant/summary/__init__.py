"""Mergeable evidence: cells and sums of predictions that add up over files, engines and machines."""

from __future__ import annotations

from typing import Any

from calibrant._lazy import lazy_attribute

_HOMES = {"Slices": "summary.slices", "Summary": "summary.summary"}
__all__ = sorted(_HOMES)  # noqa: PLE0605 -- names of the mapping


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)
