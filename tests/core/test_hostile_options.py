"""Findings of the campaign, reduced: whatever an option is given, an error of one line names it."""

from __future__ import annotations

import math
import warnings

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant import (
    datasets,
    engines,
    inference,
    io,
    metrics,
    monitoring,
    plots,
    regression,
    scores,
    selective,
)
from calibrant.calibrators import (
    AutoCalibrator,
    AutoVarianceCalibrator,
    BetaCalibration,
    DirichletCalibration,
    HistogramBinning,
    Identity,
    IsotonicMulticlass,
    OrderPreserving,
    PlattScaling,
    ScalingBinning,
    SplineCalibration,
    StructuredMatrixScaling,
    TemperatureScaling,
    _artifact,
)
from calibrant.errors import CalibrantError, CalibrantWarning, InputError, UndefinedWarning

Y, P, Q = [0, 1], [[0.7, 0.3], [0.4, 0.6]], [[0.6, 0.4], [0.5, 0.5]]
NUMBERS = ([0.0, 1.0], [0.1, 0.8], [1.0, 2.0])
FITTED = TemperatureScaling().fit([[0.7, 0.3], [0.4, 0.6], [0.6, 0.4]], [0, 1, 1])
FRAME = pl.DataFrame({"p_0": [0.7, 0.4], "p_1": [0.3, 0.6], "label": Y})
FACTS = calibrant.evaluate(Y, P, n_resamples=19, rng=0).facts
SQUARE = np.zeros((2, 2))
WHATEVER = (None, "ece\n<b>", b"x", [], {}, {"a": 1}, 1j, math.nan, -math.inf, 10**30, np.array([]), SQUARE, object())

#: Call → the options that some hostile value once ended in a traceback, with columns before them.
CALLS = [
    (metrics.expected_calibration_error, (Y, P), ("space", "normalize", "bins", "n_bins")),
    (metrics.maximum_calibration_error, (Y, P), ("space",)),
    (metrics.calibration_error, (Y, P), ("estimator", "root")),
    (metrics.reliability_curve, (Y, P), ("level",)),
    (metrics.local_curve, (Y, P), ("view",)),
    (metrics.tl_ece, (Y, P), ("norm",)),
    (metrics.kde, (Y, P), ("bandwidth",)),
    (metrics.skce, (Y, P), ("gamma",)),
    (metrics.ce_kde, (Y, P), ("bandwidth",)),
    (metrics.ence, NUMBERS, ("n_bins",)),
    (metrics.pinball, NUMBERS, ("levels",)),
    (metrics.qce, NUMBERS, ("levels", "norm")),
    (metrics.class_table, (Y, P), ("n_bins",)),
    (calibrant.evaluate, (Y, P), ("pairs",)),
    (inference.expected_ece, (10, Y, P), ("n_bins", "calibrated")),
    (inference.ece_bias, (Y, P), ("n_bins",)),
    (calibrant.compare, (Y, P, Q), ("level", "space", "injective")),
    (inference.cox_calibration, (Y, P), ("view", "level")),
    (inference.spiegelhalter_test, (Y, P), ("n_resamples",)),
    (inference.hosmer_lemeshow_test, (Y, P), ("n_groups", "n_resamples", "view")),
    (inference.classwise_tests, (Y, P), ("n_resamples",)),
    (inference.equivalence_test, (Y, P), ("epsilon",)),
    (inference.interval, ("ece", Y, P), ("level", "pairs")),
    (inference.holm, (), ("pvalues",)),
    (regression.skce_test, NUMBERS, ("n_resamples", "bandwidth")),
    (regression.upper_bound, NUMBERS, ("score",)),
    (regression.calibration_error, NUMBERS, ("score", "cv")),
    (regression.compute_pit, NUMBERS, ("n_bins",)),
    (scores.improvement, (Y, P, Q), ("level",)),
    (scores.upper_bound, (Y, P), ("root",)),
    (calibrant.evaluate, (Y, P), ("space", "pairs", "risk", "percent")),
    (calibrant.evaluate, (FRAME,), ("strict", "normalize")),
    (calibrant.fit, (Y, P), ("preserve", "fast")),
    (selective.rejection_curve, (Y, P), ("level", "thresholds")),
    (selective.risk_coverage_interval, (Y, P), ("level", "n_resamples")),
    (selective.uncertainty, (P,), ("by",)),
    (selective.coverage_at_risk, (Y, P), ("risk",)),
    (selective.ood_detection, (P, Q), ("by", "n_resamples", "level")),
    (datasets.accuracy_replaced, (), ("n_classes", "accuracy", "spread")),
    (datasets.collapsed, (), ("confident", "hesitant", "share")),
    (datasets.hidden_miscalibration, (), ("n_classes", "alpha")),
    (datasets.two_gaussians, (), ("n", "beta0", "beta1")),
    (datasets.dirichlet_temperature, (), ("n", "n_classes", "concentration", "temperature", "mixing")),
]
NEEDED = {"coverage_at_risk": {"risk": 0.1}, "equivalence_test": {"epsilon": 0.1}}


