"""Forecasts with mean and variance (or samples, or quantiles): metrics, tests, tables and recalibration in one place.

Functions take ``(y_true, mean, variance, *, sample_weight=None)``, or a `Normal`, `Samples` or `Quantiles` forecast in
place of mean and variance; calibrators ``fit(mean, variance, y)`` and ``predict(mean, variance) -> (mean, variance)``.
Metrics live in `calibrant.metrics`, calibrators in `calibrant.calibrators`; here they are together, metrics by function
name and by short name (`regression.nll` is `metrics.nll_normal`).
"""

from __future__ import annotations

from typing import Any

from calibrant._lazy import lazy_attribute
from calibrant.core.predictions import Normal, Prediction, Quantiles, Samples
from calibrant.metrics.regression import (
    average_variance,
    bias,
    crps,
    dss,
    ence,
    interval_score,
    mean_squared_error,
    mean_standardized_residual,
    mean_variance,
    mse,
    nll,
    nll_normal,
    pinball,
    pit_ks,
    qce,
    quantile_calibration_error,
    ratio,
    se_variance_ratio,
    skce,
    skce_normal,
    variance_calibration_error,
    vce,
)
from calibrant.regression.evaluation import Comparison, compare, evaluate, interval
from calibrant.regression.tables import PitTable, VarianceTable, compute_pit, compute_variance_table, pit_values
from calibrant.regression.tests import pit_ks_test, skce_test
from calibrant.scores.normal import DawidSebastiani, NormalCRPS

#: Where the names live that bring scikit-learn.
_HOMES = {
    **dict.fromkeys(("NormalKernelScore", "calibration_error", "decomposition", "upper_bound"), "regression.proper"),
    **dict.fromkeys(("AutoVarianceCalibrator", "Identity", "IsotonicQuantiles"), "calibrators.regression"),
    **dict.fromkeys(("RegressionCalibrator", "StdScaling", "VarianceScaling"), "calibrators.regression"),
}

__all__ = [
    "AutoVarianceCalibrator", "Comparison", "DawidSebastiani", "Identity",
    "IsotonicQuantiles", "Normal", "NormalCRPS", "NormalKernelScore", "PitTable", "Prediction", "Quantiles",
    "RegressionCalibrator", "Samples", "StdScaling", "VarianceScaling", "VarianceTable",
    "average_variance", "bias", "calibration_error", "compare", "compute_pit",
    "compute_variance_table", "crps", "decomposition", "dss", "ence", "evaluate", "interval",
    "interval_score", "mean_squared_error", "mean_standardized_residual", "mean_variance", "mse", "nll",
    "nll_normal", "pinball", "pit_ks", "pit_ks_test", "pit_values", "qce", "quantile_calibration_error",
    "ratio", "se_variance_ratio", "skce", "skce_normal", "skce_test", "upper_bound",
    "variance_calibration_error", "vce"
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return __all__
