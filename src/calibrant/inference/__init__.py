"""How sure a number is: null distributions, intervals, tests, `evaluate` and `compare`."""

from __future__ import annotations

from typing import Any

from calibrant._lazy import lazy_attribute

#: Where each public name of this subpackage lives.
_HOMES = {
    "Comparison": "inference.comparison",
    "CoxCalibration": "inference.cox",
    "Evaluation": "inference.evaluation",
    "Facts": "inference.verdict",
    "FileEvaluation": "inference.slices",
    "Null": "inference.null",
    "Verdict": "inference.verdict",
    "classwise_tests": "inference.multiplicity",
    "compare_evidence": "inference.comparison",
    "cox_calibration": "inference.cox",
    "equivalence_test": "inference.equivalence",
    "evaluate_evidence": "inference.evaluation",
    "evaluate_slices": "inference.slices",
    "expected_ece": "inference.bias",
    "ece_bias": "inference.bias",
    "holm": "inference.multiplicity",
    "hosmer_lemeshow_test": "inference.tests",
    "interval": "inference.intervals",
    "judge": "inference.verdict",
    "null_distribution": "inference.null",
    "required_sample_size": "inference.bias",
    "sliced_tests": "inference.multiplicity",
    "spiegelhalter_test": "inference.tests",
    "test_calibration": "inference.tests",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return __all__
