"""Squared kernel calibration error: closed double sums, values of other libraries, weights, memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from calibrant.core.links import softmax
from calibrant.errors import InputError, UndefinedWarning
from calibrant.metrics import squared_kernel_calibration_error as skce
from helpers import load_data

KERNELS = ("exponential", "gaussian", "total-variation")


def double_sum(y, p, kernel, gamma, w=None, unbiased=True):
    """The definition, as an n × n matrix."""
    r = p.astype(float).copy()
    r[np.arange(len(y)), y] -= 1
    d = p[:, None].astype(float) - p[None]
    tv, two = 0.5 * np.abs(d).sum(-1), np.sqrt((d**2).sum(-1))
    k = {
        "exponential": np.exp(-two / gamma),
        "gaussian": np.exp(-(two**2) / (2 * gamma**2)),
        "total-variation": np.exp(-tv / gamma),
    }[kernel]
    h = k * (r @ r.T)
    w = np.ones(len(y)) if w is None else w
    total = w @ h @ w
    if not unbiased:
        return total / w.sum() ** 2
    return (total - w @ np.diag(h)) / (w.sum() * (w.sum() - 1))


def hard_forecasts(n, k, seed=0):
    """Sharp rows, exact corners, exact and near duplicates."""
    rng = np.random.default_rng(seed)
    p = softmax(6 * rng.standard_normal((n, k)))
    p[3:8] = np.eye(k)[0]
    p[10:20] = p[9]
    near = np.abs(p[9] + 1e-11 * rng.standard_normal((10, k)))
    p[20:30] = near / near.sum(1, keepdims=True)
    return rng.integers(0, k, n), p


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("k", [2, 3, 10, 40])
def test_equals_the_closed_double_sum(kernel, k):
    y, p = hard_forecasts(700, k)
    for gamma in (0.05, 0.7):
        assert skce(y, p, kernel=kernel, gamma=gamma) == pytest.approx(double_sum(y, p, kernel, gamma), abs=1e-12)
        biased = skce(y, p, kernel=kernel, gamma=gamma, estimator="biased")
        assert biased == pytest.approx(double_sum(y, p, kernel, gamma, unbiased=False), abs=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("k", [2, 4])
def test_weights_are_repetitions(kernel, k):
    y, p = hard_forecasts(200, k, 1)
    w = np.random.default_rng(2).integers(0, 4, 200)
    rows = np.repeat(np.arange(200), w)
    for estimator in ("unbiased", "biased", "block", "linear"):
        weighted = skce(y, p, kernel=kernel, estimator=estimator, sample_weight=w)
        assert weighted == pytest.approx(skce(y[rows], p[rows], kernel=kernel, estimator=estimator), abs=1e-12)
    direct = double_sum(y, p, kernel, 0.3, w.astype(float))
    assert skce(y, p, kernel=kernel, gamma=0.3, sample_weight=w) == pytest.approx(direct, abs=1e-12)


def test_only_the_biased_estimator_takes_fractional_weights():
    y, p = hard_forecasts(60, 3)
    w = np.random.default_rng(0).random(60)
    value = skce(y, p, gamma=0.4, estimator="biased", sample_weight=w)
    assert value == pytest.approx(double_sum(y, p, "exponential", 0.4, w, unbiased=False), abs=1e-12)
    with pytest.raises(InputError, match="whole"):
        skce(y, p, sample_weight=w)


# CalibrationErrors.jl, test/skce.jl: SqExponentialKernel() ⊗ WhiteKernel() on [1, 0], [0, 1]; its targets count from 1.
@pytest.mark.parametrize(
    ("labels", "unbiased", "biased"),
    [([0, 1], 0.0, 0.0), ([0, 0], 0.0, 0.5), ([1, 0], -2 * np.exp(-1), 1 - np.exp(-1)), ([1, 1], 0.0, 0.5)],
)
def test_values_of_the_julia_reference_tests(labels, unbiased, biased):
    p = np.eye(2)
    for times in (1, 10):
        y, rows = labels * times, np.tile(p, (times, 1))
        assert skce(y, rows, kernel="gaussian", gamma=1.0, estimator="linear") == pytest.approx(unbiased, abs=1e-15)
        value = skce(y, rows, kernel="gaussian", gamma=1.0, estimator="block", block_size=2)
        assert value == pytest.approx(unbiased, abs=1e-15)
    assert skce(labels, p, kernel="gaussian", gamma=1.0) == pytest.approx(unbiased, abs=1e-15)
    assert skce(labels, p, kernel="gaussian", gamma=1.0, estimator="biased") == pytest.approx(biased, abs=1e-15)
    # the same from one column: scaling by √2 on the line
    assert skce(labels, p[:, 1], kernel="gaussian", gamma=1.0) == pytest.approx(unbiased, abs=1e-15)


# probcal 0.4.0: probcal.metrics.kernel.skce(y, p, estimator=…, kernel=…, bandwidth=0.3); its distance is |p − q|,
# ours on two columns √2·|p − q|.
@pytest.mark.parametrize(
    ("kernel", "estimator", "value"),
    [
        ("exponential", "unbiased", -0.026294090049524932),
        ("exponential", "biased", 0.010703318955427556),
        ("gaussian", "unbiased", -0.03123131667096816),
        ("gaussian", "biased", 0.006259814996128654),
    ],
)
def test_values_of_probcal(kernel, estimator, value):
    p = np.array([0.05, 0.2, 0.2, 0.35, 0.5, 0.65, 0.7, 0.8, 0.9, 0.97])
    y = np.array([0, 0, 1, 0, 1, 1, 0, 1, 1, 1])
    ours = skce(y, p, kernel=kernel, estimator=estimator, gamma=0.3 * np.sqrt(2))
    assert ours == pytest.approx(value, rel=1e-12)


def test_block_is_the_mean_of_blocks_and_linear_the_blocks_of_two():
    y, p = hard_forecasts(103, 3)
    blocks = [skce(y[i : i + 10], p[i : i + 10], gamma=0.5) for i in range(0, 100, 10)]
    assert skce(y, p, gamma=0.5, estimator="block", block_size=10) == pytest.approx(np.mean(blocks), abs=1e-14)
    two = skce(y, p, gamma=0.5, estimator="block", block_size=2)
    assert skce(y, p, gamma=0.5, estimator="linear") == pytest.approx(two, abs=1e-14)
    assert skce(y, p, gamma=0.5, estimator="block", block_size=500) == pytest.approx(skce(y, p, gamma=0.5), abs=1e-14)


@pytest.mark.parametrize("n", [300, 3000])
def test_median_heuristic_knows_neither_row_nor_class_order(n):
    rng = np.random.default_rng(4)
    p, y = rng.dirichlet([0.5] * 4, n), rng.integers(0, 4, n)
    rows, columns = rng.permutation(n), rng.permutation(4)
    moved = skce(np.argsort(columns)[y[rows]], p[rows][:, columns])
    assert moved == pytest.approx(skce(y, p), rel=1e-9)


def test_no_square_matrix_in_memory():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet([0.5] * 5, 4000), rng.integers(0, 5, 4000)
    tracemalloc.start()
    skce(y, p, gamma=0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000**2 * 8 / 10


def test_calibrated_models_score_zero_in_the_mean_and_others_not():
    rng = np.random.default_rng(7)
    calibrated, sharpened = [], []
    for _ in range(200):
        q = rng.dirichlet([1.0] * 3, 40)
        y = (q.cumsum(1) < rng.random((40, 1))).sum(1)
        f = q**2 / (q**2).sum(1, keepdims=True)
        calibrated.append(skce(y, q, gamma=0.5))
        sharpened.append(skce(y, f, gamma=0.5))
    assert min(calibrated) < 0
    assert abs(np.mean(calibrated)) < 4 * np.std(calibrated) / np.sqrt(200)
    assert np.mean(sharpened) > 8 * np.std(sharpened) / np.sqrt(200)


def test_linear_and_block_handle_a_million_rows():
    rng = np.random.default_rng(0)
    p = rng.random(1_000_000, dtype=np.float32)
    y = (rng.random(1_000_000) < p).astype(int)
    assert abs(skce(y, p, estimator="linear")) < 3e-3
    assert abs(skce(y[:100_000], p[:100_000], estimator="block")) < 1e-3


def test_float32_close_to_float64_on_real_data():
    data = load_data("cifar10_resnet110")
    p, y = softmax(data["logits_test"][:2000]), data["labels_test"][:2000]
    assert skce(y, p.astype(np.float32)) == pytest.approx(skce(y, p), abs=1e-7)


def test_edges_and_mistakes():
    with pytest.warns(UndefinedWarning):
        assert np.isnan(skce([0], [[0.3, 0.7]]))
    assert skce([0, 1, 1], [[0.5, 0.5]] * 3) == pytest.approx(-0.5 / 3)  # equal forecasts: γ does not matter
    for mistake in ({"gamma": 0.0}, {"gamma": "mean"}, {"kernel": "laplace"}, {"estimator": "uq"}, {"block_size": 1}):
        with pytest.raises(InputError):
            skce([0, 1], [0.2, 0.6], **mistake)
