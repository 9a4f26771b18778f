"""Kuiper, monotonic sweep, top-label error given the class, Cox's slope: fixed rows, other codes' numbers, real data."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.errors import UndefinedWarning
from calibrant.inference.cox import cox_calibration
from calibrant.metrics import ece, ks, kuiper, sweep, tl_ece


def fixture() -> tuple[np.ndarray, np.ndarray]:
    """A thousand rows without random numbers: the golden ratio spreads the labels."""
    i = np.arange(1000)
    s = (i + 0.5) / 1000
    return ((i * 0.6180339887498949) % 1 < s**1.5).astype(int), s


@pytest.mark.parametrize(
    ("labels", "weights", "value"),
    [
        ([0, 1, 0, 1], None, 0.15),
        ([1, 1, 1, 1], None, 0.5),
        ([0, 1, 0, 0], None, 0.3),
        ([0, 1, 0, 0], [4, 3, 2, 1], 0.32),
    ],
)
def test_kuiper_of_another_library(labels, weights, value):
    """MCGrad's tests of its ECCE: scores .6 .8 .2 .4; weights .4 .3 .2 .1."""
    found = kuiper(labels, [0.6, 0.8, 0.2, 0.4], view="class-1", sample_weight=weights)
    assert found == pytest.approx(value, abs=1e-12)


def test_fixed_rows():
    y, s = fixture()
    assert y.sum() == 398
    assert ks(y, s, view="class-1") == pytest.approx(0.102072, abs=5e-7)
    assert kuiper(y, s, view="class-1") == pytest.approx(0.1030715, abs=5e-8)
    assert sweep(y, s, view="class-1") == pytest.approx(0.102, abs=5e-4)
    assert sweep(y, s, view="class-1", norm=2) == pytest.approx(0.112060, abs=5e-7)


def test_ties_count_together():
    """Two hundred rows at one half with the hits first: nothing is off, whatever the order."""
    y = np.repeat([1, 0], 100)
    assert kuiper(y, np.full(200, 0.5), view="class-1") == pytest.approx(0.0, abs=1e-12)
    assert sweep(y, np.full(200, 0.5), view="class-1") == pytest.approx(0.0, abs=1e-12)


def test_given_the_predicted_class_is_never_less():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.6] * 4, 2000)
    y = (np.cumsum(p, axis=1) < rng.random(2000)[:, None]).sum(axis=1)
    assert tl_ece(y, p) >= ece(y, p)


def test_cox_of_fixed_rows():
    """The likelihood equations hold at the estimates; the three statistics add up (Miller et al. 1991)."""
    y, s = fixture()
    found = cox_calibration(y, s)
    odds = np.log(s / (1 - s))
    fitted = 1 / (1 + np.exp(-(found.intercept.value + found.slope.value * odds)))
    assert (y - fitted).sum() == pytest.approx(0.0, abs=1e-6)
    assert ((y - fitted) * odds).sum() == pytest.approx(0.0, abs=1e-6)
    large = 1 / (1 + np.exp(-(found.in_the_large.value + odds)))
    assert (y - large).sum() == pytest.approx(0.0, abs=1e-6)
    assert found.ratio.value == pytest.approx(398 / s.sum())
    both = found.in_the_large_test.statistic + found.slope_test.statistic
    assert found.test.statistic == pytest.approx(both, abs=1e-8)


def test_ratio_of_the_published_formula():
    """Debray et al. (2017): log(O/E) ± z·√((1 − O/n)/O), O = 270, E = 252.244463, n = 500."""
    p = 252.244463 / 500 + np.tile([0.1, -0.1], 250)
    y = np.repeat([1, 0], [270, 230])
    span = cox_calibration(y, p).ratio
    assert (span.value, span.low, span.high) == pytest.approx((1.070390, 0.987206, 1.160583), abs=1e-6)


def test_separated_outcomes_have_no_slope():
    """The likelihood grows without end: once a slope of 34 with an interval of no width was shown."""
    p = np.r_[np.linspace(0.1, 0.2, 20), np.linspace(0.7, 0.9, 20)]
    with pytest.warns(UndefinedWarning, match="separated"):
        found = cox_calibration(np.repeat([0, 1], 20), p)
    assert np.isnan([found.slope.value, found.intercept.value, found.test.pvalue]).all()
    assert found.in_the_large.value == pytest.approx(0.1768, abs=1e-4)