@pytest.mark.parametrize(
    ("function", "columns", "option"),
    [(f, c, o) for f, c, options in CALLS for o in options],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", "data"),
)
def test_an_error_of_one_line_names_the_option(function, columns, option):
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UndefinedWarning)
        for value in WHATEVER:
            try:
                function(*columns, **NEEDED.get(function.__name__, {}) | {option: value})
            except InputError as error:
                refused += 1
                message = str(error)
                if "\n" in message or option not in message:
                    pytest.fail(f"{option}={value!r}: {message}")
    assert refused >= len(WHATEVER) - 4, f"{option} takes almost anything"


#: The same for subpackages whose errors name a file, a column or a row instead of the option.
OTHERS = [
    (plots.plot_against_temperature, (Y, P), ("metrics", "temperatures")),
    (plots.plot_against_sample_size, (Y, P), ("n_repeats", "sizes")),
    (plots.plot_class_errors, (Y, P), ("metrics",)),
    (plots.plot_local, (Y, P), ("decay", "ax")),
    (plots.plot_calibration_map, (), ("calibrator",)),
    (plots.plot_methods, (), ("methods",)),
    (plots.plot_training, (), ("trace",)),
    (engines.apply_frame, (FITTED, FRAME), ("once",)),
    (engines.apply_frame, (FITTED, FRAME), ("normalize",)),
    (engines.fit_frame, (FITTED,), ("frame",)),
    (engines.fit_frame, (FITTED, FRAME), ("normalize",)),
    (engines.summarize, (), ("frame",)),
    (engines.summarize, (FRAME,), ("by", "n_bins", "need")),
    (calibrant.evaluate, (FRAME,), ("by", "proba", "label", "weight", "mean", "std", "engine", "confidence")),
    (io.Layout, (), ("proba", "label", "percent", "declared")),
    (monitoring.add_models, ("store",), ("by",)),
    (plots.plot_against_bins, (Y, P), ("n_bins",)),
    (plots.plot_reliability, (Y, P), ("counts",)),
    (engines.Store, (), ("path",)),
    (calibrant.Summary, (2,), ("n_bins", "coarse")),
    (calibrant.check, (Y, P), ("config", "max_values", "min_values", "min_pvalues")),
    (inference.judge, (FACTS,), ("tolerance",)),
    (io.read_predictions, (), ("path",)),
    (calibrant.report, (Y, P), ("by", "calibrator")),
    (scores.Brier().infimum, (), ("n_classes",)),
]


