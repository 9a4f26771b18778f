"""Where predictions come from: files, frames and engines; all they do is fill the states that measures finish."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Where each public name of this room lives.
_HOMES = {
    "Slices": "slices",
    "Store": "store",
    "Summary": "summary",
    "apply_frame": "applying",
    "apply_paths": "applying",
    "evaluate_paths": "paths",
    "fit_frame": "fitting",
    "fit_summary": "fitting",
    "open_paths": "paths",
    "summarize": "frames",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605  # names of the mapping


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
