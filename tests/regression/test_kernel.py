"""SKCE of normal forecasts: closed form against integration, mean zero, estimators, bandwidths, test."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import regression as room
from calibrant.core.rows import check_rows
from calibrant.errors import InputError
from calibrant.metrics.regression import _skce, kernel
from calibrant.metrics.regression.kernel import Points, pair_terms


def calibrated(n, seed, over=1.0):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n) * 2, rng.gamma(2.0, 0.5, n) + 0.05
    return mean + over * np.sqrt(variance) * rng.normal(size=n), mean, variance


@pytest.mark.parametrize("lengths", [(1.0, 1.0), (0.7, 2.5)])
def test_closed_form_equals_numerical_integration(lengths):
    """Each expectation by Gauss-Hermite quadrature of 200 nodes, to 1e-8."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    y, mean, variance = calibrated(6, 3)
    points = Points(y, mean, np.sqrt(variance), variance)
    got = pair_terms(points, points, lengths)

    def target(a, b):
        return np.exp(-((a - b) ** 2) / (2 * lengths[1] ** 2))

    for i in range(6):
        for j in range(6):
            yi, yj = (mean[k] + np.sqrt(variance[k]) * nodes for k in (i, j))
            bracket = (
                target(y[i], y[j])
                - weights @ target(yi, y[j])
                - weights @ target(y[i], yj)
                + weights @ target(yi[:, None], yj[None, :]) @ weights
            )
            distance = np.hypot(mean[i] - mean[j], np.sqrt(variance[i]) - np.sqrt(variance[j]))
            assert got[i, j] == pytest.approx(np.exp(-distance / lengths[0]) * bracket, abs=1e-8)


def test_estimators_against_the_plain_double_loop():
    y, mean, variance = calibrated(207, 5)
    points = Points(y, mean, np.sqrt(variance), variance)
    h = pair_terms(points, points, (1.0, 1.0))
    n = len(y)

    def value(**options):
        return room.skce(y, mean, variance, bandwidth="published", **options)

    assert value() == pytest.approx((h.sum() - np.trace(h)) / (n * (n - 1)), rel=1e-12)
    assert value(estimator="biased") == pytest.approx(h.mean(), rel=1e-12)
    for size in (2, 10, 80):
        blocks = [h[a : a + size, a : a + size] for a in range(0, n - size + 1, size)]
        want = np.mean([(b.sum() - np.trace(b)) / (size * (size - 1)) for b in blocks])
        assert value(estimator="block", block_size=size) == pytest.approx(want, rel=1e-11)
    assert value(estimator="linear") == value(estimator="block", block_size=2)
    weights = np.random.default_rng(0).integers(0, 3, n).astype(float)
    total = weights.sum()
    want = (weights @ h @ weights - weights @ np.diag(h)) / (total * (total - 1))
    assert value(sample_weight=weights) == pytest.approx(want, rel=1e-12)


def test_mean_is_zero_for_a_calibrated_model_and_not_for_an_overconfident_one():
    for bandwidth in ("published", "median"):
        values = [room.skce(*calibrated(100, seed), bandwidth=bandwidth) for seed in range(300)]
        assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(300)
        worse = [room.skce(*calibrated(100, seed, over=1.8), bandwidth=bandwidth) for seed in range(50)]
        assert np.mean(worse) > 6 * np.std(worse) / np.sqrt(50)


def test_median_bandwidth_does_not_depend_on_the_unit_of_y():
    y, mean, variance = calibrated(150, 1, over=1.5)
    value = room.skce(y, mean, variance)
    assert room.skce(1e5 * y, 1e5 * mean, 1e10 * variance) == pytest.approx(value, rel=1e-9)
    # the published length 1 sees nothing in large units: every pair of forecasts is infinitely far apart
    assert abs(room.skce(1e5 * y, 1e5 * mean, 1e10 * variance, bandwidth="published")) < 1e-12


def test_test_sees_over_confidence_and_keeps_its_size():
    assert room.skce_test(*calibrated(400, 0, over=1.5), rng=0).pvalue < 0.01
    assert room.skce_test(*calibrated(6000, 0, over=1.5), rng=0).method == "skce-block"
    pvalues = np.array([room.skce_test(*calibrated(60, seed), n_resamples=200, rng=seed).pvalue for seed in range(200)])
    assert 0.01 <= (pvalues <= 0.05).mean() <= 0.1


