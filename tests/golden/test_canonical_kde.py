"""Dirichlet-kernel canonical error: the definition, exact corners, weights, known truths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import dirichlet

from calibrant.core.links import softmax
from calibrant.datasets import dirichlet_temperature, hidden_miscalibration
from calibrant.errors import InputError, UndefinedWarning
from calibrant.metrics import _canonical_kde as module
from calibrant.metrics import canonical_kde_calibration_error as ce_kde
from helpers import load_data


def definition(y, p, h, norm):
    """Row by row with SciPy's density; rows strictly inside the simplex."""
    n, k = p.shape
    total = 0.0
    for j in range(n):
        others = np.delete(np.arange(n), j)
        log_k = np.array([dirichlet.logpdf(p[j], p[i] / h + 1) for i in others])
        weight = np.exp(log_k - log_k.max())
        ratio = np.bincount(y[others], weight, k) / weight.sum()
        total += (np.abs(ratio - p[j]) ** norm).sum()
    return total / n


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("norm", [1, 2, 3.5])
def test_equals_the_definition(k, norm):
    rng = np.random.default_rng(k)
    p, y = rng.dirichlet([0.8] * k, 60), rng.integers(0, k, 60)
    p = (p + 1e-6) / (1 + k * 1e-6)
    for h in (1e-3, 0.05, 0.8):
        value = ce_kde(y, p, norm=norm, bandwidth=h, root=False)
        assert value == pytest.approx(definition(y, p, h, norm), rel=1e-9)
        assert ce_kde(y, p, norm=norm, bandwidth=h) == pytest.approx(value ** (1 / norm), rel=1e-12)


def test_two_columns_count_twice_like_one():
    rng = np.random.default_rng(0)
    p = rng.random(50)
    y = (rng.random(50) < p).astype(int)
    assert ce_kde(y, p, bandwidth=0.05) == ce_kde(y, np.stack([1 - p, p], 1), bandwidth=0.05)


@pytest.mark.parametrize("rule", ["likelihood", "published"])
def test_weights_are_repetitions(rule):
    rng = np.random.default_rng(3)
    p, y, w = rng.dirichlet([0.7] * 3, 80), rng.integers(0, 3, 80), rng.integers(0, 4, 80)
    rows = np.repeat(np.arange(80), w)
    for bandwidth in (0.02, rule):
        weighted = ce_kde(y, p, bandwidth=bandwidth, sample_weight=w)
        assert weighted == pytest.approx(ce_kde(y[rows], p[rows], bandwidth=bandwidth), rel=1e-10)
    with pytest.raises(InputError, match="whole"):
        ce_kde(y, p, sample_weight=w + 0.5)


def test_corners_many_classes_and_absent_classes_give_numbers():
    rng = np.random.default_rng(5)
    hard = np.eye(3)[rng.integers(0, 3, 90)]
    for h in ("likelihood", "published", 1e-5, 1.0):
        assert 0 <= ce_kde(rng.integers(0, 2, 90), hard, bandwidth=h) <= 2
    wide = softmax(20 * rng.standard_normal((120, 100)))
    assert np.isfinite(ce_kde(rng.integers(0, 5, 120), wide))
    mixed = np.concatenate([hard, rng.dirichlet([1.0] * 3, 90)])
    assert np.isfinite(ce_kde(rng.integers(0, 3, 180), mixed))


def test_hard_forecasts_are_compared_with_their_own_frequencies():
    y = np.array([0] * 7 + [1] * 3 + [1] * 8 + [0] * 2)
    p = np.repeat(np.eye(2), 10, axis=0)
    left_out = np.array([(6 / 9)] * 7 + [7 / 9] * 3 + [7 / 9] * 8 + [8 / 9] * 2)
    assert ce_kde(y, p, norm=1, bandwidth=0.01) == pytest.approx(2 * np.mean(1 - left_out), rel=1e-9)


@pytest.mark.parametrize("rule", ["likelihood", "published"])
def test_the_search_always_returns_a_bandwidth_of_the_grid(rule):
    rng = np.random.default_rng(6)
    flat = np.full((30, 4), 0.25)
    spread = rng.dirichlet([30.0] * 4, 30)
    singles = np.arange(4).repeat([27, 1, 1, 1])  # classes seen once: their left-out frequency is 0 for every bandwidth
    for p in (flat, spread, np.eye(4)[rng.integers(0, 4, 30)]):
        kernels = module.DirichletKernels(p, singles, None)
        assert module.choose_bandwidth(kernels, rule) in module.GRID


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_converges_to_the_truth_of_dirichlet_models(temperature):
    off = []
    for n in (150, 1200):
        samples = [dirichlet_temperature(n, n_classes=3, temperature=temperature, rng=seed) for seed in (11, 12, 13)]
        off.append(np.mean([abs(ce_kde(data.y_true, data.y_proba) - data.errors["ce2"]) for data in samples]))
    assert off[1] < 0.07
    assert off[1] < 0.75 * off[0]


def test_sees_what_weak_errors_miss():
    data = hidden_miscalibration(1500, n_classes=4, alpha=0.7, rng=0)
    assert ce_kde(data.y_true, data.y_proba) == pytest.approx(data.errors["ce2"], abs=0.03)


def test_published_rule_overstates_what_labels_know():
    data = dirichlet_temperature(1000, n_classes=8, concentration=0.2, rng=1)  # calibrated: the truth is 0
    ours = ce_kde(data.y_true, data.y_proba)
    assert ours < 0.12
    assert ce_kde(data.y_true, data.y_proba, bandwidth="published") > 3 * ours


def test_real_data_and_ties_of_float32():
    data = load_data("cifar10_resnet110")
    p, y = softmax(data["logits_test"][:1000]), data["labels_test"][:1000]
    value = ce_kde(y, p)
    assert 0.02 < value < 0.33  # below the root Brier score
    assert ce_kde(y, p.astype(np.float32)) == pytest.approx(value, abs=1e-3)


def test_edges_and_mistakes():
    with pytest.warns(UndefinedWarning):
        assert np.isnan(ce_kde([0], [[0.3, 0.7]]))
    for mistake in ({"bandwidth": 0.0}, {"bandwidth": "scott"}, {"norm": 0.5}, {"norm": np.inf}):
        with pytest.raises(InputError):
            ce_kde([0, 1], [0.2, 0.6], **mistake)
