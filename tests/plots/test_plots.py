"""Displays hold the library's numbers, and the axes show what the displays hold."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import calibrant
from calibrant import plots, regression, selective
from calibrant.calibrators import AutoCalibrator, Compose, Identity, TemperatureScaling
from calibrant.core.links import softmax
from calibrant.errors import InputError
from calibrant.views import ClassK


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(1500, 4))
    y = (softmax(logits / 2).cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    return y, softmax(logits), logits


def line(ax: Any, label: str) -> Any:
    return next(item for item in ax.get_lines() if item.get_label() == label)


def test_reliability_bins_are_the_measure(rows: Any) -> None:
    y, p, _ = rows
    for bins in ("width", "mass"):
        shown = plots.plot_reliability(y, p, bins=bins, n_resamples=50)
        error = (shown.weight * abs(shown.x - shown.y)).sum() / shown.weight.sum()
        assert error == pytest.approx(calibrant.metric("ece", y, p, bins=bins), abs=1e-14)
        np.testing.assert_allclose(shown.ax.collections[-1].get_offsets(), np.column_stack([shown.x, shown.y]))
        assert shown.count.sum() == len(y)
    assert (shown.low <= shown.high).all()


def test_reliability_band_holds_a_calibrated_model() -> None:
    rng = np.random.default_rng(5)
    p = rng.uniform(size=4000)
    y = rng.uniform(size=4000) < p
    for curve in ("bins", "isotonic", "smooth", "local"):
        shown = plots.plot_reliability(y, p, view="class-1", curve=curve, n_resamples=100)
        inside = (shown.y >= shown.low - 1e-12) & (shown.y <= shown.high + 1e-12)
        assert inside.mean() > 0.75, curve
        off = plots.plot_reliability(y, p**3, view="class-1", curve=curve, n_resamples=100)
        assert ((off.y < off.low) | (off.y > off.high)).mean() > 0.5, curve


def test_reliability_curves(rows: Any) -> None:
    y, p, _ = rows
    isotonic = plots.plot_reliability(y, p, curve="isotonic", n_resamples=0)
    assert (np.diff(isotonic.y) >= -1e-12).all()
    assert isotonic.low is None
    smooth = plots.plot_reliability(y, p, curve="smooth", n_resamples=0)
    assert ((smooth.y >= 0) & (smooth.y <= 1)).all()
    drawn = smooth.ax.get_lines()[-1]
    np.testing.assert_array_equal(drawn.get_xdata(), smooth.x)
    np.testing.assert_array_equal(drawn.get_ydata(), smooth.y)


def test_smooth_curve_follows_a_known_truth() -> None:
    rng = np.random.default_rng(2)
    p = rng.uniform(size=40_000)
    y = rng.uniform(size=40_000) < 0.25 + 0.5 * p
    shown = plots.plot_reliability(y, p, view="class-1", curve="smooth", n_resamples=0)
    middle = (shown.x > 0.2) & (shown.x < 0.8)
    np.testing.assert_allclose(shown.y[middle], 0.25 + 0.5 * shown.x[middle], atol=0.03)


def test_reliability_views_and_axes(rows: Any) -> None:
    y, p, _ = rows
    within = plots.plot_reliability(y, p, view="within-2", n_resamples=0)
    error = (within.weight * abs(within.x - within.y)).sum() / within.weight.sum()
    assert error == pytest.approx(calibrant.metric("ece", y, p, view="within-2"), abs=1e-12)
    _, ax = plt.subplots()
    assert plots.plot_reliability(y, p, ax=ax, n_resamples=0, counts=False).ax is ax
    assert ax.get_xlabel() == "confidence of the top label"
    logit = plots.plot_reliability(y, p, scale="logit", n_resamples=0)
    assert logit.ax.get_xscale() == "logit"
    with pytest.raises(InputError, match="curve"):
        plots.plot_reliability(y, p, curve="spline")


def test_classwise_small_multiples(rows: Any) -> None:
    y, p, _ = rows
    shown = plots.plot_reliability(y, p, view="classwise", n_resamples=0)
    assert len(shown.displays) == 4
    for k, part in enumerate(shown.displays):
        error = (part.weight * abs(part.x - part.y)).sum() / part.weight.sum()
        assert error == pytest.approx(calibrant.metric("ece", y, p, view=ClassK(k)), abs=1e-14)
        assert part.ax.get_title(loc="left") == f"class {k}"
    with pytest.raises(InputError, match="at least 4 axes"):
        plots.plot_reliability(y, p, view="classwise", n_resamples=0, ax=plt.subplots(1, 2)[1])


def test_ks_graphs(rows: Any) -> None:
    y, p, _ = rows
    for view in ("top-1", "rank-2", "within-2"):
        shown = plots.plot_ks(y, p, view=view)
        assert shown.ks == pytest.approx(calibrant.metric("ks", y, p, view=view), abs=1e-14)
        assert len(shown.ax) == 4
        np.testing.assert_array_equal(line(shown.ax[0], "claimed").get_ydata(), shown.score)
        np.testing.assert_array_equal(line(shown.ax[0], "happened").get_ydata(), shown.hits)
        np.testing.assert_array_equal(shown.ax[1].get_lines()[1].get_xdata(), shown.score)
        assert f"{100 * shown.ks:.2f}%" in shown.ax[0].texts[0].get_text()
        assert shown.fractile[0] == 0
        assert shown.fractile[-1] == pytest.approx(1)


def test_class_errors_average_to_the_measures(rows: Any) -> None:
    y, p, _ = rows
    shown = plots.plot_class_errors(y, p)
    for name, values in shown.errors.items():
        assert values.mean() == pytest.approx(calibrant.metric(name, y, p), abs=1e-12)
    heights = [bar.get_height() for bar in shown.ax.patches]
    np.testing.assert_allclose(heights, np.concatenate(list(shown.errors.values())))


def test_local_curves(rows: Any) -> None:
    y, p, _ = rows
    shown = plots.plot_local(y, p, decay=(0.8, 0.95), n_resamples=20)
    assert list(shown.curves) == [0.8, 0.95]
    np.testing.assert_array_equal(line(shown.ax, "decay 0.95").get_ydata(), shown.curves[0.95])
    reliability = plots.plot_reliability(y, p, curve="local", decay=0.8, n_resamples=0)
    np.testing.assert_array_equal(shown.curves[0.8], reliability.y)


@pytest.mark.parametrize("space", ["proba", "logit"])
def test_calibration_map(rows: Any, space: str) -> None:
    y, p, logits = rows
    two = TemperatureScaling().fit(p[:, 1], y == 1)
    shown = plots.plot_calibration_map(two, points=11)
    inside = np.clip(shown.before[1:-1], 0, 1)
    np.testing.assert_allclose(shown.after[0][1:-1], two.predict_proba(inside)[:, 1], atol=1e-9)
    fitted = TemperatureScaling(space=space).fit(p if space == "proba" else logits, y)
    many = plots.plot_calibration_map(fitted, points=5)
    assert many.after.shape == (4, 5)
    np.testing.assert_allclose(many.after[:, 2], many.after[0, 2], atol=1e-9)  # a temperature treats classes alike


def test_calibration_map_of_a_composite_takes_the_space_of_its_first_part(rows: Any) -> None:
    y, _, logits = rows
    plain = TemperatureScaling(space="logit").fit(logits, y)
    both = Compose(TemperatureScaling(space="logit"), Identity()).fit(logits, y)
    shown = [plots.plot_calibration_map(one, points=5).after for one in (plain, both)]
    np.testing.assert_allclose(shown[0], shown[1], atol=1e-9)


def test_calibration_map_on_the_simplex(rows: Any) -> None:
    y, p, _ = rows
    keep = y < 3
    three = p[keep, :3] / p[keep, :3].sum(axis=1, keepdims=True)
    shown = plots.plot_calibration_map(TemperatureScaling().fit(three, y[keep]), points=25)
    np.testing.assert_allclose(shown.before.sum(axis=1), 1)
    np.testing.assert_allclose(shown.after.sum(axis=1), 1)
    assert shown.ax.collections[0].U.shape == (len(shown.before),)


def test_against_temperature_bins_and_size(rows: Any) -> None:
    y, p, logits = rows
    warm = plots.plot_against_temperature(y, logits, metrics=("ece", "nll"), temperatures=[0.5, 1, 2])
    assert warm.values["ece"][1] == pytest.approx(calibrant.metric("ece", y, p), abs=1e-12)
    assert warm.values["nll"].argmin() == 2
    np.testing.assert_array_equal(line(warm.ax, "nll").get_ydata(), warm.values["nll"])
    assert warm.ax.get_xscale() == "log"
    binned = plots.plot_against_bins(y, p, n_bins=(5, 15), n_resamples=20)
    expected = [calibrant.metric("ece", y, p, n_bins=m) for m in (5, 15)]
    np.testing.assert_allclose(binned.values["ece"], expected, atol=1e-14)
    assert (binned.reference["ece"] < binned.values["ece"]).all()
    sized = plots.plot_against_sample_size(y, p, sizes=[100, 1500], n_repeats=5)
    assert sized.values["ks"][1] == pytest.approx(calibrant.metric("ks", y, p), abs=1e-12)
    assert sized.low["ece"][0] < sized.high["ece"][0]
    with pytest.raises(InputError, match="at most the 1500 rows"):
        plots.plot_against_sample_size(y, p, sizes=[2000])
    with pytest.raises(InputError, match="positive"):
        plots.plot_against_temperature(y, logits, temperatures=[0.0])


def test_two_classes_are_measured_as_the_verdict_judges_them() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(-1, 1, 800)
    y, p, logits = rng.random(800) < 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-2 * z)), np.stack([0 * z, 2 * z], 1)
    expected = calibrant.metric("ece", y, p, view="class-1")
    assert abs(expected - calibrant.metric("ece", y, p)) > 0.005
    for shown in (
        plots.plot_against_temperature(y, logits, metrics="ece", temperatures=[1.0]),
        plots.plot_against_bins(y, p, n_bins=[15], n_resamples=0),
        plots.plot_against_sample_size(y, p, metrics="ece", sizes=[800], n_repeats=1),
    ):
        assert shown.values["ece"][0] == pytest.approx(expected, abs=1e-12)
    top = plots.plot_against_bins(y, p, metrics="ece@top-1", n_bins=[15], n_resamples=0).values["ece@top-1"][0]
    assert top == pytest.approx(calibrant.metric("ece", y, p), abs=1e-12)


def test_selective_pictures(rows: Any) -> None:
    y, p, _ = rows
    risk = plots.plot_risk_coverage(y, p, by="confidence")
    curve = selective.risk_coverage_curve(y, p, by="confidence")
    np.testing.assert_array_equal(risk.ax.get_lines()[0].get_ydata(), curve.risk)
    assert risk.aurc == curve.aurc
    rejection = plots.plot_rejection(y, p)
    np.testing.assert_array_equal(
        line(rejection.ax, "error of the kept").get_ydata(), selective.rejection_curve(y, p).error
    )


def test_regression_pictures() -> None:
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.5, 2, 900)
    y = rng.normal(size=900) * np.sqrt(2 * variance)
    pit = plots.plot_pit(y, np.zeros(900), variance, n_bins=10)
    np.testing.assert_allclose([bar.get_height() for bar in pit.ax.patches[:10]], pit.share)
    assert tuple(pit.share) == regression.compute_pit(y, np.zeros(900), variance, n_bins=10).share
    spread = plots.plot_variance(y, np.zeros(900), variance, n_bins=6)
    table = regression.compute_variance_table(y, np.zeros(900), variance, n_bins=6)
    np.testing.assert_allclose(spread.error**2, table.mse)
    np.testing.assert_allclose(spread.ax.collections[-1].get_offsets(), np.column_stack([spread.spread, spread.error]))


def test_league_of_the_auto_calibrator(rows: Any) -> None:
    y, p, _ = rows
    fitted = AutoCalibrator(fast=True).fit(p[:500], y[:500])
    shown = plots.plot_methods(fitted)
    assert shown.method == tuple(fitted.cv_results_["method"])
    np.testing.assert_allclose(shown.gain, fitted.cv_results_["gain"].to_numpy())
    assert [label.get_text() for label in shown.ax.get_yticklabels()] == list(shown.method)
    assert plots.plot_methods(fitted.cv_results_).method == shown.method


def test_training_traces() -> None:
    trace = {"step": [1, 2, 3], "train": {"ece": [3, 2, 1]}, "held_out": {"ece": [4, 3, 2], "accuracy": [0, 1, 2]}}
    shown = plots.plot_training(trace, metrics=["ece"])
    np.testing.assert_array_equal(line(shown.ax, "ece, held out").get_ydata(), [4, 3, 2])
    assert line(shown.ax, "ece, train").get_linestyle() == "--"
    assert len(shown.ax.get_lines()) == 2


def test_displays_are_frozen_and_plain(rows: Any) -> None:
    y, p, _ = rows
    for shown in (plots.plot_reliability(y, p, n_resamples=5), plots.plot_ks(y, p), plots.plot_class_errors(y, p)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            shown.ks = 1.0
        numbers = shown.to_dict()
        assert "ax" not in numbers
        assert json.dumps(numbers)


def test_importing_draws_nothing() -> None:
    code = "import calibrant.plots, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
