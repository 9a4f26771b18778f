"""Histogram, Bayesian and scaling-binning: by hand, against netcal, and under weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaln

from calibrant.calibrators import BayesianBinning, HistogramBinning, ScalingBinning, TemperatureScaling
from calibrant.calibrators.bayesian_binning import average_histograms
from calibrant.core.links import softmax
from calibrant.core.pav import pool_ties
from calibrant.errors import InputError
from calibrant.metrics import expected_calibration_error
from helpers import load_data


def steps():
    """2,520 scores on an even grid: equal-mass and equal-width bins coincide for 1 … 10 bins."""
    p = (np.arange(2520) + 0.5) / 2520
    y = (np.random.default_rng(11).random(2520) < np.array([0.05, 0.3, 0.6, 0.9])[(4 * p).astype(int)]).astype(int)
    return p, y, (np.arange(12) + 0.5) / 12


def test_histogram_by_hand():
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.9])
    y = [0, 1, 0, 1, 1, 1]
    mass = HistogramBinning(n_bins=3).fit(p, y)
    np.testing.assert_allclose(mass.edges_[0], [0.25, 0.5])
    np.testing.assert_allclose(mass.values_[0], [0.5, 0.5, 1.0])
    width = HistogramBinning(n_bins=5, strategy="width").fit(p, y)
    np.testing.assert_allclose(width.values_[0], [0.5, 0.5, 1.0, 0.7, 1.0])  # the empty bin keeps its center
    np.testing.assert_allclose(width.predict_proba([0.2, 0.4, 0.75])[:, 1], [0.5, 0.5, 0.7])


def test_width_bins_are_the_one_rule():
    rng = np.random.default_rng(0)
    p = rng.random(2000).round(1)  # every score on an edge
    y = (rng.random(2000) < p).astype(int)
    fitted = HistogramBinning(n_bins=10, strategy="width").fit(p, y)
    rounded = fitted.predict_proba(p)[:, 1]
    for value in np.unique(p)[1:]:
        if value > 0.1:
            np.testing.assert_allclose(rounded[p == value], y[p == value].mean())


def test_histogram_keeps_ties_together_and_weights_repeat():
    rng = np.random.default_rng(1)
    p = rng.random(300).round(2)
    y = (rng.random(300) < p).astype(int)
    count = rng.integers(0, 4, 300)
    weighted = HistogramBinning(n_bins=7).fit(p, y, sample_weight=count)
    repeated = HistogramBinning(n_bins=7).fit(np.repeat(p, count), np.repeat(y, count))
    np.testing.assert_array_equal(weighted.edges_[0], repeated.edges_[0])
    np.testing.assert_allclose(weighted.values_[0], repeated.values_[0], rtol=1e-14)
    assert not np.isin(weighted.edges_[0], p[count > 0]).any()


def test_bayesian_binning_equals_netcal():
    """netcal 1.4.0: ``BBQ("BIC").fit(p, y).transform(q)`` (its bins are of equal width only)."""
    p, y, q = steps()
    netcal = [
        0.061904762328133474,
        0.061904762328133474,
        0.06190476148139034,
        0.3015873032807878,
        0.3015873032807878,
        0.3015872998938153,
        0.6158730133327864,
        0.6158730133327864,
        0.6158730184132453,
        0.9047619073021341,
        0.9047619073021341,
        0.9047619022216753,
    ]
    fitted = BayesianBinning(criterion="bic").fit(p, y)
    np.testing.assert_allclose(fitted.predict_proba(q)[:, 1], netcal, atol=1e-9)
    assert fitted.n_bins_[0] == pytest.approx(4, abs=1e-4)


def test_marginal_likelihood_by_hand():
    """Two histograms of one and two bins, 10 rows: the paper's score written out with Beta functions."""
    p = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.6, 0.7, 0.75, 0.8, 0.9])
    y = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1])

    def score(bins, centers):
        total, share = 0.0, []
        for rows, c in zip(bins, centers, strict=True):
            m, n = y[rows].sum(), len(y[rows])
            a, b = 2 / len(bins) * c, 2 / len(bins) * (1 - c)
            total += betaln(m + a, n - m + b) - betaln(a, b)
            share.append((m + a) / (n + a + b))
        return total, share

    one, two = score([slice(0, 10)], [0.5]), score([slice(0, 5), slice(5, 10)], [0.25, 0.75])
    weight = 1 / (1 + np.exp(one[0] - two[0]))
    expected = [(1 - weight) * one[1][0] + weight * share for share in two[1]]
    edges, values, n_bins = average_histograms(pool_ties(p, y), "bdeu", 2.0)
    np.testing.assert_allclose(edges, [0.5])
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert n_bins == pytest.approx(1 + weight)


