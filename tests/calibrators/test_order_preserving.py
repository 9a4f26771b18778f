"""The increasing function: its basis, its optimum, and what it gains on real logits."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators import OrderPreserving, TemperatureScaling, _increasing
from calibrant.calibrators._increasing import (
    LEAST_SLOPE,
    PRIOR_SCALE,
    CurveLikelihood,
    Increasing,
    common_slope,
    straight_slope,
)
from calibrant.calibrators._scores import check_scores
from calibrant.core.links import log_softmax, softmax
from helpers import load_data


def simulate(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose error differs between small and large probabilities."""
    truth = log_softmax(2.0 * rng.normal(size=(n, k)))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return truth - 0.2 * truth**2, labels


def nll(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def basis(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """The integrals of the hat functions from the first knot on, by quadrature: exact for pieces of straight lines."""
    hats = np.eye(len(knots))
    out = np.zeros((*u.shape, len(knots)))
    for low, high in zip(np.append(-np.inf, knots), np.append(knots, np.inf), strict=True):  # stretch by stretch
        inner = knots[0] if low == -np.inf else low
        end = np.clip(u, low, high)
        for j, hat in enumerate(hats):
            out[..., j] += (end - inner) * np.interp((end + inner) / 2, knots, hat) * ((u > low) | (low == -np.inf))
    return out


def test_function_is_its_basis_and_increases():
    knots, slopes = np.array([-4.0, -2.5, -1.0, -0.1]), np.array([0.3, 2.0, 1e-3, 1.0])
    u = np.linspace(-9, 0.5, 500)
    f = Increasing(knots, slopes)
    np.testing.assert_allclose(f(u), basis(u, knots) @ slopes, atol=1e-12)
    assert (np.diff(f(u)) > 0).all()
    np.testing.assert_allclose(np.gradient(f(knots[1] + np.array([-1e-6, 0, 1e-6])), 1e-6)[1], slopes[1], rtol=1e-5)
    np.testing.assert_allclose(Increasing(knots, np.full(4, 0.7))(u), 0.7 * (u + 4.0), atol=1e-12)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("biases", [False, True])
def test_gradient_and_hessian(biases, k, kept, monkeypatch):
    monkeypatch.setattr(_increasing, "KEPT_VALUES", 1 << 24 if kept else 0)
    rng = np.random.default_rng(0)
    z, y = simulate(rng, 40, k)
    scores = check_scores(z, space="logit", view="log", caller="test")
    knots = np.array([-5.0, -2.0, -0.5])
    weights = rng.random(40)
    likelihood = CurveLikelihood(scores, y, weights, knots, biases)
    bias = 0.3 * rng.normal(size=k if biases else 0)
    theta = np.concatenate([[0.5, 1.2, 0.9], bias])
    here = likelihood(theta)
    own = log_softmax(basis(log_softmax(z), knots) @ theta[:3] + (bias if biases else 0.0))
    assert here.loss == pytest.approx(-weights @ own[np.arange(40), y], rel=1e-12)
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-5
        up, down = likelihood(theta + step), likelihood(theta - step)
        assert here.gradient[i] == pytest.approx((up.loss - down.loss) / 2e-5, rel=1e-6, abs=1e-7)
        np.testing.assert_allclose(here.hessian[i], (up.gradient - down.gradient) / 2e-5, rtol=1e-5, atol=1e-6)


def test_global_optimum_against_an_independent_solver():
    from scipy.optimize import minimize

    rng = np.random.default_rng(1)
    z, y = simulate(rng, 400, 4)
    smoothness = 0.02
    fitted = OrderPreserving(space="logit", smoothness=smoothness).fit(z, y)
    u, knots = log_softmax(z), fitted.knots_
    phi = basis(u, knots)
    scores = check_scores(z, space="logit", view="log", caller="test")
    beta = common_slope(scores, y, np.ones(400))
    start = np.full(len(knots), beta)
    line = straight_slope(CurveLikelihood(scores, y, np.ones(400), knots)(start).hessian, len(knots))

    def objective(a: np.ndarray) -> float:
        bend = np.diff(a) ** 2 / np.diff(knots) / beta**2
        fit = -log_softmax(phi @ a)[np.arange(400), y].sum()
        return float(fit + smoothness * bend.sum() / 2 + (line @ a - 1) ** 2 / (2 * PRIOR_SCALE**2))

    bounds = [(LEAST_SLOPE * beta, None)] * len(knots)
    other = minimize(objective, start, bounds=bounds, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15})
    assert (fitted.slopes_ >= LEAST_SLOPE * beta * (1 - 1e-12)).all()
    assert objective(fitted.slopes_) <= other.fun + 1e-6
    assert objective(fitted.slopes_) == pytest.approx(other.fun, rel=1e-5)


def test_stiff_limit_is_a_straight_line():
    z, y = simulate(np.random.default_rng(2), 500, 5)
    stiff = OrderPreserving(space="logit", smoothness=1e9).fit(z, y)
    np.testing.assert_allclose(stiff.slopes_, stiff.slopes_[0], rtol=1e-5)
    temperature = TemperatureScaling(space="logit").fit(z, y)
    assert stiff.slopes_[0] == pytest.approx(1 / temperature.temperature_, rel=0.02)  # the prior is weak


def test_bends_where_temperature_cannot():
    rng = np.random.default_rng(3)
    (z, y), (new, truth) = simulate(rng, 3000, 6), simulate(rng, 6000, 6)
    bent = nll(OrderPreserving(space="logit").fit(z, y).predict_proba(new), truth)
    straight = nll(TemperatureScaling(space="logit").fit(z, y).predict_proba(new), truth)
    assert bent < straight - 0.001


def test_separable_rows_give_a_finite_map():
    z, _ = simulate(np.random.default_rng(4), 100, 3)
    fitted = OrderPreserving(space="logit").fit(z, z.argmax(axis=1))
    assert np.isfinite(fitted.slopes_).all()
    assert fitted.slopes_.max() < 10


def test_thousand_classes_keep_their_order():
    z, y = simulate(np.random.default_rng(5), 60, 1000)
    p = OrderPreserving(space="logit").fit(z, y).predict_proba(z)
    assert (np.diff(np.take_along_axis(p, np.argsort(z, axis=1), axis=1), axis=1) >= 0).all()


def test_real_logits_better_than_temperature_and_argmax_intact():
    data = load_data("cifar10_resnet110")
    cal = OrderPreserving(space="logit").fit(data["logits_cal"], data["labels_cal"])
    p = cal.predict_proba(data["logits_test"])
    y = data["labels_test"]
    assert nll(p, y) < 0.2082  # temperature scaling: 0.2093
    assert (p.argmax(axis=1) == y).mean() == pytest.approx(0.9356)
    assert (p.argmax(axis=1) == data["logits_test"].argmax(axis=1)).all()


def test_two_hundred_rows_do_not_harm():
    gains = []
    for name in ("cifar10_resnet110", "cifar10_resnet50_focal", "mnist_cnn", "rvlcdip_dit_first"):
        data = load_data(name)
        if "logits_cal" in data:
            z, y, new, truth = (data[k] for k in ("logits_cal", "labels_cal", "logits_test", "labels_test"))
        else:
            order = np.random.default_rng(0).permutation(len(data["labels_test"]))
            z, y = data["logits_test"][order[:5000]], data["labels_test"][order[:5000]]
            new, truth = data["logits_test"][order[5000:]], data["labels_test"][order[5000:]]
        for seed in range(3):
            rows = np.random.default_rng(seed).permutation(len(y))[:200]
            before = nll(softmax(new), truth)
            gains.append(nll(OrderPreserving(space="logit").fit(z[rows], y[rows]).predict_proba(new), truth) - before)
    assert np.mean(gains) < -0.03
    assert max(gains) < 0.03
