"""Isotonic calibrators: published rows, scikit-learn, size and edges."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calibrant.calibrators import IsotonicMulticlass, IsotonicOneVsRest
from calibrant.core.links import softmax
from calibrant.errors import InputError
from calibrant.metrics import (
    accuracy,
    brier_score,
    expected_calibration_error,
    kde_calibration_error,
    kolmogorov_smirnov_error,
)
from helpers import load_data


@pytest.fixture(scope="module")
def cifar():
    data = load_data("cifar10_resnet110")
    return {part: (data[f"logits_{part}"].astype(np.float64), data[f"labels_{part}"]) for part in ("cal", "test")}


def row(p, y):
    """ECE15%, KS %, KDE %, Brier, NLL with probabilities clipped at 1e-15, accuracy %."""
    truth = p[np.arange(len(p)), y]
    return (
        100 * expected_calibration_error(y, p),
        100 * kolmogorov_smirnov_error(y, p),
        100 * kde_calibration_error(y, p),
        brier_score(y, p),
        -np.log(np.clip(truth, 1e-15, 1)).mean(),
        100 * accuracy(y, p),
    )


@pytest.mark.parametrize(
    ("method", "temperature", "published"),
    [  # official-code facts, anchor table after recalibration (independent code, float64 softmax)
        (IsotonicMulticlass, 1.0, (1.380, 0.892, 1.318, 0.09851, 0.2300, 93.56)),
        (IsotonicOneVsRest, 1.0, (1.473, 0.926, 1.348, 0.09854, 0.2672, 93.64)),
        (IsotonicOneVsRest, 2.52450, (1.260, 0.937, 1.061, 0.09867, 0.2511, 93.41)),
    ],
    ids=["IRM", "IROvA", "IROvA-TS"],
)
def test_published_rows(cifar, method, temperature, published):
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    fitted = method().fit(softmax(logits / temperature), labels)
    got = row(fitted.predict_proba(softmax(new / temperature)), truth)
    np.testing.assert_allclose(got, published, atol=6e-4)
    np.testing.assert_allclose(got[3:5], published[3:5], atol=6e-5)


def test_composition_is_the_published_row(cifar):
    compose = pytest.importorskip("calibrant.calibrators.compose")
    temperature = pytest.importorskip("calibrant.calibrators.temperature")
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    chain = compose.Compose(temperature.TemperatureScaling(loss="brier"), IsotonicOneVsRest(), space="logit")
    got = row(chain.fit(logits, labels).predict_proba(new), truth)
    np.testing.assert_allclose(got, (1.260, 0.937, 1.061, 0.09867, 0.2511, 93.41), atol=2e-3)


def test_bare_fit_leaves_the_zeros_the_anchor_counts(cifar):
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    zeros = []
    for method in (IsotonicMulticlass, IsotonicOneVsRest):
        p = method(epsilon=0.0).fit(softmax(logits), labels).predict_proba(softmax(new))
        zeros.append(int((p[np.arange(len(p)), truth] == 0).sum()))
    assert zeros == [7, 22]


def test_one_vs_rest_equals_scikit_learn():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 4))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    p, new = softmax(2 * logits), softmax(2 * rng.normal(size=(300, 4)))
    weight = rng.integers(0, 3, 800).astype(float)
    expected = (
        np.stack(
            [
                IsotonicRegression(out_of_bounds="clip").fit(p[:, k], y == k, sample_weight=weight).predict(new[:, k])
                for k in range(4)
            ],
            axis=1,
        )
        + 1e-9 * new
    )
    got = IsotonicOneVsRest().fit(p, y, sample_weight=weight).predict_proba(new)
    np.testing.assert_allclose(got, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_multiclass_equals_scikit_learn_on_the_flattened_pairs(weighted, monkeypatch):
    monkeypatch.setattr("calibrant.calibrators.isotonic_multiclass.CHUNK", 1000)  # several chunks
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(700, 6)).round(1)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    p, new = softmax(2 * logits), softmax(2 * rng.normal(size=(300, 6)))
    weight = rng.integers(0, 3, 700).astype(float) if weighted else np.ones(700)
    flat = IsotonicRegression(out_of_bounds="clip").fit(p.ravel(), np.eye(6)[y].ravel(), np.repeat(weight, 6))
    expected = flat.predict(new.ravel()).reshape(new.shape) + 1e-9 * new
    fitted = IsotonicMulticlass().fit(p, y, sample_weight=weight if weighted else None)
    np.testing.assert_allclose(fitted.predict_proba(new), expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


def test_a_row_of_zeros_keeps_its_input():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.05, 0.95]])
    for epsilon in (0.0, 1e-9):
        fitted = IsotonicOneVsRest(epsilon=epsilon).fit([[0.1, 0.5, 0.4], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]], [2, 2, 2])
        np.testing.assert_allclose(fitted.predict_proba([[0.6, 0.4, 0.0]]), [[0.0, 0.0, 1.0]], atol=1e-8)
        absent = IsotonicMulticlass(epsilon=epsilon).fit(p, [1, 1, 0])
        np.testing.assert_allclose(absent.predict_proba([[0.5, 0.5]]), [[0.5, 0.5]])
    bare = IsotonicOneVsRest(epsilon=0.0)
    bare.fit(np.eye(3)[[0, 1, 2]], [1, 2, 0])
    np.testing.assert_allclose(bare.predict_proba([[1.0, 0.0, 0.0]]).sum(), 1.0)


def test_smooth_curve_by_hand():
    p, y = [0.1, 0.3, 0.6, 0.8], [0, 0, 1, 1]
    fitted = IsotonicOneVsRest(smooth=2.0, epsilon=0.0).fit(p, y)  # two stretches: (0 + 2·0.2)/4 and (2 + 2·0.7)/4
    np.testing.assert_allclose(
        fitted.predict_proba([0.0, 0.2, 0.45, 0.7, 1.0])[:, 1], [0.1, 0.1, 0.475, 0.85, 0.85], atol=1e-15
    )
    twice = IsotonicOneVsRest(smooth=2.0).fit([*p, *p], [*y, *y]).predict_proba(p)
    weighted = IsotonicOneVsRest(smooth=2.0).fit(p, y, sample_weight=[2.0] * 4).predict_proba(p)
    np.testing.assert_allclose(twice, weighted, atol=1e-12)
    with pytest.raises(InputError, match="smooth"):
        IsotonicOneVsRest(smooth=-1).fit(p, y)


def test_smoothing_mends_the_log_score_on_real_logits(cifar):
    (logits, labels), (new, truth) = cifar["cal"], cifar["test"]
    bare, smooth = (
        row(IsotonicOneVsRest(smooth=a).fit(softmax(logits), labels).predict_proba(softmax(new)), truth)
        for a in (0.0, 1.0)
    )
    assert smooth[4] < bare[4] - 0.03  # NLL: no class is called impossible any more
    assert smooth[0] < 2.0  # ECE %, 4.75 before


def test_order_is_kept_on_real_logits(cifar):
    (logits, labels), (new, _) = cifar["cal"], cifar["test"]
    p = softmax(new)
    q = IsotonicMulticlass().fit(softmax(logits), labels).predict_proba(p)
    order = np.argsort(p, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(q, order, axis=1), axis=1) >= -1e-15).all()
    np.testing.assert_array_equal(p.argmax(axis=1), q.argmax(axis=1))


@pytest.mark.parametrize("method", [IsotonicOneVsRest, IsotonicMulticlass])
def test_options_are_checked(method):
    with pytest.raises(InputError, match="epsilon"):
        method(epsilon=-1.0).fit([0.2, 0.8], [0, 1])


def test_many_classes_fit_without_an_array_of_pairs():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(3000, 1000), scale=2.0).astype(np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = IsotonicMulticlass(space="logit").fit(1.5 * logits, y)
    q = fitted.predict_proba(1.5 * logits[:200])
    assert abs(q.sum(axis=1) - 1).max() < 1e-12
    assert len(fitted.thresholds_) < 2000
