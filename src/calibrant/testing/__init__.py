"""Public contract suites: run them on a method, metric or loss of your own."""

from __future__ import annotations

from typing import Any

#: name -> module of this package.
_SUITES = {
    "assert_calibrated": "assertions",
    "check_calibrator": "calibrators",
    "check_loss": "losses",
    "check_metric": "metrics",
}

__all__ = [*_SUITES]  # noqa: PLE0604  # names of the mapping


def __getattr__(name: str) -> Any:
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_SUITES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
