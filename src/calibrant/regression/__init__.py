"""Forecasts with mean and variance (or samples, or quantiles): scores, calibration errors, tests and repair.

Functions take ``(y_true, mean, variance, *, sample_weight=None)``, or a `Normal`, `Samples` or `Quantiles` forecast in
place of mean and variance; calibrators ``fit(mean, variance, y)`` and ``predict(mean, variance) -> (mean, variance)``.
"""

from __future__ import annotations

from calibrant.core.inputs import check_names
from calibrant.regression._base import RegressionCalibrator, load
from calibrant.regression.auto import AutoVarianceCalibrator
from calibrant.regression.calibrators import Identity, StdScaling, VarianceScaling
from calibrant.regression.evaluation import MEASURES, RegressionEvaluation, evaluate
from calibrant.regression.intervals import Comparison, compare, interval
from calibrant.regression.isotonic import IsotonicQuantiles
from calibrant.regression.kernel import skce, skce_test
from calibrant.regression.pit import (
    PitTable,
    compute_pit,
    pit_ks,
    pit_ks_test,
    pit_values,
    quantile_calibration_error,
)
from calibrant.regression.predictions import Normal, Prediction, Quantiles, Samples
from calibrant.regression.proper import (
    CRPSNormal,
    DawidSebastiani,
    NormalKernelScore,
    calibration_error,
    decomposition,
    upper_bound,
)
from calibrant.regression.scores import crps, dss, interval_score, nll_normal, pinball
from calibrant.regression.variance_errors import (
    VarianceTable,
    average_variance,
    compute_variance_table,
    ence,
    mean_squared_error,
    se_variance_ratio,
    variance_calibration_error,
)

__all__ = [
    "MEASURES",
    "AutoVarianceCalibrator",
    "CRPSNormal",
    "Comparison",
    "DawidSebastiani",
    "Identity",
    "IsotonicQuantiles",
    "Normal",
    "NormalKernelScore",
    "PitTable",
    "Prediction",
    "Quantiles",
    "RegressionCalibrator",
    "RegressionEvaluation",
    "Samples",
    "StdScaling",
    "VarianceScaling",
    "VarianceTable",
    "average_variance",
    "by_short_name",
    "calibration_error",
    "calibrator_classes",
    "compare",
    "compute_pit",
    "compute_variance_table",
    "crps",
    "decomposition",
    "dss",
    "ence",
    "evaluate",
    "interval",
    "interval_score",
    "load",
    "mean_squared_error",
    "nll_normal",
    "pinball",
    "pit_ks",
    "pit_ks_test",
    "pit_values",
    "quantile_calibration_error",
    "se_variance_ratio",
    "skce",
    "skce_test",
    "upper_bound",
    "variance_calibration_error",
]


def calibrator_classes() -> tuple[type[RegressionCalibrator], ...]:
    """Return the regression calibrators, simplest first.

    Examples
    --------
    >>> [kind.short_name for kind in calibrator_classes()]
    ['identity', 'std-scaling', 'variance-scaling', 'isotonic-quantiles', 'auto']
    """
    return (Identity, StdScaling, VarianceScaling, IsotonicQuantiles, AutoVarianceCalibrator)


def by_short_name(name: str) -> type[RegressionCalibrator]:
    """Return the regression calibrator of a short name, as used by ``--method``.

    Examples
    --------
    >>> by_short_name("variance-scaling").__name__
    'VarianceScaling'
    """
    kinds = {kind.short_name: kind for kind in calibrator_classes()}
    return kinds[check_names(name, tuple(kinds), "method", "by_short_name")]
