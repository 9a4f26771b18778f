"""Pooling adjacent violators: against scikit-learn, against repetition, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calibrant.core.pav import isotonic_fit, isotonic_hits, isotonic_knots, pav


@pytest.mark.parametrize("decimals", [None, 2, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(decimals, weighted):
    rng = np.random.default_rng(5)
    score = rng.random(3000)
    score = score if decimals is None else score.round(decimals)
    outcome = (rng.random(3000) < score**2).astype(np.int64)
    weight = rng.integers(0, 4, 3000).astype(float) if weighted else None
    thresholds, values = isotonic_fit(score, outcome, weight)
    reference = IsotonicRegression(out_of_bounds="clip").fit(score, outcome, sample_weight=weight)
    np.testing.assert_array_equal(thresholds, reference.X_thresholds_)
    np.testing.assert_allclose(values, reference.y_thresholds_, atol=1e-14)


def test_real_outcomes_and_scores_outside_the_unit_interval():
    rng = np.random.default_rng(6)
    score, outcome = rng.normal(size=500).round(1), rng.normal(size=500)
    thresholds, values = isotonic_fit(score, outcome)
    reference = IsotonicRegression(out_of_bounds="clip").fit(score, outcome)
    np.testing.assert_allclose(np.interp(score, thresholds, values), reference.predict(score), atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_packed_sort_equals_the_general_way(kind):
    rng = np.random.default_rng(7)
    score = np.concatenate([rng.random(2000), np.zeros(50), -np.zeros(50), np.ones(50), [5e-324, 1e-45]]).astype(kind)
    hit = rng.random(len(score)) < score
    packed = isotonic_fit(score, hit)
    general = isotonic_fit(score, hit, np.ones(len(score)))
    for got, expected in zip(packed, general, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_equal_the_whole(weighted):
    rng = np.random.default_rng(8)
    score = rng.random(999).round(2)
    hit = rng.random(999) < score
    weight = rng.integers(1, 4, 999).astype(float) if weighted else None

    def block(rows):
        return score[rows].copy(), None if weight is None else weight[rows]

    chunks = [slice(i, i + 100) for i in range(0, 999, 100)]
    pieces = isotonic_hits(chunks, block, score[hit], None if weight is None else weight[hit])
    got = isotonic_knots(pieces)
    expected = isotonic_fit(score, hit, weight)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_edges():
    for outcome, value in ((0, 0.0), (1, 1.0)):
        thresholds, values = isotonic_fit(np.array([0.2, 0.9, 0.5]), np.full(3, outcome))
        np.testing.assert_array_equal(thresholds, [0.2, 0.9])
        np.testing.assert_array_equal(values, [value, value])
    thresholds, values = isotonic_fit(np.full(4, 0.3), np.array([0, 1, 1, 1]))
    assert thresholds.tolist() == [0.3]
    assert values.tolist() == [0.75]
    no_hits = isotonic_hits([slice(0, 2)], lambda rows: (np.array([0.2, 0.1])[rows], None), np.empty(0))
    assert isotonic_knots(no_hits)[1].tolist() == [0.0, 0.0]


def test_weight_zero_takes_the_value_before():
    fitted = pav(np.array([9.0, 0.0, 7.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, 1.0, 1.0]))
    np.testing.assert_array_equal(fitted, [0.0, 0.0, 0.0, 0.5, 0.5])
    assert np.isnan(pav(np.ones(2), np.zeros(2))).all()
    assert len(pav(np.empty(0), np.empty(0))) == 0
