"""Calibrators of means and variances: ``fit(mean, variance, y)``, ``predict(mean, variance) -> (mean, variance)``."""

from calibrant.calibrators.regression._base import RegressionCalibrator
from calibrant.calibrators.regression.auto import AutoVarianceCalibrator
from calibrant.calibrators.regression.identity import Identity
from calibrant.calibrators.regression.isotonic_quantiles import IsotonicQuantiles
from calibrant.calibrators.regression.std_scaling import StdScaling
from calibrant.calibrators.regression.variance_scaling import VarianceScaling

__all__ = [
    "AutoVarianceCalibrator", "Identity", "IsotonicQuantiles", "RegressionCalibrator", "StdScaling", "VarianceScaling"
]  # fmt: skip