@pytest.mark.slow
def test_size_of_the_test():
    for n in (60, 300):
        repeats = 2000
        tests = (room.skce_test(*calibrated(n, 10_000 + s), n_resamples=500, rng=s) for s in range(repeats))
        assert 0.035 <= sum(test.pvalue <= 0.05 for test in tests) / repeats <= 0.065


def test_every_pair_is_looked_at_once_and_in_small_tiles(monkeypatch):
    """What makes 5,000 rows take a second: half the pairs, in tables that stay in the cache."""
    shapes = []

    def counted(a, b, lengths):
        shapes.append((len(a.y), len(b.y)))
        return pair_terms(a, b, lengths)

    monkeypatch.setattr(kernel, "pair_terms", counted)
    room.skce(*calibrated(2000, 0))
    assert max(max(shape) for shape in shapes) <= kernel.TILE <= 256
    assert 2000**2 / 2 <= sum(rows * columns for rows, columns in shapes) <= 2000 * (2000 + kernel.TILE) / 2


def test_refusals():
    data = calibrated(20, 0)
    with pytest.raises(InputError, match="bandwidth of skce must be positive"):
        room.skce(*data, bandwidth=0.0)
    with pytest.raises(InputError, match="be None for blocks"):
        room.skce(*data, estimator="block", sample_weight=np.ones(20))
    with pytest.raises(InputError, match="block_size"):
        room.skce(*data, estimator="block", block_size=1)
    with pytest.raises(InputError, match="did you mean 'biased'"):
        room.skce(*data, estimator="biassed")


def test_evaluate_and_the_test_know_one_value_above_the_rows_of_all_pairs(monkeypatch):
    """Above 5,000 rows blocks of 50 are compared, in the table of `evaluate`, by the metric and by the test."""
    seen = []
    monkeypatch.setattr(kernel, "pair_sum", lambda *_: seen.append("all pairs"))
    data = calibrated(6000, 0, over=1.5)
    found = room.evaluate(*data, metrics=["skce"], rng=0)["skce"]
    tested = room.skce_test(*data, rng=0)
    assert found.value == room.skce(*data) == tested.statistic
    assert found.pvalue == tested.pvalue
    assert tested.method == "skce-block"
    assert not seen


@pytest.mark.parametrize("n", [1500, 5500])
def test_value_does_not_depend_on_the_order_of_rows(n):
    data = calibrated(n, 0, over=1.5)
    value = room.skce(*data)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(n)
        assert room.skce(*(column[order] for column in data)) == pytest.approx(value, rel=1e-9)


def test_counts_are_copies_above_the_rows_of_all_pairs():
    data = calibrated(3000, 0, over=1.5)
    counts = np.random.default_rng(0).integers(0, 5, 3000)
    copied = room.skce(*(np.repeat(column, counts) for column in data))
    assert room.skce(*data, sample_weight=counts) == pytest.approx(copied, rel=1e-9)


def test_blocks_agree_with_all_pairs():
    data = calibrated(6000, 1, over=1.5)
    points = kernel.row_points(check_rows(*data, caller="test"))
    values = kernel.block_values(points, 50, kernel.median_lengths(points))
    error = values.std() / np.sqrt(len(values))
    assert abs(room.skce(*data) - room.skce(*data, estimator="unbiased")) < 3 * error


@pytest.mark.parametrize("size", [2.5, "a", 1, None])
def test_block_size_is_a_whole_number(size):
    with pytest.raises(InputError, match="block_size of skce_normal must be a whole number of at least 2"):
        room.skce(*calibrated(20, 0), estimator="block", block_size=size)


def test_blocks_of_a_calibrated_model_are_zero_on_average(monkeypatch):
    """One order of sorted rows for every sample would pair the same ranks of truths, and lean to one side for ever."""
    monkeypatch.setattr(_skce, "ALL_PAIRS", 100)
    pvalues = []
    for seed in range(80):
        y = np.random.default_rng(seed).normal(size=1000)
        pvalues.append(room.skce_test(y, np.zeros(1000), np.ones(1000)).pvalue)
    assert abs(np.mean(pvalues) - 0.5) < 4 * np.sqrt(1 / 12 / 80)
