"""Forecasts with mean and variance (or samples, or quantiles): metrics, tests, tables and recalibration in one place.

Functions take ``(y_true, mean, variance, *, sample_weight=None)``, or a `Normal`, `Samples` or `Quantiles` forecast in
place of mean and variance; calibrators ``fit(mean, variance, y)`` and ``predict(mean, variance) -> (mean, variance)``.
Metrics live in `calibrant.metrics`, calibrators in `calibrant.calibrators`; here they are together, metrics by function
name and by short name (`regression.nll` is `metrics.nll_normal`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._deprecated import lazy_attribute
from calibrant.calibrators import _artifact, list_calibrators
from calibrant.calibrators import get_calibrator as _get_calibrator
from calibrant.core.declare import declared
from calibrant.core.predictions import Normal, Prediction, Quantiles, Samples
from calibrant.errors import FileError
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
from calibrant.regression.evaluation import Comparison, RegressionEvaluation, compare, evaluate, interval
from calibrant.regression.tables import PitTable, VarianceTable, compute_pit, compute_variance_table, pit_values
from calibrant.regression.tests import pit_ks_test, skce_test
from calibrant.scores.normal import DawidSebastiani, NormalCRPS

if TYPE_CHECKING:
    from calibrant.calibrators.regression import RegressionCalibrator

#: Where the names live that bring scikit-learn.
_HOMES = {
    **dict.fromkeys(("NormalKernelScore", "calibration_error", "decomposition", "upper_bound"), "regression.proper"),
    **dict.fromkeys(("AutoVarianceCalibrator", "Identity", "IsotonicQuantiles"), "calibrators.regression"),
    **dict.fromkeys(("RegressionCalibrator", "StdScaling", "VarianceScaling"), "calibrators.regression"),
    "get_calibrator": "regression",
}
#: The name of version 0.1.
CRPSNormal = NormalCRPS
#: Short name -> (what it estimates, bound) of the default set, in the order of the table.
MEASURES = {metric.name: (metric.estimates, metric.bound) for metric in declared("regression") if metric.default}

__all__ = [
    "MEASURES", "AutoVarianceCalibrator", "CRPSNormal", "Comparison", "DawidSebastiani", "Identity",
    "IsotonicQuantiles", "Normal", "NormalCRPS", "NormalKernelScore", "PitTable", "Prediction", "Quantiles",
    "RegressionCalibrator", "RegressionEvaluation", "Samples", "StdScaling", "VarianceScaling", "VarianceTable",
    "average_variance", "bias", "calibration_error", "calibrator_classes", "compare", "compute_pit",
    "compute_variance_table", "crps", "decomposition", "dss", "ence", "evaluate", "get_calibrator", "interval",
    "interval_score", "load", "mean_squared_error", "mean_standardized_residual", "mean_variance", "mse", "nll",
    "nll_normal", "pinball", "pit_ks", "pit_ks_test", "pit_values", "qce", "quantile_calibration_error",
    "ratio", "se_variance_ratio", "skce", "skce_normal", "skce_test", "upper_bound",
    "variance_calibration_error", "vce"
]  # fmt: skip


def calibrator_classes() -> tuple[type[RegressionCalibrator], ...]:
    """Return the regression calibrators, simplest first.

    Examples
    --------
    >>> [kind.short_name for kind in calibrator_classes()]
    ['identity', 'std-scaling', 'variance-scaling', 'isotonic-quantiles', 'auto']
    """
    listing = list_calibrators("regression")
    return tuple(listing[name] for name in listing)


def get_calibrator(name: str) -> type[RegressionCalibrator]:
    """Return the regression calibrator of a short name, as used by ``--method``.

    Examples
    --------
    >>> get_calibrator("variance-scaling").__name__
    'VarianceScaling'
    """
    return _get_calibrator(name, task="regression")


def load(path: str | Path) -> RegressionCalibrator:
    """Load a regression calibrator written by `save`: `calibrant.load`, which refuses other calibrators.

    Parameters
    ----------
    path : str or Path
        A JSON file. A changed file, a newer schema or a foreign file raises `FileError`.

    Returns
    -------
    RegressionCalibrator

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.regression import StdScaling
    >>> fitted = StdScaling().fit([0.0] * 4, [1.0] * 4, [2.0, -2.0, 2.0, -2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(f"{folder}/cal.json")
    ...     load(f"{folder}/cal.json").factor_
    2.0
    """
    found: Any = _artifact.load(path)
    if found.task != "regression":
        raise FileError(f"{path} holds a calibrator of class probabilities. Hint: use calibrant.load.")
    return found


def __getattr__(name: str) -> Any:
    return lazy_attribute(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return __all__
