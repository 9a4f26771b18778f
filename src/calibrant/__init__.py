"""calibrant: know whether a model's probabilities can be trusted, repair them, prove how much it helped.

Names load when used (SPEC 1): ``import calibrant`` costs no more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Where each public name lives; rooms are modules of their own.
_HOMES = {
    "CalibratedClassifier": "calibrators",
    "Comparison": "inference",
    "Evaluation": "inference",
    "Summary": "engines",
    "apply_json": "applying",
    "compare": "inference",
    "evaluate": "inference",
    "interval": "inference",
    "list_calibrators": "calibrators",
    "list_measures": "listing",
    "load": "loading",
    "measure": "listing",
    "report": "reporting",
    "test_calibration": "inference",
}
_ROOMS = (
    "calibrators",
    "core",
    "datasets",
    "engines",
    "errors",
    "estimators",
    "inference",
    "metrics",
    "plots",
    "regression",
    "reporting",
    "scores",
    "selective",
    "studies",
    "testing",
    "torch",
    "views",
)
__all__ = [*_HOMES, *_ROOMS, "__version__"]  # noqa: PLE0604 -- the one list


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
