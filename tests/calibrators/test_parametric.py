"""Vector, matrix, Dirichlet, Platt and beta: published targets, optima against SciPy, penalties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant.calibrators import (
    BetaCalibration,
    DirichletCalibration,
    MatrixScaling,
    PlattScaling,
    VectorScaling,
)
from calibrant.calibrators._logistic import log_complement
from calibrant.calibrators._multinomial import score_unit
from calibrant.calibrators._odir import fit_affine
from calibrant.calibrators._scores import check_fit
from calibrant.core.links import log_softmax, softmax
from calibrant.errors import ConvergenceWarning


def nll(p, y):
    return -np.log(p[np.arange(len(p)), y]).mean()


# Kull et al. (2019), official-code-facts section 7: test NLL of VecS, MS-ODIR, Dir-ODIR
@pytest.mark.parametrize(
    ("method", "target"),
    [
        (VectorScaling, 0.206245),
        (MatrixScaling, 0.203753),
        (DirichletCalibration, 0.205106),
    ],
)
def test_published_likelihood(cifar, method, target):
    cal = method(space="logit").fit(cifar["logits_cal"], cifar["labels_cal"])
    assert nll(cal.predict_proba(cifar["logits_test"]), cifar["labels_test"]) <= target + 0.002


def test_vector_optimum(toy):
    z, y = toy
    n, k = z.shape

    def objective(theta):
        a, b = theta.reshape(2, k)
        return nll(softmax(a * z + b), y) + (((a - 1) ** 2).sum() + (b**2).sum()) / n**2

    reference = minimize(objective, np.r_[np.ones(k), np.zeros(k)], tol=1e-12)
    cal = VectorScaling(space="logit").fit(z, y)
    assert objective(np.r_[cal.scale_, cal.shift_]) <= reference.fun + 1e-12
    assert np.r_[cal.scale_, cal.shift_] == pytest.approx(reference.x, abs=1e-3)


@pytest.mark.parametrize("convention", ["sum", "mean"])
def test_matrix_optimum_and_conventions(toy, convention):
    z, y = toy
    n, k = z.shape
    lam, mu = 0.05, 0.02
    share = (1, 1) if convention == "sum" else (k * (k - 1), k)

    def objective(theta):
        m = theta.reshape(k, k + 1)
        w, b = m[:, :k], m[:, k]
        off = (w**2).sum() - (np.diag(w) ** 2).sum()
        ridge = ((w - np.eye(k)) ** 2).sum() + (b**2).sum()
        return nll(softmax(z @ w.T + b), y) + lam / share[0] * off + mu / share[1] * (b**2).sum() + ridge / n**2

    cal = MatrixScaling(space="logit", odir=(lam, mu), penalty=convention).fit(z, y)
    mine = np.concatenate([cal.matrix_, cal.shift_[:, None]], axis=1).ravel()
    reference = minimize(objective, mine + 0.1, tol=1e-12)
    assert objective(mine) <= reference.fun + 1e-11
    assert mine == pytest.approx(reference.x, abs=2e-3)


def test_conventions_agree_after_scaling(toy):
    z, y = toy
    k = z.shape[1]
    one = MatrixScaling(space="logit", odir=(0.05, 0.02)).fit(z, y)
    two = MatrixScaling(space="logit", odir=(0.05 * k * (k - 1), 0.02 * k), penalty="mean").fit(z, y)
    assert one.matrix_ == pytest.approx(two.matrix_, abs=1e-9)


def test_many_classes_use_products_and_agree_with_the_dense_solver(toy, monkeypatch):
    from calibrant.calibrators import _multinomial

    z, y = toy
    dense = MatrixScaling(space="logit", odir=(0.01, 0.01)).fit(z, y)
    dense_vector = VectorScaling(space="logit").fit(z, y)
    monkeypatch.setattr(_multinomial, "DENSE", 0)
    free = MatrixScaling(space="logit", odir=(0.01, 0.01)).fit(z, y)
    free_vector = VectorScaling(space="logit").fit(z, y)
    assert free.matrix_ == pytest.approx(dense.matrix_, abs=1e-5)
    assert free_vector.predict_proba(z) == pytest.approx(dense_vector.predict_proba(z), abs=1e-5)


def test_dirichlet_is_matrix_scaling_of_log_probabilities(toy):
    z, y = toy
    a = DirichletCalibration(odir=(0.01, 0.01)).fit(softmax(z), y)
    b = MatrixScaling(space="logit", odir=(0.01, 0.01)).fit(log_softmax(z), y)
    assert a.matrix_ == pytest.approx(b.matrix_, abs=1e-7)


def test_strong_penalty_gives_the_diagonal(toy):
    z, y = toy
    cal = MatrixScaling(space="logit", odir=(1e6, 1e6)).fit(z, y)
    assert np.abs(cal.matrix_ - np.diag(np.diag(cal.matrix_))).max() < 1e-5
    assert np.abs(cal.shift_).max() < 1e-5


def test_a_fit_near_another_starts_from_its_numbers(toy, monkeypatch):
    """Scores above 1000 are divided by a unit before the search, and the other fit's numbers are in the old one."""
    z, y = toy
    starts = []

    def watched(*args):
        starts.append(args[6])
        return fit_affine(*args)

    monkeypatch.setattr("calibrant.calibrators.matrix.fit_affine", watched)
    scores, codes, weights, _ = check_fit(
        1e4 * z, y, None, classes=None, space="logit", view="logit", caller="MatrixScaling.fit"
    )
    first = MatrixScaling(space="logit", odir=(0.1, 0.1)).fit_near(None, scores, codes, weights, range(4))
    MatrixScaling(space="logit", odir=(0.1, 0.1)).fit_near(first, scores, codes, weights, range(4))
    unit = score_unit(1e4 * z)
    assert unit > 1
    np.testing.assert_allclose(starts[1][:, :-1], first.matrix_ * unit)


