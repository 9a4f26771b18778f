"""Theorem 3.1 of Gruber & Buettner on the empirical distribution, and what else a sample may promise.

On the empirical distribution each distinct forecast (or score) is its own group. No order is asserted between ECE and KS, TCE₂
on some bins and KS or ECE on others, CWCE and TCE, nor anything for debiased, KDE or ce-kde values: none holds.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.core.inputs import check_forecast
from calibrant.scores import calibration_error
from calibrant.views import Classwise, TopLabel

pytestmark = pytest.mark.filterwarnings("ignore:.*distinct forecasts")
SLACK = 1e-9


@st.composite
def samples(draw):
    """A few distinct forecasts with ties between classes, zeros and ones, met by any labels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, m, n = draw(st.integers(2, 5)), draw(st.integers(1, 8)), draw(st.integers(1, 60))
    distinct = rng.integers(0, 5, (m, k)).astype(float)
    distinct[distinct.sum(axis=1) == 0] = 1.0
    distinct /= distinct.sum(axis=1, keepdims=True)
    return rng.integers(0, k, n), distinct[rng.integers(0, m, n)]


def by_score(pairs, p):
    """E |s − E[t | s]|^p with every distinct score its own group."""
    _, group = np.unique(pairs.score, return_inverse=True)
    count = np.bincount(group)
    gap = np.abs(np.bincount(group, pairs.score) - np.bincount(group, pairs.outcome)) / count
    return float((count / count.sum() * gap**p).sum())


def canonical(y, proba, p):
    """CE_p with every distinct forecast its own group."""
    _, group = np.unique(proba, axis=0, return_inverse=True)
    group = group.reshape(-1)
    onehot = np.eye(proba.shape[1])[y]
    mean = np.stack([np.bincount(group, onehot[:, k]) for k in range(proba.shape[1])], 1)
    mean /= np.bincount(group)[:, None]
    return float((np.abs(proba - mean[group]) ** p).sum(axis=1).mean() ** (1 / p))


@settings(max_examples=150, deadline=None)
@given(samples(), st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.sampled_from([1.0, 2.0, 4.0]))
def test_theorem_3_1_on_the_empirical_law(sample, p, q):
    y, proba = sample
    k = proba.shape[1]
    forecast = check_forecast(y, proba, caller="test")
    top = TopLabel().pairs(forecast)
    ce, ce_two = canonical(y, proba, p), canonical(y, proba, 2)
    tce, tce_one = by_score(top, p) ** (1 / p), by_score(top, 1)
    cwce = sum(by_score(pairs, p) for pairs in Classwise().groups(forecast)) ** (1 / p)
    rbs = metrics.root_brier_score(y, proba)
    assert calibration_error(y, proba) == pytest.approx(ce_two**2, abs=1e-12)
    assert np.sqrt(2) + SLACK >= rbs >= ce_two - SLACK
    assert ce >= cwce - SLACK
    assert ce >= tce - SLACK
    assert tce >= tce_one - SLACK
    assert tce_one >= metrics.kolmogorov_smirnov_error(y, proba) - SLACK
    assert tce_one >= metrics.expected_calibration_error(y, proba) - SLACK
    assert tce_one >= metrics.maximum_mean_calibration_error(y, proba) - SLACK  # kernel bounded by 1: c = 1
    small, large = min(p, q), max(p, q)
    assert k ** (1 / small - 1 / large) * canonical(y, proba, large) >= canonical(y, proba, small) - SLACK
    if p <= 2:
        assert k ** (1 / p - 1 / 2) * rbs >= ce - SLACK


@settings(max_examples=100, deadline=None)
@given(samples(), st.integers(1, 20), st.sampled_from(["width", "mass"]))
def test_what_a_sample_promises_for_any_bins(sample, n_bins, bins):
    y, proba = sample
    rbs = metrics.root_brier_score(y, proba)
    tce = [
        metrics.top_label_calibration_error(y, proba, norm=p, n_bins=n_bins, bins=bins) for p in (1, 1.5, 2, 4, np.inf)
    ]
    assert all(low <= high + SLACK for low, high in itertools.pairwise(tce))
    assert rbs >= tce[2] - SLACK
    assert rbs >= metrics.classwise_calibration_error(y, proba, norm=2, n_bins=n_bins, bins=bins) - SLACK
    gap = abs(metrics.accuracy(y, proba) - metrics.mean_confidence(y, proba))
    assert gap <= metrics.kolmogorov_smirnov_error(y, proba) + SLACK
    assert gap <= metrics.expected_calibration_error(y, proba, n_bins=n_bins) + SLACK


@settings(max_examples=100, deadline=None)
@given(samples(), st.integers(1, 12), st.integers(2, 4), st.sampled_from([1.0, 2.0]))
def test_splitting_bins_never_lowers_the_error(sample, n_bins, parts, p):
    y, proba = sample
    for measure in (metrics.top_label_calibration_error, metrics.classwise_calibration_error):
        coarse = measure(y, proba, norm=p, n_bins=n_bins)
        fine = measure(y, proba, norm=p, n_bins=n_bins * parts)
        assert fine >= coarse - SLACK
