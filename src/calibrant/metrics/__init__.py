"""One file per measure; importing this room declares them all, in the order of a full table."""

from calibrant.metrics.accuracy import accuracy as accuracy
from calibrant.metrics.confidence import mean_confidence as mean_confidence
from calibrant.metrics.ece import expected_calibration_error as expected_calibration_error
from calibrant.metrics.mce import maximum_calibration_error as maximum_calibration_error
from calibrant.metrics.tce import top_label_calibration_error as top_label_calibration_error
from calibrant.metrics.ks import kolmogorov_smirnov_error as kolmogorov_smirnov_error
from calibrant.metrics.kde import kde_calibration_error as kde_calibration_error
from calibrant.metrics.mmce import maximum_mean_calibration_error as maximum_mean_calibration_error
from calibrant.metrics.smece import smooth_calibration_error as smooth_calibration_error
from calibrant.metrics.cwce import classwise_calibration_error as classwise_calibration_error
from calibrant.metrics.sce import static_calibration_error as static_calibration_error
from calibrant.metrics.ace import adaptive_calibration_error as adaptive_calibration_error
from calibrant.metrics.tace import thresholded_adaptive_calibration_error as thresholded_adaptive_calibration_error
from calibrant.metrics.uce import uncertainty_calibration_error as uncertainty_calibration_error
from calibrant.metrics.skce import squared_kernel_calibration_error as squared_kernel_calibration_error
from calibrant.metrics.canonical_kde import canonical_kde_calibration_error as canonical_kde_calibration_error
from calibrant.metrics.brier import brier_score as brier_score
from calibrant.metrics.nll import log_score as log_score
from calibrant.metrics.spherical import spherical_score as spherical_score
from calibrant.metrics.rps import ranked_probability_score as ranked_probability_score
from calibrant.metrics.rbs import root_brier_score as root_brier_score
from calibrant.metrics.entropy import mean_entropy as mean_entropy
from calibrant.metrics.recipes import calibration_error as calibration_error
