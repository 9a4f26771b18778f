"""Structured matrix scaling: its optimum, its shrinkage and its place on real predictions."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators import OrderPreserving, StructuredMatrixScaling
from calibrant.calibrators.structured_matrix import _exact_freedom, _factored_freedom, _spread, fit_structured
from calibrant.core.links import log_softmax
from calibrant.errors import InputError
from helpers import load_data


def simulate(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose true map has class biases and one exchange between classes."""
    z = 1.5 * rng.normal(size=(n, k))
    truth = z.copy()
    truth[:, 0] += 0.8
    truth[:, 1] += 0.5 * z[:, 2]
    return 2.0 * z, (truth + rng.gumbel(size=z.shape)).argmax(axis=1)


def nll(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def test_gradient_vanishes_at_the_optimum():
    z, y = simulate(np.random.default_rng(0), 600, 4)
    x, weights = log_softmax(z), np.random.default_rng(1).random(600)
    penalty = (3.0, 5.0, 20.0)
    weight, bias, precisions = fit_structured(x.copy(), y, weights, penalty)
    np.testing.assert_array_equal(precisions, penalty)
    mean = weights @ x / weights.sum()
    q = np.exp(log_softmax(x @ weight.T + bias))
    q[np.arange(600), y] -= 1
    q *= weights[:, None]
    off = weight - np.eye(4)
    shift = bias + off @ mean  # the penalized intercept belongs to centered scores
    ridge = _spread(np.array(penalty), 4, full=True)
    np.testing.assert_allclose(q.T @ (x - mean) + ridge[:, :4] * off, 0, atol=1e-4)
    np.testing.assert_allclose(q.sum(axis=0) + ridge[:, 4] * shift, 0, atol=1e-4)


def test_gains_what_an_increasing_function_cannot():
    rng = np.random.default_rng(2)
    (z, y), (new, truth) = simulate(rng, 3000, 5), simulate(rng, 6000, 5)
    full = nll(StructuredMatrixScaling(space="logit").fit(z, y).predict_proba(new), truth)
    assert full < nll(OrderPreserving(space="logit").fit(z, y).predict_proba(new), truth) - 0.03


def test_heavy_penalty_leaves_the_increasing_function():
    z, y = simulate(np.random.default_rng(3), 400, 4)
    fitted = StructuredMatrixScaling(space="logit", penalty=(1e9, 1e9, 1e9)).fit(z, y)
    np.testing.assert_allclose(fitted.weight_, np.eye(4), atol=1e-5)
    np.testing.assert_allclose(fitted.bias_, 0, atol=1e-5)
    p = fitted.predict_proba(z)
    assert (np.diff(np.take_along_axis(p, np.argsort(z, axis=1), axis=1), axis=1) >= -1e-6).all()


def test_fitted_precisions_can_be_passed_on():
    z, y = simulate(np.random.default_rng(4), 400, 4)
    first = StructuredMatrixScaling(space="logit").fit(z, y)
    again = StructuredMatrixScaling(space="logit", smoothness=first.smoothness_, penalty=tuple(first.precisions_))
    np.testing.assert_allclose(again.fit(z, y).predict_proba(z), first.predict_proba(z), atol=2e-3)


def test_factored_freedom_is_near_the_exact_one():
    from calibrant.calibrators._multinomial import Affine

    z, y = simulate(np.random.default_rng(5), 800, 6)
    x = log_softmax(z)
    x -= x.mean(axis=0)
    precisions = np.array([12.0, 12.0, 60.0])
    ridge = _spread(precisions, 6, full=True) / (2 * 800)
    center = np.concatenate([np.eye(6), np.zeros((6, 1))], axis=1)
    problem = Affine(x, y, np.ones(800), ridge, center)
    problem.evaluate(center)
    exact, factored = _exact_freedom(problem, precisions, 800.0), _factored_freedom(problem, precisions, 800.0)
    assert (exact > 0).all()
    np.testing.assert_allclose(factored[1:], exact[1:], rtol=0.25)
    assert factored[0] >= exact[0]  # the factored form does not know that diagonal and biases share rows


def test_blocks_of_classes_from_notable_rows_serve_as_those_of_all_rows(monkeypatch):
    from calibrant.calibrators import _multinomial

    rng = np.random.default_rng(7)
    k, n = 40, 2000
    x = log_softmax(1.2 * rng.normal(size=(n, 8)) @ rng.normal(size=(8, k)) + 0.5 * rng.normal(size=(n, k)))
    y = (x / 1.5 + rng.gumbel(size=x.shape)).argmax(axis=1)
    center = np.concatenate([np.eye(k), np.zeros((k, 1))], axis=1)
    problem = _multinomial.Affine(x, y, np.ones(n), np.full((k, k + 1), 1e-3), center)
    gradient, products = problem.evaluate(center)[1], {}
    today = _multinomial.NOTABLE
    for notable in (np.inf, today, 0.0):  # no row of its own, the notable ones, all of them
        monkeypatch.setattr(_multinomial, "NOTABLE", notable)
        problem._blocks, problem.products = None, _multinomial.MANY_PRODUCTS + 1
        solve = problem._preconditioner()
        products[notable] = _multinomial.conjugate_gradients(problem._product, solve, gradient, 1e-3)[1]
    assert products[today] <= 1.3 * products[0.0] < products[np.inf]


@pytest.mark.parametrize("kind", ["Affine", "Diagonal"])
def test_equal_shares_are_multiplied_once_with_the_same_sums(kind):
    from calibrant.calibrators import _multinomial

    z, y = simulate(np.random.default_rng(8), 3000, 40)
    x, k = log_softmax(z), 40
    center = np.concatenate([np.eye(k), np.zeros((k, 1))], axis=1) if kind == "Affine" else np.eye(2, 1) * np.ones(k)
    found = []
    for equal in (True, False):
        problem = getattr(_multinomial, kind)(x, y, np.full(3000, 2.0), np.full(center.shape, 1e-3), center)
        problem._softmax = None
        assert problem.unit == 1 / 3000
        problem.unit = problem.unit if equal else 0.0  # row by row
        value, gradient = problem.evaluate(center + 0.01)
        found.append((value, gradient, problem.q.sum(axis=1), problem._product(gradient)))
    for once, by_row, digits in zip(*found, (1e-12, 1e-12, 1e-12, 1e-5), strict=True):
        np.testing.assert_allclose(once, by_row, rtol=digits, atol=1e-2 * digits)
    np.testing.assert_allclose(found[0][2], 1.0, rtol=1e-12)  # q is left as probabilities


def test_the_whole_fit_keeps_matrix_products_on_one_thread(monkeypatch):
    from threadpoolctl import threadpool_info, threadpool_limits

    from calibrant.calibrators import _increasing, structured_matrix

    seen = []
    for module, name in ((_increasing, "place_knots"), (structured_matrix, "fit_structured")):
        inner = getattr(module, name)

        def outer(*given, inner=inner):
            seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
            return inner(*given)

        monkeypatch.setattr(module, name, outer)
    z, y = simulate(np.random.default_rng(8), 300, 4)
    with threadpool_limits(2, user_api="blas"):
        StructuredMatrixScaling(space="logit").fit(z, y)
        assert all(one["num_threads"] == 2 for one in threadpool_info() if one["user_api"] == "blas")
    assert seen
    assert set(seen) == {1}


def test_many_classes_get_a_diagonal():
    rng = np.random.default_rng(6)
    z = 3 * rng.normal(size=(600, 210))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    fitted = StructuredMatrixScaling(space="logit").fit(z, y)
    assert np.count_nonzero(fitted.weight_ - np.diag(np.diag(fitted.weight_))) == 0
    assert np.isfinite(fitted.predict_proba(z)).all()


@pytest.mark.parametrize("penalty", [(1.0, 2.0), (1.0, -1.0, 1.0), 3.0])
def test_bad_penalty_is_refused(penalty):
    with pytest.raises(InputError, match=r"penalty of StructuredMatrixScaling.fit must be three positive numbers"):
        StructuredMatrixScaling(penalty=penalty).fit([[0.4, 0.6], [0.7, 0.3]], [1, 0])


# probmetrics 1.3.0, get_calibrator("sms").fit(softmax(cal), y).predict_proba(softmax(test)): 0.20312, 0.64048
# (mmlu 70b, rows by the README's rule), 0.93975 (cifar100_wrn16_4).
@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("cifar10_resnet110", 0.2031),
        ("mmlu_llama31_70b_base", 0.6395),
        ("cifar100_wrn16_4", 0.926),
    ],
)
def test_real_predictions_better_than_the_peer(name, bound):
    data = load_data(name)
    kind, space = ("logits", "logit") if "logits_test" in data else ("probs", "proba")
    if f"{kind}_cal" in data:
        x, y, new, truth = (data[k] for k in (f"{kind}_cal", "labels_cal", f"{kind}_test", "labels_test"))
    else:
        order = np.random.default_rng(0).permutation(len(data["labels_test"]))
        x, y = data[f"{kind}_test"][order[:5000]], data["labels_test"][order[:5000]]
        new, truth = data[f"{kind}_test"][order[5000:]], data["labels_test"][order[5000:]]
    assert nll(StructuredMatrixScaling(space=space).fit(x, y).predict_proba(new), truth) < bound