def test_bad_penalty_is_refused(toy):
    z, y = toy
    for bad in ("auto", (1,), (-1, 0), 3.0):
        with pytest.raises(ValueError, match="odir"):
            MatrixScaling(space="logit", odir=bad).fit(z, y)


def test_separable_rows_warn(toy):
    z, _ = toy
    with pytest.warns(ConvergenceWarning, match="every calibration row"):
        cal = VectorScaling(space="logit").fit(z, z.argmax(axis=1))
    assert np.abs(cal.scale_).max() < 1e3


def test_log_complement_does_not_cancel():
    log_p = log_softmax(np.array([[80.0, 0.0, 0.0], [0.1, 0.0, -0.1]]))
    expected = [np.log(2) - 80.0, log_p[0, 0], log_p[0, 0]]
    assert log_complement(log_p)[0] == pytest.approx(expected, abs=1e-9)
    assert log_complement(log_p)[1] == pytest.approx(np.log1p(-np.exp(log_p[1])), abs=1e-12)


def binary(seed, n=500):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n) * 2
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 * s - 0.4))).astype(int)
    return 1 / (1 + np.exp(-s)), y


def test_platt_equals_scikit_learn_on_log_odds():
    # scikit-learn: sklearn.calibration._SigmoidCalibration on decision values, same smoothed targets
    from sklearn.calibration import _SigmoidCalibration

    p, y = binary(0)
    s = np.log(p) - np.log1p(-p)
    reference = _SigmoidCalibration().fit(s, y).predict(s)
    assert PlattScaling().fit(p, y).predict_proba(p)[:, 1] == pytest.approx(reference, abs=2e-5)


@pytest.mark.parametrize("kind", ["abm", "am", "ab"])
def test_beta_optimum(kind):
    p, y = binary(1)
    cal = BetaCalibration(kind).fit(p, y)

    def objective(theta):
        a, b, c = {
            "abm": lambda t: t,
            "am": lambda t: (t[0], t[0], t[1]),
            "ab": lambda t: (t[0], t[1], (t[0] - t[1]) * np.log(2)),
        }[kind](theta)
        q = 1 / (1 + np.exp(-(a * np.log(p) - b * np.log1p(-p) + c)))
        return nll(np.stack([1 - q, q], axis=1), y)

    size = 3 if kind == "abm" else 2
    bounds = [(0, None)] * (1 if kind == "am" else 2) + [(None, None)] * (0 if kind == "ab" else 1)
    reference = minimize(objective, np.ones(size), bounds=bounds, tol=1e-12)
    mine = nll(cal.predict_proba(p), y)
    assert mine <= reference.fun + 1e-5  # the ridge 1/n² is all that separates them
    assert cal.predict_proba([0.1, 0.5, 0.9])[:, 1] == pytest.approx(
        BetaCalibration(kind).fit(p, y).predict_proba([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])[:, 1], abs=1e-9
    )
    if kind == "ab":
        assert cal.predict_proba([0.5])[0, 1] == pytest.approx(0.5)


def test_beta_keeps_its_signs():
    p, y = binary(2)
    cal = BetaCalibration().fit(p, 1 - y)  # anti-informative: the free solution has negative slopes
    assert (cal.a_ >= 0).all()
    assert (cal.b_ >= 0).all()
    assert cal.predict_proba(p)[:, 1] == pytest.approx((1 - y).mean(), abs=1e-3)


def test_class_dependent_miscalibration_is_repaired(toy):
    z, y = toy
    skewed = z + np.array([2.0, 0.0, 0.0, -1.0])
    before = nll(softmax(skewed), y)
    for method in (VectorScaling(space="logit"), MatrixScaling(space="logit", odir=(0.01, 0.01))):
        assert nll(method.fit(skewed, y).predict_proba(skewed), y) < before - 0.2


# betacal 1.1.0, scikit-learn 1.9.1: BetaCalibration(parameters=kind).fit(p.reshape(-1, 1), y).predict(q); its solver
# stops at lbfgs' default tolerance, ours adds a ridge of 1/n²: they agree to a few 1e-4
@pytest.mark.parametrize(
    ("kind", "peer"),
    [
        ("abm", [0.21710614, 0.45305867, 0.58099362, 0.71131919, 0.92453739]),
        ("am", [0.19206064, 0.46951563, 0.60085703, 0.7191327, 0.90505952]),
        ("ab", [0.22808509, 0.38262434, 0.5, 0.65135641, 0.9318442]),
    ],
)
def test_beta_agrees_with_betacal(kind, peer):
    rng = np.random.default_rng(0)
    s = rng.normal(size=500) * 2
    y = (rng.random(500) < 1 / (1 + np.exp(-0.5 * s - 0.4))).astype(int)
    p = 1 / (1 + np.exp(-s))
    found = BetaCalibration(kind).fit(p, y).predict_proba([0.05, 0.3, 0.5, 0.7, 0.95])[:, 1]
    assert found == pytest.approx(peer, abs=3e-4)
