"""Calibration error, upper bound and decomposition of proper scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.core.links import softmax
from calibrant.datasets import dirichlet_temperature
from calibrant.errors import CalibrantWarning, InputError
from calibrant.scores import ProperScore, calibration_error, decomposition, mean_score, upper_bound
from calibrant.views import Classwise

NAMES = ("brier", "nll", "spherical", "rps")


class Sharpen:
    """A recalibrator with one parameter, found by the log score on a grid."""

    def fit(self, X, y, sample_weight=None):
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        log_p = np.log(np.maximum(X, 1e-300))
        losses = [np.average(-np.log(softmax(t * log_p)[np.arange(len(y)), y]), weights=w) for t in self.grid]
        self.power_ = self.grid[int(np.argmin(losses))]
        return self

    def predict_proba(self, X):
        return softmax(self.power_ * np.log(np.maximum(X, 1e-300)))

    grid = np.linspace(0.2, 2.0, 19)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(NAMES), st.sampled_from(["top-1", "class-1", "within-2", "classwise"]))
def test_parts_add_up_and_isotonic_parts_are_not_negative(seed, score, view):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 60)), 3
    p = np.round(rng.dirichlet([1.0] * k, n), 1) + 0.01
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, k, n)
    w = rng.integers(0, 3, n) + (np.arange(n) == 0) if seed % 2 else None
    parts = decomposition(y, p, score=score, view=view, sample_weight=w)
    assert parts.score == pytest.approx(parts.entropy + parts.calibration - parts.sharpness, abs=1e-12)
    assert parts.calibration >= -1e-12
    assert parts.sharpness >= -1e-12


@pytest.mark.parametrize("score", NAMES)
def test_two_classes_are_decomposed_by_isotonic_regression(score):
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = (rng.random(300) < p**2).astype(int)
    parts = decomposition(y, p, score=score)
    assert parts.score == pytest.approx(mean_score(y, p, score=score), abs=1e-14)
    assert parts.calibration > 0.01
    share = 0.5 if score == "brier" else 1.0  # one column of two
    assert share * parts.calibration == pytest.approx(decomposition(y, p, score=score, view="class-1").calibration)
    w = rng.integers(0, 4, 300)
    rows = np.repeat(np.arange(300), w)
    repeated = decomposition(y[rows], p[rows], score=score)
    assert decomposition(y, p, score=score, sample_weight=w).to_dict() == pytest.approx(repeated.to_dict(), abs=1e-12)


def test_corp_by_hand():
    # scores 0.1 0.4 0.6 0.9 with outcomes 0 1 0 1: PAV gives 0, ½, ½, 1
    parts = decomposition([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9])
    assert parts.score == pytest.approx(2 * (0.01 + 0.36 + 0.36 + 0.01) / 4)
    assert parts.entropy == pytest.approx(0.5)
    assert parts.sharpness == pytest.approx(0.5 - 2 * (0.25 + 0.25) / 4)


def test_classwise_sum_and_mean_and_refusals():
    rng = np.random.default_rng(1)
    p, y = rng.dirichlet([1.0] * 4, 80), rng.integers(0, 4, 80)
    mean, total = (decomposition(y, p, view=Classwise(reduce=how)) for how in ("mean", "sum"))
    assert total.score == pytest.approx(4 * mean.score)
    assert total.score == pytest.approx(metrics.brier_score(y, p), abs=1e-14)
    top = decomposition(y, p, view="top-1")
    assert top.score == pytest.approx(metrics.brier_score(y, p, view="top-1"), abs=1e-14)
    for mistake in ({}, {"view": "entropy"}, {"view": Classwise(reduce="max")}, {"recalibrator": object()}):
        with pytest.raises(InputError):
            decomposition(y, p, **mistake)


def test_plug_in_is_exact_for_finite_forecasts_and_says_when_it_is_not():
    rng = np.random.default_rng(2)
    forecasts, truths = rng.dirichlet([2.0] * 3, 5), rng.dirichlet([2.0] * 3, 5)
    which = np.repeat(np.arange(5), 3)
    y, w = np.tile(np.arange(3), 5), (truths / 5).ravel()
    for name in NAMES:
        exact = np.mean(_score(name).divergence(forecasts, truths))
        assert calibration_error(y, forecasts[which], score=name, sample_weight=w) == pytest.approx(exact, abs=1e-14)
    with pytest.warns(CalibrantWarning, match="distinct"):
        calibration_error(rng.integers(0, 3, 20), rng.dirichlet([1.0] * 3, 20))


def _score(name):
    from calibrant.scores import as_score

    return as_score(name, "test")


@pytest.mark.parametrize("score", ["brier", "nll"])
def test_cross_fitted_error_is_a_lower_bound_that_finds_the_error(score):
    data = dirichlet_temperature(6000, n_classes=3, temperature=0.5, rng=0)  # forecasts are truths squared
    value = calibration_error(data.y_true, data.y_proba, score=score, recalibrator=Sharpen(), rng=0)
    true = float(np.mean(_score(score).divergence(data.y_proba, data.truth)))
    assert 0.85 * true < value < 1.15 * true
    again = calibration_error(data.y_true, data.y_proba, score=score, recalibrator=Sharpen(), rng=0)
    assert value == again
    calm = dirichlet_temperature(6000, n_classes=3, rng=0)
    assert abs(calibration_error(calm.y_true, calm.y_proba, score=score, recalibrator=Sharpen(), rng=0)) < 0.01
    assert value <= upper_bound(data.y_true, data.y_proba, score=score)
    parts = decomposition(data.y_true, data.y_proba, score=score, recalibrator=Sharpen(), rng=0)
    assert parts.calibration == pytest.approx(value, abs=1e-12)
    assert parts.score == pytest.approx(parts.entropy + parts.calibration - parts.sharpness, abs=1e-12)


def test_upper_bound_of_brier_is_brier_and_its_root_rbs():
    rng = np.random.default_rng(3)
    p, y, w = rng.dirichlet([1.0] * 4, 60), rng.integers(0, 4, 60), rng.random(60)
    assert upper_bound(y, p, sample_weight=w) == pytest.approx(metrics.brier_score(y, p, sample_weight=w), abs=1e-14)
    assert upper_bound(y, p, root=True) == pytest.approx(metrics.root_brier_score(y, p), abs=1e-14)
    assert upper_bound(y, p, score="spherical") == pytest.approx(1 + metrics.spherical_score(y, p), abs=1e-14)
    bottomless = ProperScore.from_function("dss-like", lambda p, y: np.log(np.maximum(1 - p.max(1), 0)))
    with np.errstate(divide="ignore"), pytest.raises(InputError, match="finite inf"):
        upper_bound(y, p, score=bottomless)


def test_recalibrators_that_cannot_serve_are_refused():
    rng = np.random.default_rng(4)
    p, y = rng.dirichlet([1.0] * 3, 30), rng.integers(0, 3, 30)

    class Narrow(Sharpen):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, :2]

    for mistake in ({"recalibrator": Narrow()}, {"recalibrator": Sharpen(), "cv": 1}, {"recalibrator": "platt"}):
        with pytest.raises(InputError):
            calibration_error(y, p, **mistake)
