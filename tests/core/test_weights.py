"""Weights: counts or importance, safe sums, Kish's effective number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.weights import are_counts, effective_n, effective_weights, safe_weights, weight_kind

TINY, HUGE = 5e-324, 1e308


def test_whole_numbers_are_counts():
    assert are_counts(None)
    assert weight_kind(np.array([0.0, 3.0, 20.0])) == "frequency"
    assert weight_kind(np.array([0.5, 3.0])) == "importance"
    assert are_counts(np.full(20, 1e9))
    assert not are_counts(np.array([1e300, 1e300])), "no one counts 1e300 rows"
    assert not are_counts(np.full(20, HUGE))
    assert are_counts(np.array([2.0**52, 2.0**52]))
    assert not are_counts(np.array([2.0**53, 2.0]))


@pytest.mark.parametrize("scale", [TINY, 1e-300, 1e-200, 0.3, 1.0, 7.7, 1e200, HUGE])
def test_effective_n_does_not_know_the_scale(scale):
    assert effective_n(np.full(20, scale), 20) == 20
    weights = np.array([1.0, 2.0, 4.0]) if scale == TINY else np.array([0.25, 0.5, 1.0])
    assert effective_n(weights * scale, 3) == pytest.approx(49 / 21)


@pytest.mark.parametrize("scale", [1e-300, 0.3, 7.7, 1e200, HUGE])
def test_effective_weights_know_relative_sizes_alone(scale):
    weights = np.array([0.25, 0.5, 0.9])
    expected = effective_weights(weights, 3)
    assert expected.sum() == pytest.approx(effective_n(weights, 3))
    np.testing.assert_allclose(effective_weights(weights * scale, 3), expected, rtol=1e-14)
    np.testing.assert_allclose(effective_weights(expected, 3), expected, rtol=1e-14)


def test_ordinary_weights_are_left_alone():
    weights = np.array([0.5, 2.0])
    assert safe_weights(weights) is weights
    counts = np.array([3.0, 0.0])
    assert effective_weights(counts, 2) is counts
    np.testing.assert_array_equal(effective_weights(np.full(7, 1 / 7), 7), np.ones(7))
    np.testing.assert_array_equal(effective_weights(None, 2), np.ones(2))


def test_safe_weights_are_exact():
    weights = np.array([TINY, 3 * TINY])
    assert (safe_weights(weights) / safe_weights(weights)[0]).tolist() == [1.0, 3.0]
    assert np.isfinite((safe_weights(np.full(10, HUGE)) ** 2).sum())
