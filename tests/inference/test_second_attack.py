"""Found by new generators: rare classes in clusters and under weights, weights that follow the outcome, windows of days."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr

import calibrant
from calibrant import Summary
from calibrant.core.class_draws import class_draws
from calibrant.core.inputs import check_forecast
from calibrant.core.moments import clustered_null
from calibrant.inference import test_calibration
from calibrant.inference.cox import _covariance
from calibrant.monitoring import compare_windows
from calibrant.views import ClassK


def shared_noise(rng, groups, alike):
    """Uniform numbers that are alike inside clusters."""
    common = rng.standard_normal(groups.max() + 1)[groups]
    return ndtr(np.sqrt(alike) * common + np.sqrt(1 - alike) * rng.standard_normal(len(groups)))


def rare_six(rng, groups, alike=0.3):
    """Six classes of which four are rare, calibrated."""
    z = np.array([2.0, 1.5, -3.5, -4.0, -4.5, -5.0]) + 0.7 * rng.standard_normal((len(groups), 6))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return (shared_noise(rng, groups, alike)[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1), p


@pytest.mark.parametrize("weighted", [False, True])
def test_rare_classes_are_not_named_by_chance(weighted):
    """Signs alone named a class in 68% (20 clusters) and 95% (weights) of calibrated samples."""
    rng, named = np.random.default_rng(5), 0
    for seed in range(8):
        groups = np.arange(500) if weighted else np.repeat(np.arange(20), 50)
        y, p = rare_six(rng, groups)
        more = {"sample_weight": rng.uniform(0.5, 1.5, len(y))} if weighted else {"groups": groups}
        named += bool(calibrant.evaluate(y, p, n_resamples=100, metrics=["cwce"], rng=seed, **more).facts.class_gaps)
    assert named <= 1


def test_a_class_that_is_off_in_clusters_is_named():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 25)
    y, p = rare_six(rng, groups, 0.1)
    y[rng.random(1000) < 0.1] = 2  # a rare class comes in 10% of the rows more than predicted
    found = calibrant.evaluate(y, p, groups=groups, n_resamples=400, metrics=["cwce"], rng=0)
    assert 2 in [gap.name for gap in found.facts.class_gaps]
    assert found["cwce"].pvalue < 0.05


def test_draws_of_classes_have_the_mean_and_the_spread_of_the_forecasts():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 10)
    y, p = rare_six(rng, groups, 0.0)
    forecast = check_forecast(y, p, caller="test")
    for law in list(class_draws(forecast, groups, 4000, rng))[1:]:
        spread = law.std(axis=0)
        assert np.abs(law.mean(axis=0)) == pytest.approx(np.zeros(6), abs=5 * spread.max() / np.sqrt(4000))
        assert (spread > 0.9 * np.sqrt((p * (1 - p)).sum(axis=0))).all()


def test_sure_forecasts_of_three_classes_in_clusters():
    """One surprise was due in a hundred rows and none came: all residuals have one sign, which says nothing."""
    p = np.tile([0.99, 0.005, 0.005], (100, 1))
    found = test_calibration(
        np.zeros(100, int), p, method="spiegelhalter", groups=np.repeat(np.arange(20), 5), n_resamples=400, rng=0
    )
    assert found.pvalue > 0.3  # was 0.0025


def test_weights_that_follow_the_outcome():
    """Events were kept at 1 in 5.5: 4.4 were due, one or none comes in 7% of the samples."""
    p, y = np.full(600, 0.04), np.arange(600) == 7
    weight = np.where(y, 5.5, 1.0)
    found = calibrant.evaluate(y, p, sample_weight=weight, metrics=["ks@class-1"], rng=0)
    assert found["ks@class-1"].pvalue > 0.04
    assert found.verdict.pvalue > 0.04
    q, classes = np.stack([1 - p, p / 2, p / 2], axis=1), np.where(y, 1, 0)
    assert not calibrant.evaluate(classes, q, sample_weight=weight, metrics=["cwce"], rng=0).facts.class_gaps


def test_few_events_under_weights_are_no_proof():
    rng = np.random.default_rng(2)
    p, weight = np.full(800, 0.01), rng.uniform(0.9, 1.1, 800)
    found = calibrant.evaluate(np.arange(800) < 3, p, sample_weight=weight, metrics=["brier", "nll", "accuracy"], rng=0)
    assert found["brier"].pvalue > 0.05  # 3 where 8 are due: 4.2% on one side; was 0.003
    assert found["nll"].pvalue > 0.05
    none = calibrant.evaluate(np.zeros(800, int), p, sample_weight=weight, metrics=["brier", "accuracy"], rng=0)
    assert all(result.interval is None for result in none)  # accuracy was 100% [100%, 100%]
    assert none.verdict.gap is None
    # the law of labels never makes a p-value smaller
    second, third = p * (1 - p), p * (1 - p) * (1 - 2 * p)
    law = clustered_null(0.0, [(np.arange(800) < 40) - p, second, third], weight, np.arange(800))
    assert law.pvalue() < 1e-4


def test_accuracy_does_not_change_by_a_point():
    """Where hardly any top label changes, how far it varies over clusters or weighted rows is unknown."""
    rng = np.random.default_rng(3)
    p = expit(1.3 * rng.standard_normal(600))
    y, q = rng.random(600) < p, expit(logit(p) + 0.01)
    for more in ({"sample_weight": rng.uniform(0.5, 1.5, 600)}, {"groups": np.arange(600) // 20}):
        found = calibrant.compare(y, p, q, metrics=["accuracy", "brier"], **more)
        assert found["accuracy"].interval is None
        assert found["accuracy"].pvalue is None
        assert any("change their top label" in note for note in found.notes)
        assert found["brier"].interval is not None
        far = calibrant.compare(y, p, expit(logit(p) + 1.0), metrics=["accuracy"], **more)
        assert far["accuracy"].interval.low < far["accuracy"].interval.high


def test_a_claim_without_events_has_no_interval_of_a_point():
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(20), 20)
    p = np.where(groups < 15, 0.02, 0.6)
    y = (groups >= 15) & (rng.random(400) < 0.6)
    found = calibrant.evaluate(y, p, groups=groups, n_resamples=100, rng=0)
    assert found.facts.claim_interval is None


# -- windows of the monitor -----------------------------------------------------------------------


def days_that_move(rng, n, shift=0.0):
    """Days whose rows move together, calibrated on average."""
    out = []
    for _ in range(n):
        p = rng.uniform(0.1, 0.9, 300)
        out.append(Summary(2).update(shared_noise(rng, np.zeros(300, int), 0.2) < expit(logit(p) + shift), p))
    return out


def added(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def test_windows_take_whole_days_where_rows_of_a_day_depend():
    rng = np.random.default_rng(6)
    by_row, by_day, how = [], [], {"n_resamples": 199, "view": ClassK(1)}
    for seed in range(20):
        old, new = days_that_move(rng, 7), days_that_move(rng, 7)
        rows = compare_windows(added(old), added(new), rng=seed, **how)
        days = compare_windows(added(old), added(new), days=(old, new), rng=seed, **how)
        assert rows.ks == days.ks
        by_row, by_day = [*by_row, rows.ks_pvalue < 0.05], [*by_day, days.ks_pvalue < 0.05]
    assert sum(by_row) >= 12
    assert sum(by_day) <= 3
    old, new = days_that_move(rng, 7), days_that_move(rng, 7, 2.5)
    assert compare_windows(added(old), added(new), days=(old, new), rng=0, **how).ks_pvalue < 0.02


def test_few_days_are_not_tested(tmp_path):
    rng = np.random.default_rng(7)
    for i, day in enumerate(days_that_move(rng, 8)):
        found = calibrant.monitor(tmp_path / "store", day, name=f"day{i}", unit="day")
    assert found.window.ks_pvalue is None
    assert all(change.pvalue is None and change.interval is None for change in found.window.changes)
    assert "8 days are too few to test the window" in str(found)
    assert "calibrant_window_pvalue{" not in found.to_openmetrics()


# -- slope in clusters ----------------------------------------------------------------------------


def test_clusters_at_the_ends_of_the_scores_decide_a_slope():
    """Two of thirty clusters have scores of their own: for the slope they are two, for the mean risk all thirty."""
    rng = np.random.default_rng(8)
    groups = np.repeat(np.arange(30), 30)
    odds = np.where(groups < 28, 0.0, 2.0) + 0.1 * rng.standard_normal(900)
    y = (rng.random(900) < expit(odds)).astype(float)
    _, counted = _covariance(odds, y, np.ones(900), np.array([0.0, 1.0]), groups, slope=True)
    _, whole = _covariance(odds, y, np.ones(900), np.array([0.0, 1.0]), groups, slope=False)
    assert counted[1] < 4
    assert whole[0] > 25
