"""Simulated data: weak errors vanish where the paper says so, true errors agree with the definitions."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import datasets, metrics, scores
from calibrant.errors import InputError


def canonical(data, score="brier"):
    return scores.calibration_error(data.y_true, data.y_proba, score=score, sample_weight=data.sample_weight)


def weak_errors(data, **kwargs):
    y, p, w = data.y_true, data.y_proba, data.sample_weight
    yield "ece", metrics.expected_calibration_error(y, p, sample_weight=w)
    yield "ks", metrics.kolmogorov_smirnov_error(y, p, sample_weight=w)
    yield "mmce", metrics.maximum_mean_calibration_error(y, p, sample_weight=w)
    yield "tce1", metrics.top_label_calibration_error(y, p, norm=1, sample_weight=w)
    yield "tce2", metrics.top_label_calibration_error(y, p, norm=2, sample_weight=w)
    yield "cwce1", metrics.classwise_calibration_error(y, p, norm=1, sample_weight=w)
    yield "cwce2", metrics.classwise_calibration_error(y, p, norm=2, sample_weight=w)


@pytest.mark.parametrize("n_classes", [3, 5, 12])
@pytest.mark.parametrize("alpha", [0.55, 0.7, 0.9])
def test_proposition_3_2(n_classes, alpha):
    data = datasets.hidden_miscalibration(n_classes=n_classes, alpha=alpha)
    assert data.errors["ce2"] == pytest.approx(np.sqrt(1 - 1 / (n_classes - 1)) * (1 - alpha), rel=1e-14)
    assert canonical(data) == pytest.approx(data.errors["ce2"] ** 2, rel=1e-12)
    for name, value in weak_errors(data):
        assert value == pytest.approx(data.errors[name], abs=1e-7), name


def test_proposition_d_2():
    data = datasets.accuracy_replaced(n_classes=5, accuracy=0.7, spread=0.15)
    assert canonical(data) == pytest.approx(data.errors["ce2"] ** 2, rel=1e-12)
    for name, value in weak_errors(data):
        if name in data.errors:
            assert value == pytest.approx(0.0, abs=1e-7), name
    accuracy = metrics.accuracy(data.y_true, data.y_proba, sample_weight=data.sample_weight)
    before = metrics.accuracy(data.y_true, data.before, sample_weight=data.sample_weight)
    assert accuracy == before == pytest.approx(0.7)
    brier = metrics.root_brier_score(data.y_true, data.y_proba, sample_weight=data.sample_weight)
    assert brier > data.errors["ce2"] > 0.1


@pytest.mark.parametrize("score", ["brier", "nll", "spherical"])
def test_appendix_e_calibrated_by_forgetting_loses_sharpness(score):
    data = datasets.collapsed(n_classes=4, share=0.3)
    assert canonical(data, score) == pytest.approx(0.0, abs=1e-12)
    parts = [
        scores.decomposition(data.y_true, p, score=score, recalibrator="plug-in", sample_weight=data.sample_weight)
        for p in (data.before, data.y_proba)
    ]
    assert parts[0].sharpness > parts[1].sharpness + 1e-3  # proposition E.2
    if score == "brier":
        assert parts[0].sharpness == pytest.approx(data.errors["sharpness_before"], rel=1e-12)
        assert parts[1].sharpness == pytest.approx(data.errors["sharpness_after"], rel=1e-12)


@pytest.mark.parametrize(
    ("beta", "one", "two"), [((0.5, -1.5), 0.074443, 0.00924516), ((0.2, -1.9), 0.023459, 0.000911696)]
)
def test_two_gaussians_truth_by_quadrature(beta, one, two):
    data = datasets.two_gaussians(200_000, beta0=beta[0], beta1=beta[1], rng=0)
    assert data.errors["class1_ce1"] == pytest.approx(one, abs=5e-7)
    assert data.errors["class1_ce2"] ** 2 == pytest.approx(two, rel=5e-6)
    assert np.abs(data.y_proba - data.truth[:, 1]).mean() == pytest.approx(one, rel=0.02)
    assert data.y_true.mean() == pytest.approx(data.truth[:, 1].mean(), abs=0.005)
    assert datasets.two_gaussians(5, beta0=0.0, beta1=-2.0).errors["ce2"] == 0.0


def test_dirichlet_family():
    mixed = datasets.dirichlet_temperature(50_000, n_classes=4, concentration=0.5, mixing=0.4, rng=0)
    gap = np.sqrt(((mixed.y_proba - mixed.truth) ** 2).sum(1).mean())
    assert gap == pytest.approx(mixed.errors["ce2"], rel=0.01)
    assert np.abs(mixed.y_proba - mixed.truth).sum(1).mean() == pytest.approx(mixed.errors["ce1"], rel=0.01)
    assert mixed.errors["ce2"] == pytest.approx(0.4 * np.sqrt((1 - 1 / 4) / 3), rel=1e-12)
    sharp = datasets.dirichlet_temperature(50_000, n_classes=3, temperature=0.5, rng=0)
    confident = sharp.y_proba.max(1).mean()
    right = (sharp.y_proba.argmax(1) == sharp.y_true).mean()
    assert confident > right + 0.05
    assert np.abs(sharp.y_proba - sharp.truth).sum(1).mean() == pytest.approx(sharp.errors["ce1"], rel=0.02)
    assert datasets.dirichlet_temperature(5, rng=0).errors == {"ce1": 0.0, "ce2": 0.0}


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: datasets.hidden_miscalibration(100, rng=seed),
        lambda seed: datasets.accuracy_replaced(100, rng=seed),
        lambda seed: datasets.collapsed(100, rng=seed),
        lambda seed: datasets.two_gaussians(100, rng=seed),
        lambda seed: datasets.dirichlet_temperature(100, rng=seed),
    ],
)
def test_seeds_repeat_and_samples_follow_their_law(make):
    one, two, other = make(1), make(1), make(2)
    assert np.array_equal(one.y_true, two.y_true)
    assert np.array_equal(one.y_proba, two.y_proba)
    assert not np.array_equal(one.y_true, other.y_true)
    assert one.name in str(one)
    assert one.n == 100


def test_mistakes():
    for call in (
        lambda: datasets.hidden_miscalibration(n_classes=2),
        lambda: datasets.hidden_miscalibration(alpha=0.4),
        lambda: datasets.accuracy_replaced(spread=0.5),
        lambda: datasets.two_gaussians(beta1=0),
        lambda: datasets.dirichlet_temperature(temperature=0),
        lambda: datasets.dirichlet_temperature(mixing=1),
    ):
        with pytest.raises(InputError):
            call()
