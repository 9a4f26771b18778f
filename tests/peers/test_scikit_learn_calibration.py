"""scikit-learn's own tests of calibration, run on `CalibratedClassifier` through an adapter.

The file is imported from the installed scikit-learn, never copied. The adapter speaks its names: `sigmoid` is
`PlattScaling`, `isotonic` is `IsotonicOneVsRest` without ε, `ensemble="auto"` is True unless the estimator is frozen.
What has no counterpart is listed with its reason.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

theirs = pytest.importorskip("sklearn.tests.test_calibration", reason="scikit-learn comes without its tests")
if not hasattr(theirs, "_TemperatureScaling"):
    pytest.skip(
        "this scikit-learn has no temperature scaling: its tests are of another interface", allow_module_level=True
    )

from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.isotonic import IsotonicRegression  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402

from calibrant import metrics  # noqa: E402
from calibrant.calibrators import CalibratedClassifier, IsotonicOneVsRest, PlattScaling, TemperatureScaling  # noqa: E402
from calibrant.core.links import logit  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

METHODS = {"sigmoid": PlattScaling, "temperature": TemperatureScaling, "isotonic": lambda: IsotonicOneVsRest(epsilon=0)}

#: Tests without a counterpart here, and why.
NOT_OURS = {
    "test_calibration_zero_probability": "a private class of scikit-learn is tested, not the public one",
    "test_sigmoid_calibration_max_abs_prediction_threshold": "a private option of scikit-learn's solver",
    "test_temperature_scaling_array_api_compliance": "array API: parameters that stay on a device",
    "test_temperature_scaling_array_api_with_str_y_estimator_not_prefit": "array API",
    "test_temperature_scaling_input_validation": "needs scikit-learn's fixture of dtypes; bare scores are never 1 column",
    "test_calibration_curve_pos_label_error_str": "the wording of an error; labels by name need `classes` here",
}
#: `CalibrationDisplay` is not replaced: our displays have another interface.
DISPLAYS = ("display", "plot_calibration_curve")


class Adapter(CalibratedClassifier):
    """`CalibratedClassifier` under the names and defaults of `CalibratedClassifierCV`."""

    def __init__(self, estimator=None, *, method="sigmoid", cv=None, n_jobs=None, ensemble="auto"):
        super().__init__(estimator, method, cv, ensemble=ensemble, n_jobs=n_jobs)

    def fit(self, X, y, sample_weight=None, **fit_params):
        if isinstance(self.method, str) and self.method not in METHODS:
            raise ValueError(f"unknown method {self.method}")
        base = LinearSVC(random_state=0) if self.estimator is None else self.estimator
        frozen = isinstance(base, FrozenEstimator)
        self.inner_ = CalibratedClassifier(
            base,
            METHODS[self.method]() if isinstance(self.method, str) else self.method,
            5 if self.cv is None else self.cv,
            ensemble=(not frozen) if self.ensemble == "auto" else self.ensemble,
            n_jobs=self.n_jobs,
        ).fit(X, y, sample_weight, **fit_params)
        for name in ("pairs_", "units_", "classes_", "n_features_in_"):
            if hasattr(self.inner_, name):
                setattr(self, name, getattr(self.inner_, name))
        return self

    @property
    def calibrated_classifiers_(self):
        return [
            SimpleNamespace(
                estimator=model,
                calibrators=[Beta(calibrator)],
                predict_proba=lambda X, number=number: self.inner_._predict_pair(number, X),
            )
            for number, (model, calibrator) in enumerate(self.pairs_)
        ]


class Beta(BaseEstimator):
    """A fitted calibrator that also knows its inverse temperature."""

    def __init__(self, calibrator):
        self.calibrator = calibrator

    def fit(self, X, y):
        return self

    @property
    def beta_(self):
        return 1 / self.calibrator.temperature_

    def __sklearn_is_fitted__(self):
        return self.calibrator.__sklearn_is_fitted__()


class Bare(BaseEstimator):
    """A bare calibrator of decision scores with `predict`, as scikit-learn's private ones have."""

    kind: Any

    def fit(self, scores, y, sample_weight=None):
        scores = np.asarray(scores, dtype=float)
        if scores.ndim == 2 and self.kind is PlattScaling and scores.shape[1] != 1:
            raise ValueError("one column")
        self.inner_ = self.kind(space="logit" if scores.ndim == 1 else "proba")
        self.inner_.fit(scores, np.unique(y, return_inverse=True)[1], sample_weight)
        return self

    def predict(self, scores):
        return self.inner_.predict_proba(np.asarray(scores, dtype=float))[:, 1]


