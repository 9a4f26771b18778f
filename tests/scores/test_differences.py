"""Improvement: paired differences, intervals that cover, exactness for one-to-one maps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant import metrics
from calibrant.core.links import softmax
from calibrant.datasets import dirichlet_temperature
from calibrant.errors import InputError
from calibrant.scores import KernelScore, calibration_gain, improvement


def sharpened(data, power):
    return softmax(power * np.log(np.maximum(data.y_proba, 1e-300)))


def test_change_is_the_difference_of_mean_scores_with_normal_theory():
    data = dirichlet_temperature(500, temperature=0.5, rng=0)
    after = sharpened(data, 0.5)
    gain = improvement(data.y_true, data.y_proba, after, injective=True)
    assert gain.name == "brier"
    assert gain.exact
    assert gain.before == pytest.approx(metrics.brier_score(data.y_true, data.y_proba), abs=1e-14)
    assert gain.after == pytest.approx(metrics.brier_score(data.y_true, after), abs=1e-14)
    assert gain.change == pytest.approx(gain.before - gain.after, abs=1e-15)
    onehot = np.eye(3)[data.y_true]
    rows = ((data.y_proba - onehot) ** 2).sum(1) - ((after - onehot) ** 2).sum(1)
    error = stats.sem(rows)
    assert gain.interval.low == pytest.approx(rows.mean() - stats.norm.ppf(0.975) * error, abs=1e-12)
    assert gain.pvalue == pytest.approx(2 * stats.norm.sf(abs(rows.mean()) / error), rel=1e-9)
    assert "improved" in str(gain)
    assert not improvement(data.y_true, data.y_proba, after).exact
    assert calibration_gain(data.y_true, data.y_proba, after).change == gain.change


@pytest.mark.parametrize("score", ["brier", "nll", "spherical", "rps"])
def test_equals_the_change_of_the_true_calibration_error_for_injective_maps(score):
    data = dirichlet_temperature(20_000, temperature=0.5, rng=1)
    after = sharpened(data, 0.7)  # injective, not perfect
    from calibrant.scores import as_score

    rule = as_score(score, "test")
    true = np.mean(rule.divergence(data.y_proba, data.truth) - rule.divergence(after, data.truth))
    gain = improvement(data.y_true, data.y_proba, after, score=score, injective=True)
    assert abs(gain.change - true) < 4 * (gain.interval.high - gain.change) / 1.96


def test_interval_covers():
    data, hits = dirichlet_temperature(300 * 300, concentration=0.6, mixing=0.3, rng=0), 0
    for start in range(0, 300 * 300, 300):
        rows = slice(start, start + 300)
        gain = improvement(data.y_true[rows], data.y_proba[rows], data.truth[rows])
        hits += data.errors["ce2"] ** 2 in gain.interval  # the truth's own error is 0
    assert 0.915 < hits / 300 < 0.985


def test_weights_are_repetitions_and_must_be_counts():
    rng = np.random.default_rng(2)
    a, b, y, w = rng.random(40), rng.random(40), rng.integers(0, 2, 40), rng.integers(0, 4, 40)
    rows = np.repeat(np.arange(40), w)
    weighted, repeated = improvement(y, a, b, sample_weight=w), improvement(y[rows], a[rows], b[rows])
    assert weighted.change == pytest.approx(repeated.change, abs=1e-14)
    assert weighted.pvalue == pytest.approx(repeated.pvalue, abs=1e-12)
    assert weighted.interval.n == len(rows)
    with pytest.raises(InputError, match="whole"):
        improvement(y, a, b, sample_weight=w + 0.5)


def test_edges():
    same = improvement([1, 0], [0.7, 0.2], [0.7, 0.2])
    assert same.change == 0
    assert same.pvalue == 1.0
    one = improvement([1], [0.7], [0.9])
    assert one.interval is None
    infinite = improvement([1, 0], [[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]], score="nll")
    assert np.isposinf(infinite.change)
    assert infinite.interval is None
    with pytest.raises(InputError):
        improvement([1, 0], [0.7, 0.2], [0.7, 0.2], level=1.0)


def test_kernel_score_is_the_u_score_of_skce():
    rng = np.random.default_rng(3)
    p, y = rng.dirichlet([1.0] * 3, 30), rng.integers(0, 3, 30)
    score = KernelScore("exponential", gamma=0.4)
    i, j = np.triu_indices(30, 1)
    assert score.score(p[i], p[j], y[i], y[j]).mean() == pytest.approx(score.mean(y, p), abs=1e-13)
    assert score.mean(y, p) == metrics.squared_kernel_calibration_error(y, p, gamma=0.4)
    assert KernelScore().mean(y, p) == metrics.squared_kernel_calibration_error(y, p)
    q = rng.dirichlet([1.0] * 3, 30)
    expected = sum(
        q[:, a] * q[::-1][:, b] * score.score(p, p[::-1], np.full(30, a), np.full(30, b))
        for a in range(3)
        for b in range(3)
    )
    assert score.expected_score(p, p[::-1], q, q[::-1]) == pytest.approx(expected, abs=1e-14)
    assert score.divergence(p, p[::-1], p, p[::-1]) == pytest.approx(np.zeros(30))
    assert not score.entropy(p, p).any()
    parts = score.decomposition(y, p)
    assert (parts.entropy, parts.sharpness, parts.calibration) == (0.0, 0.0, parts.score)
    with pytest.raises(InputError, match="number"):
        KernelScore().score(p, p, y, y)
