"""The edges: weights that are not counts, large margins, separable rows, small folds, absent classes."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, LeavePOut
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import calibrant
from calibrant.calibrators import (
    BayesianBinning,
    BetaCalibration,
    CalibratedClassifier,
    Compose,
    HistogramBinning,
    Identity,
    IsotonicMulticlass,
    IsotonicOneVsRest,
    PlattScaling,
    SplineCalibration,
    StdScaling,
    TemperatureScaling,
    VennAbers,
)
from calibrant.core.links import log_odds, logit, sigmoid, softmax
from calibrant.errors import InputError, WeightsWarning

RANKED = (IsotonicOneVsRest, IsotonicMulticlass, HistogramBinning, BayesianBinning, SplineCalibration, VennAbers)


@pytest.fixture(scope="module")
def margins():
    rng = np.random.default_rng(3)
    z = rng.normal(size=400)
    return z, (z + rng.logistic(size=400) > 0).astype(int)


@pytest.fixture(scope="module")
def rows():
    return make_classification(n_samples=300, n_features=8, n_informative=4, random_state=1)


def test_log_odds_keep_apart_what_the_softmax_joins():
    z = np.array([[0.0, 40.0, -3.0], [0.0, 41.0, -3.0], [0.0, 0.1, 0.2]])
    p = softmax(z)
    assert p[0, 1] == p[1, 1] == 1.0
    odds = log_odds(z)
    assert odds[1, 1] - odds[0, 1] == pytest.approx(1.0)
    np.testing.assert_allclose(sigmoid(odds), p, atol=1e-15)
    np.testing.assert_allclose(odds[2], logit(p[2]), atol=1e-12)
    assert np.isfinite(log_odds(1e300 * np.eye(3))).all()


@pytest.mark.parametrize("kind", RANKED)
def test_margins_of_any_size_give_as_many_values(margins, kind):
    z, y = margins
    small = kind(space="logit").fit(z, y).predict_proba(z)[:, 1]
    large = kind(space="logit").fit(100 * z, y).predict_proba(100 * z)[:, 1]
    by_softmax = (
        kind()
        .fit(softmax(np.stack([0 * z, 100 * z], axis=1)), y)
        .predict_proba(softmax(np.stack([0 * z, 100 * z], axis=1)))[:, 1]
    )
    assert len(np.unique(large.round(9))) >= 0.8 * len(np.unique(small.round(9))) or kind is BayesianBinning
    assert roc_auc_score(y, large) > roc_auc_score(y, by_softmax) - 1e-12
    assert roc_auc_score(y, large) > roc_auc_score(y, small) - 0.01


@pytest.mark.parametrize("method", ["isotonic", "venn-abers", "platt"])
def test_the_wrapper_standardizes_decision_scores(rows, method):
    X, y = rows
    model = CalibratedClassifier(SGDClassifier(random_state=0), method=method).fit(1000 * X, y)
    held = model.predict_proba(1000 * X)[:, 1]
    assert model.units_[0] > 100
    raw = roc_auc_score(y, model.pairs_[0][0].decision_function(1000 * X))
    assert roc_auc_score(y, held) > raw - 0.01


def test_platt_is_that_of_libsvm():
    fitted = PlattScaling(space="logit").fit([5.0, -4.0, 1.0], [1, 0, 0])
    assert fitted.slope_[1] == pytest.approx(0.2026, abs=5e-5)
    assert fitted.shift_[1] == pytest.approx(-0.6524, abs=5e-5)


@pytest.mark.parametrize("method", [PlattScaling, lambda **o: PlattScaling(smooth=False, **o)])
def test_the_logistic_fit_does_not_know_the_unit_of_margins(margins, method):
    z, y = margins
    expected = method(space="logit").fit(z, y).predict_proba(z)
    for unit in (1e-3, 1e3, 1e11):
        np.testing.assert_allclose(method(space="logit").fit(unit * z, y).predict_proba(unit * z), expected, atol=1e-7)


def test_without_separation_there_is_no_ridge(margins):
    z, y = margins
    p = sigmoid(2 * z)[:12]
    fitted = PlattScaling(smooth=False).fit(p, y[:12])
    residual = fitted.predict_proba(p)[:, 1] - y[:12]
    assert abs(residual.sum()) < 1e-7
    assert abs(residual @ logit(p)) < 1e-6
    separable = PlattScaling(smooth=False).fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert np.isfinite(separable.slope_).all()
    assert np.isfinite(BetaCalibration().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]).a_).all()


def test_huge_logits_do_not_overflow(margins, tmp_path):
    z, y = margins
    expected = TemperatureScaling(space="logit").fit(z, y).predict_proba(z)
    for size in (1e40, 1e300):
        fitted = TemperatureScaling(space="logit").fit(size * z, y)
        np.testing.assert_allclose(fitted.predict_proba(size * z), expected, atol=1e-7)
        fitted.save(tmp_path / "cal.json")
        np.testing.assert_array_equal(
            calibrant.load(tmp_path / "cal.json").predict_proba(size * z), fitted.predict_proba(size * z)
        )
    for method in (PlattScaling, HistogramBinning):
        with pytest.raises(InputError, match="logits of at most 1e50"):
            method(space="logit").fit(1e300 * z, y)


def test_heavy_rows_need_no_memory():
    fitted = BayesianBinning().fit(np.linspace(0.1, 0.9, 20), [0] * 10 + [1] * 10, np.full(20, 10**9))
    assert np.isfinite(fitted.predict_proba([0.3])).all()


def test_not_fitted_is_the_error_of_scikit_learn():
    with pytest.raises(NotFittedError):
        TemperatureScaling().predict([[0.5, 0.5]])
    with pytest.raises(NotFittedError):
        StdScaling().predict([0.0], [1.0])


def test_compose_says_what_to_write():
    with pytest.raises(InputError, match=r"write Compose\(a, b\)"):
        Compose([TemperatureScaling(), Identity()]).fit([[0.4, 0.6]], [1])


# -- the wrapper ------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [LeaveOneOut(), LeavePOut(2), KFold(151)])
def test_folds_too_small_to_calibrate_are_refused(rows, cv):
    X, y = rows
    with pytest.raises(InputError, match="ensemble=True"):
        CalibratedClassifier(GaussianNB(), method="temperature", cv=cv, ensemble=True).fit(X, y)


@pytest.mark.parametrize("method", ["platt", "temperature", "isotonic", "vector"])
def test_a_class_absent_from_a_training_fold_has_probability_0(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.concatenate([rng.integers(0, 2, 68), np.full(22, 2)])
    X += y[:, None]
    model = CalibratedClassifier(GaussianNB(), method=method, cv=KFold(3), ensemble=True).fit(X, y)
    assert (model._predict_pair(2, X)[:, 2] == 0).all()
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    whole = CalibratedClassifier(DecisionTreeClassifier(max_depth=2), method=method, cv=KFold(3)).fit(X, y)
    assert np.isfinite(whole.predict_proba(X)).all()


def test_groups_and_fit_parameters_arrive(rows):
    X, y = rows
    seen = []

    class Spy(GaussianNB):
        def fit(self, X, y, sample_weight=None, mark=None, option=None):
            seen.append((len(X), None if mark is None else len(mark), option))
            return super().fit(X, y, sample_weight)

    groups = np.repeat(np.arange(30), 10)
    model = CalibratedClassifier(Spy(), method="temperature", cv=GroupKFold(3))
    model.fit(X, y, groups=groups, mark=np.arange(300), option="x")
    assert seen == [(200, 200, "x")] * 3 + [(300, 300, "x")]


def test_weights_reach_the_last_step_of_a_pipeline_or_warn(rows):
    X, y = rows
    weights = np.where(y == 1, 5.0, 1.0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with_weights = CalibratedClassifier(pipeline, method="identity").fit(X, y, weights).pairs_[0][0]
    np.testing.assert_allclose(
        with_weights[-1].coef_, clone(pipeline).fit(X, y, logisticregression__sample_weight=weights)[-1].coef_
    )

    class Plain(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.inner_ = GaussianNB().fit(X, y)
            self.classes_ = self.inner_.classes_
            return self

        def predict_proba(self, X):
            return self.inner_.predict_proba(X)

    for routing in (False, True):
        with (
            sklearn.config_context(enable_metadata_routing=routing),
            pytest.warns(WeightsWarning, match="Plain takes no weights"),
        ):
            CalibratedClassifier(Plain(), method="temperature").fit(X, y, weights)


def test_metadata_are_routed(rows):
    X, y = rows
    weights = np.where(y == 1, 5.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), inner)
        model = CalibratedClassifier(pipeline, method="identity", cv=GroupKFold(3))
        model.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weights, groups=np.arange(300) // 10)
        expected = clone(pipeline).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.pairs_[0][0][-1].coef_, expected[-1].coef_)
        blind = CalibratedClassifier(LogisticRegression(), method="identity").set_fit_request(sample_weight=True)
        with pytest.raises(ValueError, match="sample_weight"):
            blind.fit(X, y, sample_weight=weights)


def test_jobs_change_nothing(rows):
    X, y = rows
    one = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=True).fit(X, y)
    two = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=True, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_fitted_classifiers_survive_cloning(rows):
    X, y = rows
    base = GaussianNB().fit(X[:150], y[:150])
    frozen = CalibratedClassifier(FrozenEstimator(base), method="temperature")
    expected = TemperatureScaling().fit(base.predict_proba(X[150:]), y[150:]).predict_proba(base.predict_proba(X))
    np.testing.assert_array_equal(clone(frozen).fit(X[150:], y[150:]).predict_proba(X), expected)
    assert clone(frozen).estimator.estimator is base


def test_more_folds_than_rows_are_refused(rows):
    with pytest.raises(InputError, match="number of rows"):
        CalibratedClassifier(GaussianNB(), method="temperature", cv=301).fit(*rows)


# -- scikit-learn's tools ---------------------------------------------------------------------


def test_bare_calibrators_are_classifiers_with_a_score(margins):
    from sklearn.base import is_classifier

    z, y = margins
    fitted = TemperatureScaling(space="logit", classes=["no", "yes"]).fit(z, np.array(["no", "yes"])[y])
    assert is_classifier(fitted)
    assert fitted.score(z, np.array(["no", "yes"])[y]) == ((z > 0) == y).mean()


def test_scorers_take_labels_of_any_kind(rows):
    from sklearn.model_selection import cross_val_score

    from calibrant.metrics import brier_score, scorer

    X, y = rows
    by_name = cross_val_score(GaussianNB(), X, np.array(["a", "b"])[y], scoring=scorer("ece", n_bins=10))
    np.testing.assert_allclose(by_name, cross_val_score(GaussianNB(), X, y, scoring=scorer("ece", n_bins=10)))
    assert (by_name < 0).all()
    assert (cross_val_score(GaussianNB(), X, y, scoring=scorer("accuracy")) > 0).all()
    with pytest.raises(InputError, match="name"):
        scorer("no such metric")
    p = GaussianNB().fit(X, y).predict_proba(X)
    from sklearn.metrics import brier_score_loss

    assert brier_score(y, p, scale_by_half=True) == pytest.approx(brier_score_loss(y, p[:, 1]))


def test_onnx_takes_and_gives_single_precision(margins):
    onnx = pytest.importorskip("onnx", reason="onnx is absent (extra: onnx)")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is absent (extra: onnx)")
    z, y = margins
    logits = np.stack([0 * z, z], axis=1).astype(np.float32)
    for method in (TemperatureScaling(space="logit"), IsotonicOneVsRest(space="logit")):
        fitted = method.fit(logits, y)
        head = onnx.load_model_from_string(fitted.to_onnx(dtype="float32"))
        helper, single = onnx.helper, onnx.TensorProto.FLOAT
        double = helper.make_node("Mul", ["x", "two"], ["logits"])
        network = helper.make_model(
            helper.make_graph(
                [double],
                "network",
                [helper.make_tensor_value_info("x", single, ["rows", 2])],
                [helper.make_tensor_value_info("logits", single, ["rows", 2])],
                [onnx.numpy_helper.from_array(np.float32(2.0), "two")],
            ),
            opset_imports=head.opset_import,
            ir_version=head.ir_version,
        )
        joined = onnx.compose.merge_models(network, head, [("logits", "scores")])
        session = runtime.InferenceSession(joined.SerializeToString(), providers=["CPUExecutionProvider"])
        out = session.run(None, {"x": logits / 2})[0]
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, fitted.predict_proba(logits), atol=1e-6)
    with pytest.raises(InputError, match="dtype"):
        fitted.to_onnx(dtype="float16")


@pytest.mark.parametrize("method", [TemperatureScaling, PlattScaling, IsotonicOneVsRest, SplineCalibration])
def test_torch_modules_keep_the_dtype_they_are_given(margins, method):
    torch = pytest.importorskip("torch", reason="torch is absent (extra: torch)")
    z, y = margins
    logits = np.stack([0 * z, z], axis=1)
    fitted = method(space="logit").fit(logits, y)
    expected = fitted.predict_proba(logits)
    network = torch.nn.Sequential(torch.nn.Identity(), fitted.to_torch()).float()
    for dtype, tolerance in (
        (torch.float64, 1e-9),
        (torch.float32, 2e-4),
        (torch.float16, 0.05),
        (torch.bfloat16, 0.2),
    ):
        out = network(torch.from_numpy(logits).to(dtype))
        assert out.dtype == dtype
        np.testing.assert_allclose(out.double().numpy(), expected, atol=tolerance)


def test_a_fitted_classifier_stays_as_it_is_in_every_fold(rows):
    X, y = rows
    base = GaussianNB().fit(X[:150], y[:150])
    model = CalibratedClassifier(FrozenEstimator(base), method="platt", ensemble=True)
    expected = clone(model).fit(X[150:], y[150:])
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeightsWarning)  # nothing is fitted that could miss the weights
        model.fit(X[150:], y[150:], sample_weight=np.ones(150))
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert all(one.estimator is base for one, _ in model.pairs_)


@pytest.mark.parametrize("method", ["structured-matrix", "order-preserving", "auto"])
def test_weights_equal_repeated_rows_for_decision_scores(rows, method):
    X, y = rows
    model = FrozenEstimator(SGDClassifier(random_state=0).fit(X[:100], y[:100]))
    counts = np.random.default_rng(0).integers(0, 4, 200)
    weighted = CalibratedClassifier(model, method=method).fit(X[100:], y[100:], sample_weight=counts)
    repeated = CalibratedClassifier(model, method=method).fit(np.repeat(X[100:], counts, 0), np.repeat(y[100:], counts))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)


def test_many_heavy_rows_need_little_memory():
    """The bins of all histograms together grow with the square of the largest number of bins."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    tracemalloc.start()
    BayesianBinning().fit(p, (rng.uniform(size=3000) < p).astype(int), np.full(3000, 10**7))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_bayesian_binning_has_a_score_like_every_classifier(margins):
    z, y = margins
    fitted = BayesianBinning(criterion="bic").fit(sigmoid(z), y)
    assert fitted.score(sigmoid(z), y) == pytest.approx(((z > 0) == y).mean(), abs=0.05)


def test_the_largest_numbers_are_refused_not_mapped_to_nan(margins):
    z, y = margins
    with pytest.raises(InputError, match="logits of at most"):
        TemperatureScaling(space="logit").fit(1.7e308 * (z / np.abs(z).max()), y)


def test_onnx_keeps_the_digits_of_small_probabilities():
    pytest.importorskip("onnxruntime", reason="onnxruntime is absent (extra: onnx)")
    rng = np.random.default_rng(0)
    z = 100 * rng.normal(size=(200, 4))
    fitted = SplineCalibration(space="logit").fit(z, (z / 100 + rng.gumbel(size=z.shape)).argmax(axis=1))
    fitted.to_onnx()  # compared with predict_proba to 1e-6 before it is returned
