"""calibrant: know whether a model's probabilities can be trusted, repair them, prove how much it helped.

Names load when used (SPEC 1): ``import calibrant`` costs no more than NumPy.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from calibrant._lazy import lazy_attribute

__version__ = "0.2.0.dev0"
logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the user sets up a handler

#: Where each public name lives, relative to this package.
_HOMES = {
    "Applied": "workflows.apply",
    "AutoCalibrator": "calibrators",
    "CalibratedClassifier": "calibrators",
    "Comparison": "inference",
    "Evaluation": "inference",
    "Explanation": "workflows.explain",
    "FitResult": "workflows.fit",
    "Gate": "workflows.check",
    "Interval": "core.results",
    "MonitorReport": "monitoring",
    "Normal": "core.predictions",
    "Quantiles": "core.predictions",
    "Report": "reporting.page",
    "Samples": "core.predictions",
    "Summarized": "workflows.summarize",
    "Summary": "summary",
    "TestResult": "core.results",
    "apply": "workflows.apply",
    "check": "workflows.check",
    "compare": "workflows.compare",
    "equivalence_test": "inference",
    "evaluate": "workflows.evaluate",
    "explain": "workflows.explain",
    "fit": "workflows.fit",
    "get_calibrator": "calibrators",
    "interval": "inference",
    "list_calibrators": "calibrators",
    "list_metrics": "metrics.catalog",
    "load": "calibrators.reader",
    "merge": "workflows.summarize",
    "metric": "metrics.catalog",
    "monitor": "workflows.monitor",
    "predict_from_json": "calibrators.portable",
    "report": "workflows.report",
    "summarize": "workflows.summarize",
    "test_calibration": "inference",
}
_SUBPACKAGES = (
    "calibrators", "core", "datasets", "engines", "errors", "estimators", "inference", "io", "metrics", "monitoring",
    "plots", "regression", "reporting", "scores", "selective", "summary", "testing", "torch", "views",
    "workflows"
)  # fmt: skip
__all__ = [*_HOMES, *_SUBPACKAGES, "__version__"]  # noqa: PLE0604 -- the one list


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"{__name__}.{name}")
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return __all__
