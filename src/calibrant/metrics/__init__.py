"""Metrics of calibration: one private file per metric, each with its declaration and its function.

A function is written as the recipe of its parameters; the declaration (`Metric.defines`) makes it one of the columns.
Importing this package declares them all, in the order of a full table. Every function is also callable by its short
name: ``metrics.ece`` is ``metrics.expected_calibration_error``. A short name that two tasks have ("nll", "skce") means
class probabilities here; means and variances have ``nll_normal``, ``skce_normal`` and `calibrant.metrics.regression`.
"""

from calibrant.metrics._accuracy import accuracy
from calibrant.metrics._confidence import mean_confidence
from calibrant.metrics._ece import expected_calibration_error
from calibrant.metrics._mce import maximum_calibration_error
from calibrant.metrics._tce import top_label_calibration_error
from calibrant.metrics._ks import kolmogorov_smirnov_error
from calibrant.metrics._kuiper import kuiper_error
from calibrant.metrics._kde import kde_calibration_error
from calibrant.metrics._mmce import maximum_mean_calibration_error
from calibrant.metrics._smece import smooth_calibration_error
from calibrant.metrics._sweep import sweep_calibration_error
from calibrant.metrics._tl_ece import top_label_conditional_error
from calibrant.metrics._cwce import classwise_calibration_error
from calibrant.metrics._sce import static_calibration_error
from calibrant.metrics._ace import adaptive_calibration_error
from calibrant.metrics._tace import thresholded_adaptive_calibration_error
from calibrant.metrics._uce import uncertainty_calibration_error
from calibrant.metrics._skce import squared_kernel_calibration_error
from calibrant.metrics._canonical_kde import canonical_kde_calibration_error
from calibrant.metrics._brier import brier_score
from calibrant.metrics._nll import log_score
from calibrant.metrics._spherical import spherical_score
from calibrant.metrics._rps import ranked_probability_score
from calibrant.metrics._rbs import root_brier_score
from calibrant.metrics._entropy import mean_entropy
from calibrant.metrics.recipes import calibration_error
from calibrant.metrics.curves import (
    class_table,
    cumulative_curve,
    isotonic_curve,
    local_curve,
    reliability_curve,
)
from calibrant.metrics.scorer import scorer
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
    nll_normal,
    pinball,
    pit_ks,
    qce,
    quantile_calibration_error,
    ratio,
    se_variance_ratio,
    skce_normal,
    variance_calibration_error,
    vce,
)

#: Short names, as the command line writes them.
confidence = mean_confidence
ece = expected_calibration_error
mce = maximum_calibration_error
tce = top_label_calibration_error
ks = kolmogorov_smirnov_error
kuiper = kuiper_error
kde = kde_calibration_error
mmce = maximum_mean_calibration_error
smece = smooth_calibration_error
sweep = sweep_calibration_error
tl_ece = top_label_conditional_error
cwce = classwise_calibration_error
sce = static_calibration_error
ace = adaptive_calibration_error
tace = thresholded_adaptive_calibration_error
uce = uncertainty_calibration_error
skce = squared_kernel_calibration_error
ce_kde = canonical_kde_calibration_error
brier = brier_score
nll = log_score
spherical = spherical_score
rps = ranked_probability_score
rbs = root_brier_score
entropy = mean_entropy

__all__ = [
    "accuracy", "ace", "adaptive_calibration_error", "average_variance", "bias", "brier", "brier_score",
    "calibration_error", "canonical_kde_calibration_error", "ce_kde", "class_table",
    "classwise_calibration_error", "confidence", "crps", "cumulative_curve", "cwce", "dss", "ece", "ence",
    "entropy", "expected_calibration_error", "interval_score", "isotonic_curve", "kde", "kde_calibration_error",
    "kolmogorov_smirnov_error", "ks", "kuiper", "kuiper_error", "local_curve", "log_score",
    "maximum_calibration_error", "maximum_mean_calibration_error", "mce", "mean_confidence", "mean_entropy",
    "mean_squared_error", "mean_standardized_residual", "mean_variance", "mmce", "mse", "nll", "nll_normal",
    "pinball", "pit_ks", "qce", "quantile_calibration_error", "ranked_probability_score", "ratio", "rbs",
    "reliability_curve", "root_brier_score", "rps", "sce", "scorer", "se_variance_ratio", "skce", "skce_normal",
    "smece", "smooth_calibration_error", "spherical", "spherical_score", "squared_kernel_calibration_error",
    "static_calibration_error", "sweep", "sweep_calibration_error", "tace", "tce",
    "thresholded_adaptive_calibration_error", "tl_ece", "top_label_calibration_error",
    "top_label_conditional_error", "uce", "uncertainty_calibration_error", "variance_calibration_error", "vce"
]  # fmt: skip
