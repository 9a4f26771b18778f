"""Pooling adjacent violators carries a certificate of optimality; the isotonic maps keep what they promise."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant.calibrators import IsotonicMulticlass, SplineCalibration
from calibrant.core.pav import isotonic_fit, pav

values = st.floats(-5, 5).map(lambda v: round(v, 3))


@settings(deadline=None, max_examples=100)
@given(st.data(), st.integers(1, 30))
def test_pav_is_optimal(data, n):
    """KKT: residuals have non-negative prefix sums, zero in all and zero wherever the fit rises."""
    target = data.draw(arrays(np.float64, n, elements=values))
    weight = data.draw(arrays(np.float64, n, elements=st.integers(1, 9).map(float)))
    fitted = pav(target, weight)
    slack = np.cumsum(weight * (target - fitted))
    assert (np.diff(fitted) >= 0).all()
    assert (slack >= -1e-9).all()
    assert abs(slack[-1]) < 1e-9
    assert np.abs(slack[:-1][np.diff(fitted) > 1e-12]).max(initial=0.0) < 1e-9


@settings(deadline=None, max_examples=100)
@given(st.data(), st.integers(1, 40))
def test_isotonic_fit_is_calibrated_on_its_own_rows(data, n):
    """Every constant stretch holds the mean of its outcomes, whatever the ties."""
    score = data.draw(arrays(np.float64, n, elements=st.integers(0, 10).map(lambda v: v / 10)))
    outcome = data.draw(arrays(np.int64, n, elements=st.integers(0, 1)))
    fitted = np.interp(score, *isotonic_fit(score, outcome))
    for level in np.unique(fitted):
        assert abs(outcome[fitted == level].mean() - level) < 1e-12


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40))
def test_argmax_is_kept(seed, k, n):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.3), size=n)
    y = rng.integers(0, k, n)
    new = rng.dirichlet(np.full(k, 0.3), size=50)
    for method in (IsotonicMulticlass(), SplineCalibration(), SplineCalibration(target="all-ranks", monotone=True)):
        q = method.fit(p, y).predict_proba(new)
        assert (q[np.arange(50), new.argmax(axis=1)] >= q.max(axis=1)).all()
        assert np.abs(q.sum(axis=1) - 1).max() < 1e-12
        assert q.min() >= 0
