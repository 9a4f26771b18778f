"""The papers behind calibrant: every table and figure beside the published numbers, and the training experiment."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name -> module; loaded on first use, so that `calibrant --help` stays quick.
_HOMES = {
    "PAPERS": "reproduction",
    "Outcome": "reproduction",
    "Target": "reproduction",
    "data_folder": "reproduction",
    "entropy_calibration_error": "measures",
    "ks_by_predicted_class": "measures",
    "list_targets": "reproduction",
    "predicted_class_ace": "measures",
    "reproduce": "reproduction",
    "write_book": "book",
    "write_target": "book",
}
__all__ = [
    "PAPERS",
    "Outcome",
    "Target",
    "data_folder",
    "entropy_calibration_error",
    "ks_by_predicted_class",
    "list_targets",
    "predicted_class_ace",
    "reproduce",
    "write_book",
    "write_target",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"calibrant_papers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'calibrant_papers' has no attribute {name!r}")
