"""evaluate, interval, compare: null distribution against brute force, coverage, verdicts, stable forms."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calibrant import regression as room
from calibrant.core.declare import declared
from calibrant.errors import InputError
from helpers import load_data


def rows(n=500, seed=0, over=1.0, bias=0.0):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n), rng.gamma(2.0, 1.0, n) + 0.05
    return mean + np.sqrt(variance) * (bias + over * rng.standard_normal(n)), mean, variance


def test_null_distribution_equal_resampled_truths():
    """What evaluate says of a calibrated model, against 400 truths drawn from the forecasts themselves."""
    y, mean, variance = rows(300)
    evaluation = room.evaluate(y, mean, variance, n_resamples=4000, rng=0)
    rng = np.random.default_rng(1)
    functions = {
        "mse": room.mean_squared_error,
        "dss": room.dss,
        "nll": room.nll_normal,
        "crps": room.crps,
        "ratio": room.se_variance_ratio,
        "pit-ks": room.pit_ks,
        "qce": room.quantile_calibration_error,
        "ence": room.ence,
        "vce": room.variance_calibration_error,
        "skce": room.skce,
    }
    draws = {name: [] for name in functions}
    for _ in range(400):
        fake = mean + np.sqrt(variance) * rng.standard_normal(300)
        for name, function in functions.items():
            draws[name].append(function(fake, mean, variance))
    for name, values in draws.items():
        result = evaluation[name]
        noise = np.std(values) / np.sqrt(400)
        assert abs(result.null_mean - np.mean(values)) < 4 * noise + 0.01 * np.std(values), name
        assert result.null_std == pytest.approx(np.std(values), rel=0.25), name


def test_values_are_those_of_the_functions():
    data = rows()
    evaluation = room.evaluate(*data, rng=0)
    assert evaluation["dss"].value == pytest.approx(room.dss(*data))
    assert evaluation["ence"].value == pytest.approx(room.ence(*data))
    assert evaluation["skce"].value == pytest.approx(room.skce(*data))
    assert evaluation["qce"].value == pytest.approx(room.quantile_calibration_error(*data))
    assert [r.name for r in evaluation] == [metric.name for metric in declared("regression") if metric.default]
    with pytest.raises(KeyError, match="ece"):
        _ = evaluation["ece"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "No gap found so far"),
        ({"over": 1.6}, "Errors are 1.6 times as large as the error bars say"),
        ({"over": 0.6}, "error bars too wide"),
        ({"bias": 0.8}, "means are too low"),
        ({"bias": -0.8}, "means are too high"),
    ],
)
def test_verdicts(options, words):
    assert words in room.evaluate(*rows(1000, 3, **options), rng=0).verdict


def test_sentence_says_one_thing():
    verdict = room.evaluate(*rows(1000, 3, over=1.6), rng=0).verdict
    assert verdict.sentence == "Intervals meant to contain 90% of outcomes contain 70.0%."
    assert verdict.endswith("gap +17.2 to +22.9 points; p < 0.001.")


def test_verdict_of_few_rows_is_modest():
    assert room.evaluate(*rows(30), rng=0).verdict.startswith("Cannot tell: too few rows to tell. 30 rows would hide")
    assert "variances wrong by 11% could hide" in room.evaluate(*rows(1000, 3), rng=0).verdict


def test_verdict_sees_errors_that_cancel_over_rows():
    y, mean, _ = rows(4000)
    flat = np.full(4000, np.mean((y - mean) ** 2))
    mixed = np.where(np.arange(4000) % 2, 2 * flat, flat / 2)
    resized = mixed * np.mean((y - mean) ** 2 / mixed)
    verdict = room.evaluate(y, mean, resized, rng=0).verdict
    assert verdict.status == "right on average"
    assert "not range by range" in verdict


def test_stable_forms():
    evaluation = room.evaluate(*rows(), rng=0, metrics=["dss", "ence"])
    plain = evaluation.to_dict()
    assert list(plain) == ["schema", "n", "metrics", "verdict", "judgment", "notes", "rejected", "skipped_files"]
    assert {"value", "null_mean", "pvalue", "low", "high"} <= set(plain["metrics"]["dss"])
    assert list(plain["metrics"]) == ["dss", "ence"]
    json.dumps(plain, allow_nan=False)
    assert evaluation.to_frame().height == 2
    assert "Verdict:" in str(evaluation)
    assert "<table" in evaluation._repr_html_()
    assert room.evaluate(*rows(), rng=5).to_dict() == room.evaluate(*rows(), rng=5).to_dict()


def test_weights():
    data = rows(200)
    weights = np.random.default_rng(0).integers(0, 3, 200)
    a = room.evaluate(*data, sample_weight=weights, rng=0)
    b = room.evaluate(*(np.repeat(column, weights) for column in data), rng=0)
    for name in ("mse", "dss", "nll", "crps", "bias", "ratio", "pit-ks", "qce", "ence", "vce"):
        assert a[name].value == pytest.approx(b[name].value), name
        assert a[name].null_mean == pytest.approx(b[name].null_mean), name
        if a[name].interval is not None:
            assert a[name].interval.low == pytest.approx(b[name].interval.low), name
    fractions = room.evaluate(*data, sample_weight=weights + 0.5)
    assert fractions["dss"].pvalue is None
    assert "not whole numbers" in str(fractions)


def test_samples_and_quantiles_are_evaluated_too():
    y, mean, variance = rows(300, over=2.0)
    draws = room.Samples(mean[:, None] + np.sqrt(variance)[:, None] * np.random.default_rng(0).normal(size=(300, 50)))
    evaluation = room.evaluate(y, draws, rng=0)
    assert evaluation["pit-ks"].pvalue < 0.01
    assert evaluation["dss"].null_mean is None
    assert evaluation.verdict.startswith("Not calibrated")


def test_intervals_and_groups():
    y, mean, variance = rows(400)
    plain = room.interval("dss", y, mean, variance)
    bca = room.interval("dss", y, mean, variance, method="bca", rng=0)
    assert plain.low < plain.value < plain.high
    assert bca.low == pytest.approx(plain.low, abs=0.1)
    assert bca.method == "bca"
    twice = [np.repeat(column, 2) for column in (y, mean, variance)]
    grouped = room.interval("dss", *twice, groups=np.repeat(np.arange(400), 2))
    assert grouped.high - grouped.low == pytest.approx(plain.high - plain.low, rel=0.01)
    wild = room.interval("mse", np.append(y, 1e6), np.append(mean, 0.0), np.append(variance, 1.0))
    assert wild.method == "hall"  # one row carries the mean and refutes its variance: corrected, none is withheld
    assert wild.high - wild.value > 3 * (wild.value - wild.low)
    with pytest.raises(InputError, match="metric of interval"):
        room.interval("ence", y, mean, variance)


def test_wrong_variances_do_not_decide_the_interval_of_a_mean():
    """Variances nine times too large once made intervals five times too long that missed in a third of all samples."""
    hits, length = 0, []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        variance = np.where(rng.random(200) < 0.05, 100.0, 1.0)
        y = np.sqrt(variance) * rng.standard_normal(200)
        wide, right = (room.interval("mse", y, np.zeros(200), scale * variance) for scale in (9, 1))
        hits += wide.low <= 5.95 <= wide.high
        length.append((wide.high - wide.low, right.high - right.low))
    assert hits >= 275  # 96%, three standard errors allowed
    assert np.median(length, axis=0)[0] < 1.5 * np.median(length, axis=0)[1]


def test_compare_is_paired():
    y, mean, variance = rows(800, over=1.5)
    after = room.StdScaling().fit(mean, variance, y).predict(mean, variance)
    comparison = room.compare(y, (mean, variance), after, injective=True)
    assert comparison["dss"].change == pytest.approx(room.dss(y, mean, variance) - room.dss(y, *after))
    assert comparison["dss"].exact
    assert comparison["dss"].pvalue < 1e-6
    assert comparison["mse"].change == 0
    assert comparison["mse"].pvalue == 1
    assert comparison.to_dict()["metrics"]["dss"]["low"] > 0
    assert "positive change = improved" in str(comparison)
    assert comparison.verdict.startswith("Better: the Dawid-Sebastiani score falls by")


def test_qm9_before_and_after():
    data = load_data("qm9_evidential")
    cal = (data["mean_cal"], data["std_cal"].astype(float) ** 2, data["y_cal"])
    y, before = data["y_test"], (data["mean_test"], data["std_test"].astype(float) ** 2)
    assert room.dss(y, *before) == pytest.approx(0.977, abs=5e-4)
    assert room.se_variance_ratio(y, *before) == pytest.approx(0.175, abs=5e-4)
    method = room.AutoVarianceCalibrator().fit(*cal)
    after = method.predict(*before)
    change = room.compare(y, before, after, injective=method.best_.injective)["dss"]
    assert change.interval.low > 0.8
    assert room.se_variance_ratio(y, *after) == pytest.approx(1, abs=0.05)
    assert room.pit_ks(y, *before) > 0.2 > 0.02 > room.pit_ks(y, *after)
    assert "error bars too wide" in room.evaluate(y, *before, rng=0).verdict


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("over", [1.0, 1.3, 2.0])
def test_coverage_of_intervals(n, over):
    repeats = 1000
    inside = dict.fromkeys(("dss", "crps", "ratio", "mse"), 0)
    forecast = rows(400_000, 99, over=over)
    truth = {"dss": room.dss, "crps": room.crps, "ratio": room.se_variance_ratio, "mse": room.mean_squared_error}
    values = {name: function(*forecast) for name, function in truth.items()}
    for seed in range(repeats):
        data = rows(n, seed, over=over)
        for name in inside:
            inside[name] += values[name] in room.interval(name, *data)
    for name, hits in inside.items():
        assert 0.92 <= hits / repeats <= 0.98, name


@pytest.mark.slow
def test_size_of_the_verdict():
    alarms = sum(room.evaluate(*rows(300, s), metrics=["dss"], rng=s).verdict.found for s in range(1000))
    assert alarms / 1000 <= 0.065
