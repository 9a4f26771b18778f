"""How sure a number is: null distributions, intervals, tests, `evaluate` and `compare`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Where each public name of this room lives.
_HOMES = {
    "Comparison": "comparison",
    "Evaluation": "evaluation",
    "Facts": "verdict",
    "Null": "null",
    "classwise_tests": "multiplicity",
    "compare": "comparison",
    "equivalence_test": "equivalence",
    "evaluate": "evaluation",
    "expected_ece": "bias",
    "ece_bias": "bias",
    "holm": "multiplicity",
    "hosmer_lemeshow_test": "tests",
    "interval": "intervals",
    "null_values": "null",
    "smallest_n": "bias",
    "sliced_tests": "multiplicity",
    "spiegelhalter_test": "tests",
    "test_calibration": "tests",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
