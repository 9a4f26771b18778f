"""Intervals, tests and comparisons: hand values and small simulations; the large ones are in the slow lane."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import calibrant
from calibrant.core.moments import Moments, mean_ends, mean_moments, wilson
from calibrant.core.resampling import brownian_excursion
from calibrant.core.tables import Pairs
from calibrant.errors import CoverageWarning, InputError
from calibrant.inference import (
    classwise_tests,
    ece_bias,
    equivalence_test,
    expected_ece,
    hosmer_lemeshow_test,
    required_sample_size,
    sliced_tests,
    spiegelhalter_test,
)
from calibrant.inference.noise import cell_sums


def forecasts(n, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.5, 1, n)
    return rng.random(n) < np.clip(p - shift, 0, 1), p


def test_normal_interval_by_hand():
    y, p = [1, 0, 1, 0], [0.9, 0.2, 0.7, 0.4]
    rows = np.array([0.02, 0.08, 0.18, 0.32])
    found = calibrant.interval("brier", y, p, method="normal")
    half = 3.182446 * rows.std(ddof=1) / 2  # t with three degrees of freedom
    assert (found.low, found.high) == pytest.approx((max(0, rows.mean() - half), rows.mean() + half), abs=1e-6)
    assert found.method == "normal"


def test_wilson_by_hand():
    low, high = wilson(0.9, 10, 0.95)
    z = 1.959964
    assert low == pytest.approx(((0.9 + z * z / 20) - z * math.sqrt(0.009 + z * z / 400)) / (1 + z * z / 10), abs=1e-6)
    assert high <= 1


def test_hall_reduces_to_normal_without_skewness():
    moments = Moments(1.0, 0.1, 0.0, 50.0)
    assert mean_ends(moments, 0.95, skew=True) == mean_ends(moments, 0.95, skew=False)
    skewed = mean_ends(Moments(1.0, 0.1, 2.0, 50.0), 0.95, skew=True)
    assert skewed[1] - 1.0 > 1.0 - skewed[0]  # a long right tail: the mean may be larger


def test_clusters_widen_the_interval():
    """Forty rows ten times each, said to be forty clusters, are forty rows."""
    y, p = forecasts(400)
    groups = np.repeat(np.arange(40), 10)
    rows, columns = np.repeat(y[:40], 10), np.repeat(p[:40], 10)
    plain = calibrant.interval("brier", rows, columns)
    clustered = calibrant.interval("brier", rows, columns, groups=groups)
    once = calibrant.interval("brier", y[:40], p[:40], method="hall")
    assert (clustered.low, clustered.high) == pytest.approx((once.low, once.high), rel=1e-9)
    assert clustered.high - clustered.low > 3 * (plain.high - plain.low)


def test_the_far_end_allows_for_values_that_did_not_come():
    """Squares of heavy tails: a sample without its large values has a small mean, error and skewness all at once."""
    rng = np.random.default_rng(4)
    hits, hall = 0, 0
    for _ in range(1000):
        x = np.exp(1.2 * rng.standard_normal(200)) * rng.standard_normal(200) ** 2
        moments = mean_moments(x, None, None)
        low, high = mean_ends(moments, 0.95)
        mirrored = mean_ends(Moments(-moments.mean, moments.error, -moments.skewness, moments.count), 0.95)
        assert mirrored == pytest.approx((-high, -low))
        hits += low <= math.exp(0.72) <= high
        step, z = moments.skewness / math.sqrt(200), 1.972
        reach = 3 / step * (1 - np.cbrt(1 - step * (z + step / 6)))  # Hall's own end
        hall += low <= math.exp(0.72) <= moments.mean + reach * moments.error
    assert hits >= 932  # 94.5% in 100,000 samples; Hall's own 92%
    assert hits > hall + 10


def test_bca_agrees_with_hall():
    y, p = forecasts(500)
    a, b = calibrant.interval("nll", y, p, method="bca", rng=0), calibrant.interval("nll", y, p)
    assert (a.low, a.high) == pytest.approx((b.low, b.high), rel=0.05)


def test_percentile_warns_and_auto_refuses():
    y, p = forecasts(300)
    with pytest.warns(CoverageWarning):
        calibrant.interval("smece", y, p, method="percentile", n_resamples=20, rng=0)
    with pytest.raises(InputError, match="percentile"):
        calibrant.interval("smece", y, p)


@pytest.mark.parametrize("name", ["ks", "ece", "tce", "mmce"])
def test_error_intervals_cover_near_zero_and_far_from_it(name):
    """50 repeats each: at least 86% must cover (nominal 95; three standard errors are 9); more in the slow lane."""
    truth = {}
    for shift in (0.0, 0.1):
        y, p = forecasts(400_000, shift, 99)
        truth[shift] = 0.0 if shift == 0 else calibrant.metric(name, y, p)
    for shift, value in truth.items():
        inside = [value in calibrant.interval(name, *forecasts(500, shift, seed), rng=seed) for seed in range(50)]
        assert np.mean(inside) >= 0.86


def test_spiegelhalter_by_hand():
    p, y = np.array([0.6, 0.7, 0.8, 0.6]), np.ones(4)
    z = ((y - p) * (1 - 2 * p)).sum() / math.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    found = spiegelhalter_test([1, 1, 1, 1], p, n_resamples=5000, rng=0)
    assert found.statistic == pytest.approx(z)
    outcomes = np.array(list(itertools.product([0, 1], repeat=4)))
    chance = np.where(outcomes, p, 1 - p).prod(axis=1)
    each = ((outcomes - p) * (1 - 2 * p)).sum(axis=1) / math.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    assert found.pvalue == pytest.approx(chance[np.abs(each) >= abs(z) - 1e-9].sum(), abs=0.03)


def test_hosmer_lemeshow_by_hand():
    y, p = [1, 0, 1, 1, 1, 0], [0.6, 0.6, 0.6, 0.9, 0.9, 0.9]
    found = hosmer_lemeshow_test(y, p, n_groups=2)
    expected = (2 - 1.8) ** 2 / (3 * 0.24) + (2 - 2.7) ** 2 / (3 * 0.09)
    assert found.statistic == pytest.approx(expected)
    outcomes = np.array(list(itertools.product([0, 1], repeat=6)))
    chance = np.where(outcomes, p, 1 - np.array(p)).prod(axis=1)
    gaps = (outcomes - np.array(p)).reshape(-1, 2, 3).sum(axis=2)
    each = (gaps**2 / (3 * np.array([0.24, 0.09]))).sum(axis=1)
    exact = chance[each >= expected - 1e-9].sum()
    assert hosmer_lemeshow_test(y, p, n_groups=2, n_resamples=5000, rng=0).pvalue == pytest.approx(exact, abs=0.03)


def test_brownian_excursion_by_simulation():
    rng = np.random.default_rng(0)
    walks = np.abs(np.cumsum(rng.standard_normal((4000, 1500)), axis=1)).max(axis=1) / 1500**0.5
    for x in (1.0, 1.5, 2.0):
        assert brownian_excursion(x) == pytest.approx((walks > x).mean(), abs=0.035)
    assert brownian_excursion(2.999) == pytest.approx(brownian_excursion(3.001), rel=0.02)


@pytest.mark.parametrize("method", ["ks", "skce", "hosmer-lemeshow", "spiegelhalter", "resampling"])
def test_size_and_power_in_small(method):
    """100 calibrated samples: at most 12 rejections at 5%; a clear error is found."""
    pvalues = [
        calibrant.test_calibration(*forecasts(200, 0.0, seed), method=method, n_resamples=99, rng=seed).pvalue
        for seed in range(100)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.12
    assert calibrant.test_calibration(*forecasts(600, 0.2, 1), method=method, n_resamples=200, rng=0).pvalue < 0.02


def test_many_tests_are_corrected():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 2000)
    y = (rng.random(2000)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, 2)
    found = classwise_tests(y, p, rng=0, n_resamples=200)
    assert min(r.pvalue for r in found.values()) > 0.05
    yes, score = forecasts(3000, 0.0)
    part = np.repeat(["a", "b", "c"], 1000)
    yes = np.where(part == "b", np.random.default_rng(1).random(3000) < score - 0.25, yes)
    sliced = sliced_tests(yes, score, part, rng=0, n_resamples=200)
    assert sliced["b"].pvalue == 1 / 201  # no p-value is smaller than its draws support
    assert min(sliced["a"].pvalue, sliced["c"].pvalue) > 0.05


def test_equivalence():
    clear = equivalence_test(*forecasts(20_000), epsilon=0.03, rng=0)
    assert clear.pvalue < 0.05
    assert equivalence_test(*forecasts(20_000, 0.1), epsilon=0.03, rng=0).pvalue >= 0.5
    assert equivalence_test(*forecasts(20_000), epsilon=0.03, error="tce", rng=0).pvalue < 0.05


def test_path_skewness_is_that_of_the_rows():
    from scipy.stats import skew

    rng = np.random.default_rng(0)
    score = np.sort(rng.uniform(0.6, 1.0, 500))
    pairs = Pairs(score, rng.random(500) < score)
    index = np.arange(500) // 50
    found = cell_sums(pairs, index, 10).path_skewness()
    residual = pairs.outcome - score
    assert found == pytest.approx([skew(residual * (index <= c)) for c in range(10)], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "gap"), [(100, 0.1), (300, 0.06), (1000, 0.05)])
def test_the_upper_limit_of_ks_keeps_its_level_when_misses_are_rare(n, gap):
    below = 0
    for seed in range(800):
        rng = np.random.default_rng(seed)
        score = 1 - 0.2 * rng.random(n) ** 2
        y = rng.random(n) < np.clip(score - gap, 0, 1)
        below += calibrant.interval("ks", y.astype(int), score, level=0.9, rng=0).high < gap
    assert below / 800 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 800)


def test_expected_ece_matches_resampling():
    y, p = forecasts(2000)
    floor = expected_ece(2000, y, p, calibrated=True)[0]
    null = calibrant.evaluate(y, p, rng=0)["ece"]
    assert floor == pytest.approx(null.null_mean, rel=0.05)
    assert expected_ece([500, 8000], y, p, calibrated=True)[0] == pytest.approx(2 * floor, rel=1e-9)
    bias = ece_bias(y, p)
    assert bias.if_calibrated == pytest.approx(floor)
    n = required_sample_size(0.02, y, p)
    assert expected_ece(n, y, p, calibrated=True)[0] <= 0.01 + 1e-9


def test_two_classes_are_judged_by_class_1_everywhere():
    """One rule: without a view an error of two classes is that of class 1, whoever is asked."""
    rng = np.random.default_rng(1)
    p = rng.random(2000)
    y = (rng.random(2000) < p**1.2).astype(int)
    whole = calibrant.evaluate(y, p, metrics=["ks@class-1", "ks@top-1", "ece@class-1"], rng=0)
    event, top = whole["ks@class-1"].value, whole["ks@top-1"].value
    assert event > 2 * top
    assert calibrant.interval("ks", y, p, rng=0).value == event
    assert calibrant.interval("ks", y, p, rng=0) == calibrant.interval("KS@class-1", y, p, rng=0)
    assert calibrant.interval("ks", y, p, rng=0) == calibrant.interval("ks", y, p, view="class-1", rng=0)
    assert calibrant.interval("ks@top-1", y, p, rng=0).value == top
    assert calibrant.interval("ks", y, p, view="top-1", rng=0).value == top
    assert equivalence_test(y, p, epsilon=0.1).statistic == event
    assert ece_bias(y, p).value == pytest.approx(whole["ece@class-1"].value)
    assert ece_bias(y, p).if_calibrated == pytest.approx(whole["ece@class-1"].null_mean, rel=0.05)
    floor = expected_ece(2000, y, p, calibrated=True)[0]
    assert floor == pytest.approx(whole["ece@class-1"].null_mean, rel=0.05)
    assert required_sample_size(2 * floor, y, p) == 2000
    with pytest.raises(InputError, match=r"view of interval .*class-1"):
        calibrant.interval("ks@class-1", y, p, view="top-1")
    with pytest.raises(InputError, match="name of interval"):
        calibrant.interval(["ks"], y, p)


def test_compare_is_paired_and_knows_injective_maps():
    y, p = forecasts(3000, 0.1)
    better = np.clip(p - 0.1, 0, 1)
    found = calibrant.compare(y, p, better, injective=True)
    brier = found["brier"]
    rows = 2 * (p - y) ** 2 - 2 * (better - y) ** 2
    assert brier.change == pytest.approx(rows.mean())
    assert brier.exact
    assert not found["ece"].exact
    z = rows.mean() / (rows.std(ddof=1) / 3000**0.5)
    assert math.erfc(abs(z) / math.sqrt(2)) < brier.pvalue == 1e-8  # the least p-value an interval is asked for
    assert found.verdict.startswith("Better: the Brier score falls by")
    assert calibrant.compare(y, p, p)["brier"].pvalue == 1.0
    assert found.to_dict()["metrics"]["brier"]["exact"] is True
    with pytest.raises(InputError, match="classes"):
        calibrant.compare([0, 1], [[0.5, 0.5]] * 2, [[0.5, 0.25, 0.25]] * 2)


def test_no_percentile_for_canonical_methods():
    y, p = forecasts(100)
    with pytest.raises(InputError, match="method"):
        calibrant.interval("brier", y, p, method="magic")


@pytest.mark.parametrize("k", [2, 3])
def test_kernel_test_and_metric_are_one_number_where_forecasts_tie(k):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1] * k, 30)[rng.integers(0, 30, 400)]
    y = rng.integers(0, k, 400)
    tested = calibrant.test_calibration(y, p, method="skce", n_resamples=9, rng=0)
    assert tested.statistic == pytest.approx(calibrant.metric("skce", y, p), rel=1e-9)


def test_class_errors_without_a_null_say_so(monkeypatch):
    """With clusters and more than five million scores no class-wise error is drawn."""
    for module in ("estimators.estimator", "inference.evaluation"):
        monkeypatch.setattr(f"calibrant.{module}.KEPT_CELLS", 1000)
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 600)
    y, groups = (p.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1), np.repeat(np.arange(60), 10)
    many = calibrant.evaluate(y, p, groups=groups, n_resamples=20, rng=0)
    assert many["cwce"].pvalue is None
    told = "no p-value of cwce: rows come in clusters, and there are more than 1,000 scores"
    assert many.notes == (told,)
    few = calibrant.evaluate(y[:300], p[:300], groups=groups[:300], n_resamples=20, rng=0)
    assert few["cwce"].pvalue is not None
    assert few.notes == ()
