"""Metrics of means and variances: one private file per metric, as for class probabilities.

They have a folder of their own because "nll" and "skce" exist for both tasks. Importing it declares them all, in the
order of a full table; every function is callable by its short name: ``metrics.regression.qce``.
"""

from calibrant.metrics.regression._mse import mean_squared_error
from calibrant.metrics.regression._dss import dss
from calibrant.metrics.regression._nll import nll_normal
from calibrant.metrics.regression._crps import crps
from calibrant.metrics.regression._bias import mean_standardized_residual
from calibrant.metrics.regression._ratio import se_variance_ratio
from calibrant.metrics.regression._pit_ks import pit_ks
from calibrant.metrics.regression._qce import quantile_calibration_error
from calibrant.metrics.regression._ence import ence
from calibrant.metrics.regression._vce import variance_calibration_error
from calibrant.metrics.regression._skce import skce_normal
from calibrant.metrics.regression._interval_score import interval_score
from calibrant.metrics.regression._pinball import pinball
from calibrant.metrics.regression._mean_variance import average_variance

#: Short names, as the command line writes them.
bias = mean_standardized_residual
mean_variance = average_variance
mse = mean_squared_error
nll = nll_normal
qce = quantile_calibration_error
ratio = se_variance_ratio
skce = skce_normal
vce = variance_calibration_error

__all__ = [
    "average_variance", "bias", "crps", "dss", "ence", "interval_score", "mean_squared_error",
    "mean_standardized_residual", "mean_variance", "mse", "nll", "nll_normal", "pinball", "pit_ks", "qce",
    "quantile_calibration_error", "ratio", "se_variance_ratio", "skce", "skce_normal",
    "variance_calibration_error", "vce"
]  # fmt: skip
