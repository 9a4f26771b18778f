"""Curves carry the numbers that the metrics report."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import metrics
from calibrant.errors import InputError
from calibrant.estimators import Isotonic, Local


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.7] * 4, 800)
    return np.array([rng.choice(4, p=0.8 * row + 0.05) for row in p]), p


@pytest.mark.parametrize("bins", ["width", "mass"])
def test_reliability_gives_ece(data, bins):
    curve = metrics.reliability_curve(*data, bins=bins)
    error = (curve.count * np.abs(curve.frequency - curve.score)).sum() / curve.count.sum()
    assert error == pytest.approx(calibrant.metric("ece", *data, bins=bins))
    assert (curve.low <= curve.frequency).all()
    assert (curve.frequency <= curve.high).all()
    assert (curve.expected_low <= curve.score).all()
    assert (curve.score <= curve.expected_high).all()


def test_cumulative_gives_ks(data):
    curve = metrics.cumulative_curve(*data, view="within-2")
    assert curve.ks == pytest.approx(calibrant.metric("ks", *data, view="within-2"))
    assert curve.fractile[-1] == pytest.approx(1)


def test_isotonic_adds_up(data):
    curve = metrics.isotonic_curve(*data)
    parts = curve.miscalibration - curve.discrimination + curve.uncertainty
    assert parts == pytest.approx(calibrant.metric("brier", *data, view="top-1"), abs=1e-12)
    assert (np.diff(curve.frequency) >= 0).all()
    error = (curve.count * np.abs(curve.frequency - curve.score)).sum() / curve.count.sum()
    assert error == pytest.approx(metrics.calibration_error(*data, estimator=Isotonic()))


def test_local_curve_equals_its_definition(data):
    """Two weighted sides of every canonical point, one half each."""
    y, p = data
    s, t = p.max(axis=1), p.argmax(axis=1) == y
    curve = metrics.local_curve(y, p, decay=0.8)
    for k in (40, 55, 70, 90):
        q = k / 100
        sides = []
        for side in (s <= q, s > q):
            w = 0.8 ** (np.abs(s[side] - q) / 0.01)
            sides.append((w * t[side]).sum() / w.sum())
        assert curve.frequency[k] == pytest.approx(np.mean(sides), rel=1e-9)
    error = np.abs(s - curve(s)).mean()
    assert error == pytest.approx(metrics.calibration_error(y, p, estimator=Local(0.8)))


@pytest.mark.parametrize("low", [0.0, 1e-12, 1e-9])
def test_the_left_side_of_zero_holds_zero_alone(low):
    """A score a hair above a canonical point belongs to its right side."""
    rng = np.random.default_rng(5)
    s = np.concatenate([np.full(60, low), rng.uniform(0.002, 0.3, 340)])
    t = rng.uniform(size=400) < np.where(s == low, 0.4, 0.05)
    curve = metrics.local_curve(t.astype(int), s, view="class-1", decay=0.8)
    weight = 0.8 ** (s / 0.01)
    sides = [np.average(t[side], weights=weight[side]) for side in (s <= 0, s > 0) if side.any()]
    assert curve.frequency[0] == pytest.approx(np.mean(sides), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bins": "quantile"}, "bins of .* must be one of width, mass; got 'quantile'"),
        ({"n_bins": 0}, "n_bins of .* must be a whole number of at least 1"),
        ({"n_bins": 2.5}, "n_bins of .* must be a whole number of at least 1"),
        ({"n_bins": True}, "n_bins of .* must be a whole number of at least 1"),
    ],
)
def test_curves_and_class_tables_check_bins_where_metrics_do(data, options, words):
    for ask in (metrics.reliability_curve, metrics.class_table, metrics.ece):
        with pytest.raises(InputError, match=words):
            ask(*data, **options)


@pytest.mark.parametrize("level", [0, 1, 2, -1, "a", None])
def test_levels_of_bands_lie_between_0_and_1(data, level):
    with pytest.raises(InputError, match="level of reliability_curve must"):
        metrics.reliability_curve(*data, level=level)


def test_class_table(data):
    table = metrics.class_table(*data)
    assert table.error.mean() == pytest.approx(calibrant.metric("sce", *data))
    assert table.share.sum() == pytest.approx(1)


def test_a_curve_needs_one_group(data):
    with pytest.raises(InputError, match="class-0"):
        metrics.reliability_curve(*data, view="classwise")


def test_entropy_is_smoothed_alike_on_both_sides_of_a_chunk():
    """The one more row of 65,537 was smoothed around the accuracy that the entropy promises, not around the score."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.7] * 3, 65_537)
    y = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(0, 2)
    few, many = (calibrant.metric("smece", y[:n], p[:n], view="entropy") for n in (65_536, 65_537))
    assert many == pytest.approx(few, abs=1e-4)
    assert many == pytest.approx(
        calibrant.evaluate(y, p, metrics=["smece@entropy"], n_resamples=0)["smece@entropy"].value, rel=1e-12
    )


@pytest.mark.parametrize("bins", ["width", "mass"])
def test_equal_weights_of_any_size_leave_the_ends_of_reliability_alone(data, bins):
    plain = metrics.reliability_curve(*data, bins=bins)
    for weight in (0.013, 1000.5):
        curve = metrics.reliability_curve(*data, bins=bins, sample_weight=np.full(800, weight))
        for name in ("low", "high", "expected_low", "expected_high"):
            np.testing.assert_allclose(getattr(curve, name), getattr(plain, name), rtol=1e-9, err_msg=name)
        assert curve.notes == ("weights are importance weights: 800 rows are worth 800 equally weighted ones",)
    assert plain.notes == ()


def test_weights_that_differ_widen_the_ends_of_reliability_and_counts_narrow_them(data):
    weight = np.random.default_rng(1).gamma(0.5, 1.0, 800)
    curve = metrics.reliability_curve(*data, n_bins=5, sample_weight=weight)
    confidence = data[1].max(axis=1)
    inside = weight[(confidence > 0.8) & (confidence <= 1.0)]
    from calibrant.core.moments import wilson

    worth = inside.sum() ** 2 / (inside @ inside)
    assert curve.count[-1] == pytest.approx(inside.sum())
    np.testing.assert_allclose((curve.low[-1], curve.high[-1]), wilson(curve.frequency[-1], worth, 0.95))
    double = metrics.reliability_curve(*data, n_bins=5, sample_weight=np.full(800, 2))
    twice = metrics.reliability_curve(*(np.repeat(one, 2, axis=0) for one in data), n_bins=5)
    np.testing.assert_allclose(double.low, twice.low)
    np.testing.assert_allclose(double.expected_low, twice.expected_low)