@pytest.mark.parametrize(
    ("function", "columns", "option"),
    [(f, c, o) for f, c, options in OTHERS for o in options],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", "data"),
)
def test_an_error_of_one_line_or_an_answer(function, columns, option, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is absent (extra: plots)")
    monkeypatch.chdir(tmp_path)
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrantWarning)
        for value in WHATEVER:
            try:
                function(*columns, **{option: value})
            except CalibrantError as error:
                refused += 1
                if "\n" in str(error):
                    pytest.fail(f"{option}={value!r}: {error}")
            finally:
                plots.displays.pyplot().close("all")
    assert refused >= len(WHATEVER) - 5, f"{option} takes almost anything"


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (SplineCalibration, {"keep_argmax": b"x"}),
        (SplineCalibration, {"monotone": np.array([])}),
        (SplineCalibration, {"n_knots": 10**30}),
        (SplineCalibration, {"target": SQUARE}),
        (DirichletCalibration, {"odir": SQUARE}),
        (DirichletCalibration, {"rng": b"x", "odir": (1.0, 1.0)}),
        (HistogramBinning, {"n_bins": 10**30}),
        (AutoCalibrator, {"preserve": SQUARE}),
        (ScalingBinning, {"scaler": -1}),
        (ScalingBinning, {"scaler": [None]}),
        (ScalingBinning, {"space": SQUARE}),
        (OrderPreserving, {"smoothness": "ece\n<b>"}),
        (TemperatureScaling, {"floor": SQUARE}),
        (StructuredMatrixScaling, {"floor": 5e-324}),
    ],
    ids=str,
)
def test_options_of_methods(method, options):
    with pytest.raises(InputError, match=next(iter(options))) as caught:
        method(**options).fit(P, Y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("verb", [calibrant.evaluate, calibrant.fit, calibrant.report])
def test_a_frame_without_rows_is_refused(verb):
    with pytest.raises(InputError, match="at least one row"):
        verb(FRAME.head(0))


def test_a_tiny_error_needs_many_rows_or_is_refused():
    with pytest.raises(InputError, match="error"):
        inference.required_sample_size(5e-324, Y, P)


def test_options_of_the_chosen_regression_method():
    with pytest.raises(InputError, match="cv"):
        AutoVarianceCalibrator(cv={}).fit(*NUMBERS)


@pytest.mark.parametrize("method", [PlattScaling, BetaCalibration, ScalingBinning])
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
def test_sure_rows_of_one_kind_overflow_nothing(method):
    x, y = np.eye(3)[[0, 0, 0, 2]], [0, 2, 2, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert np.isfinite(method().fit(x, y).predict_proba(x)).all()
        assert np.isfinite(method().fit(x[:1], [1]).predict_proba(x)).all()


def test_weights_of_every_size_at_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = IsotonicMulticlass().fit(P, Y, sample_weight=[0.362, 1e308])
    assert np.isfinite(fitted.predict_proba(P)).all()


def test_classes_of_any_kind_are_stored():
    fitted = Identity(classes=range(2)).fit(P, Y)
    assert _artifact.rebuild(fitted.to_payload()).classes_.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_what_was_fitted_loads():
    one = np.eye(4)[[3]]
    for fitted in (
        AutoCalibrator().fit(one, [0], sample_weight=[3.0]),  # the uniform distribution is best
        SplineCalibration(keep_argmax=False).fit(one, [2]),
    ):
        again = _artifact.rebuild(fitted.to_payload())
        np.testing.assert_array_equal(again.predict_proba(one), fitted.predict_proba(one))


def test_one_score_has_no_slope():
    with pytest.warns(UndefinedWarning, match="slope"):
        found = inference.cox_calibration([1, 0], [0.3, 0.3])
    assert math.isnan(found.slope.value)
    assert found.in_the_large.value > 0


def test_what_was_impossible_in_both_forecasts_gives_no_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = calibrant.compare([1, 1], [[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2, metrics=["nll"])
    assert found["nll"].interval is None


def test_too_many_columns_are_refused():
    with pytest.raises(InputError, match="3 columns"):
        calibrant.metric("nll", Y, [0.1, 0.2], [1.0, 1.0], task="classes")


def test_a_narrow_kernel_sees_forecasts_that_almost_agree():
    p = np.array([[1.0636939e-38, 1.0], [0.0, 1.0]])
    assert metrics.skce([0, 0], p, kernel="gaussian") == pytest.approx(2 * math.exp(-0.5), rel=1e-6)


def test_forecasts_that_differ_by_rounding_alone_keep_their_distance():
    p = np.array([[1.0, 0.0], [1.0, 1.4541533e-08]], dtype=np.float32)
    assert metrics.skce([1, 1], p) == pytest.approx(2 * math.exp(-1), rel=1e-6)


def test_an_interval_is_that_of_a_metric_of_classes():
    with pytest.raises(InputError, match="name"):
        calibrant.interval("crps", Y, P)


def test_a_name_is_a_name():
    for name in (SQUARE, None, 3, object()):
        with pytest.raises(InputError, match="name"):
            calibrant.metric(name, Y, P)
    for given in (3, object(), [3]):
        with pytest.raises(InputError, match="metrics"):
            calibrant.evaluate(Y, P, metrics=given)
        with pytest.raises(InputError, match="metrics"):
            calibrant.compare(Y, P, Q, metrics=given)


def test_a_task_that_is_no_word_is_refused():
    with pytest.raises(InputError, match="task of list_calibrators must be one of"):
        calibrant.list_calibrators(task=np.array([1, 2]))


def test_text_among_logits_of_a_plot_is_refused_by_name():
    pytest.importorskip("matplotlib", reason="matplotlib is absent (extra: plots)")
    logits = np.array([[-71.4, -133.1, "x"]], dtype=object)
    with pytest.raises(CalibrantError, match="logits of plot_against_temperature must be numeric"):
        plots.plot_against_temperature(np.array([2]), logits)
