"""Sensitivity studies, the papers' tables and the speed comparison."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

#: Where each public name of this room lives.
_HOMES = {
    "Study": "frame",
    "StudyResult": "frame",
    "bins": "bins",
    "coverage": "coverage",
    "estimator_bias": "estimator_bias",
    "label_noise": "label_noise",
    "learning_curves": "learning_curves",
    "list_targets": "reproduce",
    "reproduce": "reproduce",
    "resolution": "resolution",
    "run_study": "frame",
    "sample_size": "sample_size",
    "temperature_sweep": "temperature_sweep",
}
__all__ = list(_HOMES)


class _Room(ModuleType):
    """Keeps a study's name for its function: importing the file of the same name must not hide it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
