"""Venn–Abers against brute force, against the reference package, and its guarantee."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from calibrant.calibrators import VennAbers


def isotonic_value(scores, outcomes, weights, at, label):
    """Value at `at` of the isotonic fit to the rows and (at, label)."""
    s, t, w = np.append(scores, at), np.append(outcomes, label), np.append(weights, 1.0)
    distinct, inverse = np.unique(s, return_inverse=True)
    mass = np.bincount(inverse, w)
    fitted = isotonic_regression(np.bincount(inverse, w * t) / mass, weights=mass).x
    return fitted[np.searchsorted(distinct, at)]


@pytest.mark.parametrize("seed", range(30))
def test_equals_two_isotonic_fits_per_query(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    s = rng.integers(0, 12, n) / 12 if seed % 2 else rng.random(n)
    y = (rng.random(n) < s).astype(int)
    w = rng.integers(1, 4, n).astype(float) if seed % 3 == 0 else np.ones(n)
    query = np.concatenate([rng.random(5), s[:5], [0.0, 1.0]])
    lower, upper = VennAbers().fit(s, y, sample_weight=w).predict_interval(query)
    for i, at in enumerate(query):
        assert lower[i, 1] == pytest.approx(isotonic_value(s, y, w, at, 0), abs=1e-12)
        assert upper[i, 1] == pytest.approx(isotonic_value(s, y, w, at, 1), abs=1e-12)


def test_golden_values_of_the_reference_package():
    # venn-abers 1.5.4: c = VennAbers(); c.fit(np.c_[1-s, s], y); p, p0p1 = c.predict_proba(np.c_[1-q, q])
    rng = np.random.default_rng(0)
    s = np.round(rng.random(40), 2)
    y = (rng.random(40) < s**2).astype(int)
    query = np.array([0.0, 0.03, 0.215, 0.4, 0.505, 0.66, 0.8, 0.935, 1.0])
    cal = VennAbers().fit(s, y)
    lower, upper = cal.predict_interval(query)
    np.testing.assert_allclose(
        cal.predict_proba(query)[:, 1],
        [0.0625, 0.07142857, 0.125, 0.31428571, 0.37931034, 0.45454545, 0.45454545, 0.63636364, 0.8],
        atol=5e-9,
    )
    np.testing.assert_allclose(lower[:, 1], [0, 0, 0, 0, 0.25, 0.42857143, 0.42857143, 0.42857143, 0.75], atol=5e-9)
    np.testing.assert_allclose(
        upper[:, 1],
        [0.06666667, 0.07692308, 0.14285714, 0.45833333, 0.45833333, 0.47619048, 0.47619048, 1.0, 1.0],
        atol=5e-9,
    )


def test_interval_is_ordered_and_holds_the_probability():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(4), 300)
    y = np.array([rng.choice(4, p=row) for row in p])
    cal = VennAbers().fit(p, y)
    lower, upper = cal.predict_interval(rng.dirichlet(np.ones(4), 200))
    assert (lower <= upper).all()
    binary = VennAbers().fit(p[:, 0], y == 0)
    low, high = binary.predict_interval(p[:, 0])
    q = binary.predict_proba(p[:, 0])
    assert ((low <= q + 1e-12) & (q <= high + 1e-12)).all()
    np.testing.assert_allclose(low[:, 0], 1 - high[:, 1])


def test_one_of_the_two_is_calibrated_over_calibration_sets():
    rng = np.random.default_rng(2)
    chosen, truth = [], []
    for _ in range(1500):
        s = rng.random(40)
        y = rng.random(40) < s**2
        lower, upper = VennAbers().fit(s[:30], y[:30]).predict_interval(s[30:])
        chosen.append(np.where(y[30:], upper[:, 1], lower[:, 1]))  # the selector of the guarantee
        truth.append(y[30:])
    p, y = np.concatenate(chosen), np.concatenate(truth)
    cell = np.digitize(p, [0.1, 0.25, 0.4, 0.6, 0.8])
    gap = [p[cell == c].mean() - y[cell == c].mean() for c in range(6)]
    assert np.abs(gap).max() < 0.035


@pytest.mark.parametrize("space", ["proba", "logit"])
def test_the_exported_steps_are_the_same_curve_at_and_between_scores(space):
    rng = np.random.default_rng(4)
    s = np.round(rng.uniform(size=300), 2)
    cal = VennAbers(space=space).fit(s, rng.random(300) < s**2)
    query = np.concatenate([s, rng.uniform(-0.5 if space == "logit" else 0.0, 1.0, 200)])
    scores = np.stack([np.zeros(500) if space == "logit" else 1 - query, query], axis=1)
    program, (lower, upper) = cal.program(), cal.predict_interval(query)
    assert np.allclose(program.run(scores)[:, 1], (upper / (1 - lower + upper))[:, 1], rtol=0, atol=1e-12)
    assert sum(array.size for step in program.steps for array in step.arrays) < 2 * len(cal.scores_[0])  # steps alone


def test_many_logits_are_not_exported():
    rng = np.random.default_rng(5)
    assert not VennAbers(space="logit").fit(rng.normal(size=(60, 3)), rng.integers(3, size=60)).can_export