class BarePlatt(Bare):
    kind = PlattScaling


class BareTemperature(Bare):
    kind = TemperatureScaling

    @property
    def beta_(self):
        return 1 / self.inner_.temperature_


def sigmoid_calibration(predictions, y, sample_weight=None):
    fitted = BarePlatt().fit(predictions, y, sample_weight).inner_
    return -fitted.slope_[1], -fitted.shift_[1]


def calibration_curve(y_true, y_prob, *, pos_label=None, n_bins=5, strategy="uniform"):
    labels = np.unique(y_true)
    positive = labels[-1] if pos_label is None else pos_label
    hit = (np.asarray(y_true) == positive).astype(int)
    bins = {"uniform": "width", "quantile": "mass"}.get(strategy, strategy)
    curve = metrics.reliability_curve(hit, np.asarray(y_prob, dtype=float), view="class-1", n_bins=n_bins, bins=bins)
    return curve.frequency, curve.score


theirs.CalibratedClassifierCV = Adapter
theirs._sigmoid_calibration = sigmoid_calibration
theirs._SigmoidCalibration = BarePlatt
theirs._TemperatureScaling = BareTemperature
theirs.calibration_curve = calibration_curve

data, dict_data, dict_data_pipeline = theirs.data, theirs.dict_data, theirs.dict_data_pipeline


@pytest.fixture
def global_random_seed():
    return 42


def adopt() -> dict[str, Any]:
    """Return their tests that have a counterpart."""
    found = {}
    for name, test in vars(theirs).items():
        shown = any(word in name for word in DISPLAYS)
        if name.startswith("test_") and inspect.isfunction(test) and name not in NOT_OURS and not shown:
            found[name] = test
    return found


globals().update(adopt())

# scikit-learn's own solvers stop at a looser tolerance than 1e-7: the reference is the bare calibrator, but for isotonic
theirs.test_calibration_ensemble_false.pytestmark = [
    pytest.mark.parametrize(
        ("method", "calibrator"),
        [
            ("sigmoid", BarePlatt()),
            ("temperature", BareTemperature()),
            ("isotonic", IsotonicRegression(out_of_bounds="clip")),
        ],
    )
]


def test_every_test_of_theirs_is_adopted_or_named():
    assert set(NOT_OURS) <= set(vars(theirs))
    assert len(adopt()) >= 25


def test_isotonic_interpolates_as_scikit_learn_does():
    """On probabilities and on margins: the bare fit equals `IsotonicRegression` at and between the thresholds."""
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(size=400), 2)
    y = (rng.uniform(size=400) < p**2).astype(int)
    new = np.linspace(0.001, 0.999, 777)
    reference = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    ours = IsotonicOneVsRest(epsilon=0.0).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(new)[:, 1], reference.predict(new), atol=1e-12)
    z, z_new = logit(np.clip(p, 0.005, 0.995)), logit(new)
    reference = IsotonicRegression(out_of_bounds="clip").fit(z, y)
    ours = IsotonicOneVsRest(epsilon=0.0, space="logit").fit(z, y)
    np.testing.assert_allclose(ours.predict_proba(z_new)[:, 1], reference.predict(z_new), atol=1e-12)
