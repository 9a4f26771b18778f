"""CalibratedClassifier: scikit-learn's own checks, the three modes; composition and mixtures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from calibrant.calibrators import (
    CalibratedClassifier,
    Compose,
    Ensemble,
    Identity,
    IsotonicOneVsRest,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.core.links import softmax


def nll(p, y):
    return -np.log(p[np.arange(len(p)), y]).mean()


@pytest.fixture(scope="module")
def blobs():
    X, y = make_classification(
        n_samples=1200, n_features=12, n_informative=5, n_redundant=7, n_classes=3, flip_y=0.1, random_state=3
    )
    return X[:600], y[:600], X[600:], y[600:]


@pytest.mark.parametrize(
    ("base", "ensemble"),
    [
        (GaussianNB(), False),
        (GaussianNB(), True),
        pytest.param(LogisticRegression(), False, marks=pytest.mark.slow),
    ],
)
def test_scikit_learn_checks_without_waivers(base, ensemble):
    pytest.importorskip("pandas", reason="pandas is absent (extra: engines), and two checks need it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny separable sets are part of the checks
        results = check_estimator(CalibratedClassifier(base, method="temperature", ensemble=ensemble), on_skip=None)
    assert not [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("options", [{}, {"ensemble": True}, {"cv": 3}, {"method": VectorScaling()}])
def test_modes_improve_naive_bayes(blobs, options):
    X, y, new, truth = blobs
    before = nll(GaussianNB().fit(X, y).predict_proba(new), truth)
    model = CalibratedClassifier(GaussianNB(), **{"method": "temperature", **options}).fit(X, y)
    assert nll(model.predict_proba(new), truth) < before - 0.05
    assert len(model.pairs_) == (5 if options.get("ensemble") else 1)


def test_a_fitted_model(blobs):
    X, y, new, truth = blobs
    base = FrozenEstimator(GaussianNB().fit(X, y))
    model = CalibratedClassifier(base, method="temperature").fit(new[:300], truth[:300])
    assert model.pairs_[0][0] is base
    expected = TemperatureScaling().fit(base.predict_proba(new[:300]), truth[:300])
    assert np.array_equal(model.predict_proba(new), expected.predict_proba(base.predict_proba(new)))
    with pytest.raises(ValueError, match="classes the fitted estimator knows"):
        CalibratedClassifier(base, method="temperature").fit(new[:3], [0, 1, 7])


def test_a_fitted_model_with_its_classes_in_another_order():
    rng = np.random.default_rng(0)
    names = np.array(["fox", "cat", "dog"])
    p = rng.dirichlet(np.ones(3), 400)
    labels = names[[rng.choice(3, p=row) for row in p]]
    base = TemperatureScaling(classes=names).fit(p[:200], labels[:200])  # any classifier with classes_ out of order
    model = CalibratedClassifier(FrozenEstimator(base), method="temperature").fit(p[200:], labels[200:])
    assert list(model.classes_) == ["fox", "cat", "dog"]
    assert model.score(p, labels) == base.score(p, labels)


def test_decision_function_and_names(blobs):
    X, y, new, _ = blobs
    names = np.array(["a", "b", "c"])
    model = CalibratedClassifier(LinearSVC(), method="temperature").fit(X, names[y])
    assert list(model.classes_) == ["a", "b", "c"]
    assert set(model.predict(new)) <= set(names)
    two = CalibratedClassifier(LinearSVC(), method="platt").fit(X[y < 2], y[y < 2])
    p = two.predict_proba(new)
    assert p.shape == (len(new), 2)
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12


def test_class_rarer_than_folds(blobs):
    X, y, new, _ = blobs
    y = y.copy()
    y[y == 2] = 0
    y[:2] = 2
    p = CalibratedClassifier(GaussianNB(), method="temperature").fit(X, y).predict_proba(new)
    assert p.shape == (len(new), 3)
    assert np.isfinite(p).all()


def test_compose_is_one_after_the_other(toy):
    z, y = toy
    p = softmax(z)
    cal = Compose(TemperatureScaling(loss="brier"), IsotonicOneVsRest()).fit(p, y)
    first = TemperatureScaling(loss="brier").fit(p, y)
    second = IsotonicOneVsRest().fit(first.predict_proba(p), y)
    assert cal.predict_proba(p) == pytest.approx(second.predict_proba(first.predict_proba(p)), abs=1e-14)
    by_logit = Compose(TemperatureScaling(loss="brier", space="logit"), IsotonicOneVsRest()).fit(z, y)
    assert by_logit.predict_proba(z) == pytest.approx(cal.predict_proba(p), abs=1e-9)
    nested = Compose(Compose(TemperatureScaling(), VectorScaling()), Identity()).fit(p, y)
    assert nested.get_params()["first__second"] is not None
    inner = Compose(TemperatureScaling(), VectorScaling()).fit(p, y)
    assert nested.predict_proba(p) == pytest.approx(inner.predict_proba(p))


def test_irova_ts_row(cifar):
    # official-code-facts section 10: IROvA-TS, Brier 0.09867 and accuracy 93.41% (without the 1e-9 term)
    cal = Compose(TemperatureScaling(loss="brier", space="logit"), IsotonicOneVsRest())
    p = cal.fit(cifar["logits_cal"], cifar["labels_cal"]).predict_proba(cifar["logits_test"])
    y = cifar["labels_test"]
    assert ((p - np.eye(10)[y]) ** 2).sum(axis=1).mean() == pytest.approx(0.09867, abs=6e-6)
    assert (p.argmax(axis=1) == y).mean() == pytest.approx(0.9341, abs=1e-4)


def test_ensemble_finds_the_better_member(toy):
    z, y = toy
    p = softmax(z)
    for loss in ("nll", "brier"):
        cal = Ensemble([Identity(), TemperatureScaling()], loss=loss).fit(p, y)
        assert cal.weights_[1] > 0.9
        assert cal.weights_.sum() == pytest.approx(1)
    fixed = Ensemble([Identity(), TemperatureScaling()], weights=[3, 1]).fit(p, y)
    expected = 0.75 * p + 0.25 * TemperatureScaling().fit(p, y).predict_proba(p)
    assert fixed.predict_proba(p) == pytest.approx(expected, abs=1e-12)
    for bad in ({"weights": [1]}, {"weights": "equal"}, {"n_folds": 1}, {"calibrators": []}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Ensemble(**{"calibrators": [Identity(), TemperatureScaling()], **bad}).fit(p, y)


def test_simplex_solvers_agree():
    from calibrant.calibrators import _simplex

    rng = np.random.default_rng(0)
    for m in (2, 3, 6, 8):
        a = rng.normal(size=(20, m))
        gram, linear = a.T @ a, rng.normal(size=m) * 5
        exact, walk = _simplex.quadratic(gram, linear), _simplex._active_set(gram, linear)
        assert walk == pytest.approx(exact, abs=1e-8)
        value = 0.5 * exact @ gram @ exact - linear @ exact
        for w in rng.dirichlet(np.ones(m), 300):
            assert value <= 0.5 * w @ gram @ w - linear @ w + 1e-10


@pytest.mark.parametrize("size", [1e-30, 1e13, 1e120])
def test_simplex_weights_do_not_depend_on_the_size_of_the_loss(size):
    from calibrant.calibrators import _simplex

    gram, linear = np.array([[1.0, 0.2, 0.1], [0.2, 2.0, 0.3], [0.1, 0.3, 1.5]]), np.array([0.3, 0.9, 0.1])
    assert _simplex.quadratic(size * gram, size * linear) == pytest.approx(_simplex.quadratic(gram, linear), abs=1e-12)


def test_mixture_weights_with_a_forecast_that_calls_the_truth_impossible():
    from calibrant.calibrators import _simplex

    truth = np.array([[1e-60, 0.3, 0.2], [0.9, 0.3, 0.5], [1e-80, 0.5, 0.2]])
    weights = _simplex.mixture_weights(truth, truth.T @ truth, np.ones(3), "nll")
    best = min(-np.log(truth @ w).sum() for w in np.random.default_rng(0).dirichlet(np.ones(3), 500))
    assert -np.log(truth @ weights).sum() <= best + 1e-9
