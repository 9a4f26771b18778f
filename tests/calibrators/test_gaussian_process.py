"""Gaussian-process calibration: bound, determinism and quality."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators import GaussianProcessCalibration, TemperatureScaling
from calibrant.calibrators.gaussian_process import kernel_features, whitening
from calibrant.core.links import log_softmax
from calibrant.errors import InputError
from helpers import load_data


def nll(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def simulate(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    truth = log_softmax(2.0 * rng.normal(size=(n, k)))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return truth + 0.8 * np.sin(2 * truth), labels


def test_features_reproduce_the_kernel_at_the_inducing_points():
    points = np.array([-6.0, -3.0, -1.5, -0.2])
    phi = kernel_features(points, points, 1.0, whitening(points, 1.0))
    gap = points[:, None] - points
    np.testing.assert_allclose(phi @ phi.T, np.exp(-0.5 * gap * gap), atol=1e-6)


def test_bends_where_temperature_cannot_and_repeats_itself():
    rng = np.random.default_rng(0)
    (z, y), (new, truth) = simulate(rng, 2000, 5), simulate(rng, 4000, 5)
    fitted = GaussianProcessCalibration(space="logit").fit(z, y)
    again = GaussianProcessCalibration(space="logit").fit(z, y)
    np.testing.assert_array_equal(fitted.predict_proba(new), again.predict_proba(new))
    straight = nll(TemperatureScaling(space="logit").fit(z, y).predict_proba(new), truth)
    assert nll(fitted.predict_proba(new), truth) < straight - 0.003
    assert fitted.variance_ > 0


def test_few_rows_fall_back_to_the_prior_mean():
    z, y = simulate(np.random.default_rng(1), 12, 3)
    fitted = GaussianProcessCalibration(space="logit").fit(z, y)
    assert np.isfinite(fitted.evidence_)
    assert np.sqrt(np.trace(fitted.covariance_)) < 10


def test_limits_are_stated():
    with pytest.raises(InputError, match="at most 100 classes"):
        GaussianProcessCalibration().fit(np.full((5, 101), 1 / 101), np.arange(5))
    with pytest.raises(InputError, match=r"n_inducing of GaussianProcessCalibration.fit must be a whole number"):
        GaussianProcessCalibration(n_inducing=2).fit([[0.4, 0.6], [0.7, 0.3]], [1, 0])


def test_real_logits_better_than_temperature():
    data = load_data("cifar10_resnet110")
    fitted = GaussianProcessCalibration(space="logit").fit(data["logits_cal"], data["labels_cal"])
    assert nll(fitted.predict_proba(data["logits_test"]), data["labels_test"]) < 0.2084  # temperature: 0.2093