@pytest.mark.parametrize("score", ["bdeu", "bic", "aic"])
def test_averaged_steps_equal_the_slow_average(score):
    """The one-pass average equals looping over the histograms one by one."""
    rng = np.random.default_rng(3)
    p = rng.random(150).round(2)
    y = (rng.random(150) < p).astype(float)
    table = pool_ties(p, y)
    edges, values, _ = average_histograms(table, score, 2.0)
    logs, maps = [], []
    query = rng.random(400)
    from calibrant.calibrators.bayesian_binning import score_bins
    from calibrant.calibrators.histogram import edges_after, mass_splits

    for size in range(1, 31):
        last = mass_splits(table, size)
        start, inner = np.append(0, last + 1), edges_after(table, last)
        weight, hits = np.add.reduceat(table.weight, start), np.add.reduceat(table.hits, start)
        border = np.concatenate([[0], inner, [1]])
        center = (border[1:] + border[:-1]) / 2
        value, share = score_bins(weight, hits, center, 2.0 / np.full(len(weight), len(weight)), score, 150.0)
        logs.append(value.sum())
        maps.append(share[np.searchsorted(inner, query)])
    posterior = np.exp(np.array(logs) - max(logs))
    expected = posterior / posterior.sum() @ np.array(maps)
    np.testing.assert_allclose(values[np.searchsorted(edges, query)], expected, atol=1e-12)


def test_scaling_binning_rounds_the_scaled_scores():
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(900, 3))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    method = ScalingBinning(n_bins=5, scaler=TemperatureScaling(), space="logit").fit(2 * logits, y)
    scaled = TemperatureScaling(space="logit").fit(2 * logits, y).predict_proba(2 * logits)
    for k in range(3):
        place = np.searchsorted(method.edges_[k], scaled[:, k])
        np.testing.assert_array_equal(np.bincount(place), np.full(5, 180))
        for b in range(5):
            assert method.values_[k][b] == pytest.approx(scaled[place == b, k].mean())
    thirds = ScalingBinning(n_bins=5, scaler=TemperatureScaling(), space="logit", split=True, rng=3)
    first = thirds.fit(2 * logits, y).predict_proba(2 * logits)
    np.testing.assert_array_equal(first, thirds.fit(2 * logits, y).predict_proba(2 * logits))
    assert np.abs(first - scaled).max() < 0.5


def test_binning_repairs_real_logits():
    data = load_data("cifar10_resnet110")
    p, new = softmax(data["logits_cal"]), softmax(data["logits_test"])
    before = expected_calibration_error(data["labels_test"], new)
    for method in (HistogramBinning(), BayesianBinning(), ScalingBinning(scaler=TemperatureScaling())):
        after = expected_calibration_error(data["labels_test"], method.fit(p, data["labels_cal"]).predict_proba(new))
        assert after < before / 2


def test_options_are_checked():
    with pytest.raises(InputError, match="n_bins"):
        HistogramBinning(n_bins=0).fit([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="strategy"):
        HistogramBinning(strategy="mas").fit([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="prior"):
        BayesianBinning(prior=0.0).fit([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="n_bins"):
        ScalingBinning(n_bins=2.5).fit([0.2, 0.8], [0, 1])
