"""Numbers of other libraries on the same rows, and numbers done by hand.

uncertainty-toolbox 0.1.1, scoringrules 0.10.0, netcal 1.4.0 (numpy 2.4), std = sqrt(VARIANCE):
    metrics_scoring_rule.nll_gaussian / crps_gaussian / check_score(MEAN, std, Y)
    metrics_scoring_rule.interval_score(MEAN, std, Y, start_p=.9, end_p=.9, resolution=1)
    metrics_calibration.mean_absolute_calibration_error(-MEAN, std, -Y, 101, True, prop_type=…)
    metrics_calibration.root_mean_squared_calibration_error, same arguments
        (signs turned: that library takes residuals as prediction − truth; its levels 0 and 1 add nothing but a count)
    scoringrules.crps_normal(Y, MEAN, std), .logs_normal, .interval_score(Y, low, high, 0.1)
    scoringrules.crps_ensemble(Y, ENSEMBLE, estimator="nrg"), .dssuv_ensemble(Y, ENSEMBLE)
    scoringrules.quantile_score(Y, numpy.quantile(ENSEMBLE, a, axis=1), a), a = .1, .5, .9
    netcal.metrics.regression.ENCE(bins=10) / UCE(bins=10) .metric((MEAN, std), Y), QCE(bins=1, marginal=True)
"""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import regression as room
from regression.golden_rows import ENSEMBLE, MEAN, VARIANCE, Y

ROWS = (Y, MEAN, VARIANCE)


@pytest.mark.parametrize(
    ("value", "golden"),
    [
        (lambda: room.nll_normal(*ROWS), 2.3000402047535755),
        (lambda: 2 * room.nll_normal(*ROWS) - np.log(2 * np.pi) - room.dss(*ROWS), 0.0),
        (lambda: room.crps(*ROWS), 1.4074454020411147),
        (lambda: room.pinball(*ROWS), 0.7106054123022686),
        (lambda: room.interval_score(*ROWS, level=0.9), 11.666945692585802),
        (lambda: room.quantile_calibration_error(*ROWS) * 99 / 101, 0.07341584158415843),
        (lambda: room.quantile_calibration_error(*ROWS, norm=2) * (99 / 101) ** 0.5, 0.08824611174223917),
        (lambda: room.quantile_calibration_error(*ROWS, kind="interval") * 99 / 101, 0.10772277227722774),
        (
            lambda: room.quantile_calibration_error(*ROWS, kind="interval", norm=2) * (99 / 101) ** 0.5,
            0.12307125843780646,
        ),
        (lambda: room.quantile_calibration_error(*ROWS, kind="interval", levels=[0.1, 0.5, 0.9]), 0.095),
        (lambda: room.crps(Y, room.Samples(ENSEMBLE)), 1.405142081156781),
        (lambda: room.dss(Y, room.Samples(ENSEMBLE)), 2.738774352830735),
        (lambda: room.pinball(Y, _quantiles(), levels=[0.1, 0.5, 0.9]), 0.6369409068692216),
        (lambda: room.ence(*ROWS, n_bins=10, bins="width"), 0.424911106320745),
        (lambda: room.variance_calibration_error(*ROWS, n_bins=10, bins="width"), 3.722113870985838),
    ],
)
def test_other_libraries_agree(value, golden):
    assert value() == pytest.approx(golden, rel=1e-9, abs=1e-12)


def _quantiles():
    return room.Quantiles([0.1, 0.5, 0.9], np.quantile(ENSEMBLE, [0.1, 0.5, 0.9], axis=1).T)


def test_by_hand():
    y, mean, variance = [1.0, 3.0, 0.0, 0.0], [1.0, 1.0, 1.0, -2.0], [1.0, 4.0, 1.0, 4.0]
    assert room.se_variance_ratio(y, mean, variance) == pytest.approx((0 + 1 + 1 + 1) / 4)
    assert room.mean_squared_error(y, mean, variance) == pytest.approx((0 + 4 + 1 + 4) / 4)
    assert room.average_variance(y, mean, variance) == 2.5
    # two bins by variance: squared errors 0, 1 at variance 1 and 4, 4 at variance 4
    assert room.variance_calibration_error(y, mean, variance, n_bins=2) == pytest.approx(0.5 * 0.5)
    assert room.ence(y, mean, variance, n_bins=2) == pytest.approx((1 - 0.5**0.5) / 2)
    table = room.compute_variance_table(y, mean, variance, n_bins=2)
    assert table.count == (2, 2)
    assert table.variance == (1, 4)
    assert table.mse == (0.5, 4)
    assert table.ratio == (0.5, 1)


def test_normal_crps_constant_of_the_null():
    from calibrant.metrics.regression.nulls import CRPS_THIRD, CRPS_VARIANCE

    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    score = room.Normal(np.zeros(200), np.ones(200)).crps(nodes)
    assert weights @ score == pytest.approx(np.pi**-0.5, abs=1e-13)
    assert weights @ score**2 - 1 / np.pi == pytest.approx(CRPS_VARIANCE, abs=1e-13)
    assert weights @ (score - np.pi**-0.5) ** 3 == pytest.approx(CRPS_THIRD, abs=1e-12)
