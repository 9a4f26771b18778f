"""The contract of every function (y_true, mean, variance): weights, order, containers, dtypes, errors, properness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import regression as room
from calibrant.errors import InputError, UndefinedWarning

FUNCTIONS = {
    "dss": room.dss,
    "crps": room.crps,
    "nll_normal": room.nll_normal,
    "interval_score": room.interval_score,
    "pinball": room.pinball,
    "pit_ks": room.pit_ks,
    "quantile_calibration_error": room.quantile_calibration_error,
    "ence": room.ence,
    "variance_calibration_error": room.variance_calibration_error,
    "se_variance_ratio": room.se_variance_ratio,
    "mean_squared_error": room.mean_squared_error,
    "average_variance": room.average_variance,
    "skce": lambda *a, **k: room.skce(*a, bandwidth=1.3, **k),
    "skce_biased": lambda *a, **k: room.skce(*a, bandwidth=1.3, estimator="biased", **k),
}


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n), rng.gamma(2.0, 1.0, n).round(1) + 0.1
    return mean + 1.3 * np.sqrt(variance) * rng.normal(size=n), mean, variance


@pytest.mark.parametrize("name", FUNCTIONS)
def test_weights_repeat_rows(name):
    data = rows()
    weights = np.random.default_rng(1).integers(0, 4, 60)
    repeated = FUNCTIONS[name](*(np.repeat(column, weights) for column in data))
    assert FUNCTIONS[name](*data, sample_weight=weights) == pytest.approx(repeated, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_are_containers_too(name):
    torch = pytest.importorskip("torch", reason="torch is absent (extra: torch)")
    assert FUNCTIONS[name](*(torch.tensor(column) for column in rows())) == FUNCTIONS[name](*rows())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_row_order_containers_and_dtype(name):
    import polars as pl

    data = rows()
    copies = [column.copy() for column in data]
    value = FUNCTIONS[name](*data)
    order = np.random.default_rng(2).permutation(60)
    assert FUNCTIONS[name](*(column[order] for column in data)) == pytest.approx(value, rel=1e-10, abs=1e-14)
    assert FUNCTIONS[name](*(column.tolist() for column in data)) == value
    assert FUNCTIONS[name](*(pl.Series(column) for column in data)) == value
    assert FUNCTIONS[name](*(column.astype(np.float32) for column in data)) == pytest.approx(value, rel=1e-3)
    assert isinstance(value, float)
    for column, copy in zip(data, copies, strict=True):
        assert np.array_equal(column, copy)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y, m, v: (y, m, -v), "variance of .* must be positive; got .* at row 0"),
        (lambda y, m, v: (np.where(np.arange(60) == 7, np.nan, y), m, v), "y_true of .* be finite; got nan at row 7"),
        (lambda y, m, v: (y, m[:-1], v), "mean of .* must have 60 rows"),
        (lambda y, m, v: (y[:0], m[:0], v[:0]), "at least one row"),
        (lambda y, m, v: (y[:, None], m, v), "shape"),
        (lambda y, m, v: (y, m, None), "variance of .* must be given"),
    ],
)
def test_errors_name_argument_rule_and_row(name, change, words):
    with pytest.raises(InputError, match=words):
        FUNCTIONS[name](*change(*rows()))


def test_forecast_objects_stand_in_for_mean_and_variance():
    y, mean, variance = rows()
    normal = room.Normal(mean, variance)
    for name, function in FUNCTIONS.items():
        assert function(y, normal) == function(y, mean, variance), name
    with pytest.raises(InputError, match="left out"):
        room.dss(y, normal, variance)
    samples = room.Samples(normal.quantile((np.arange(2000) + 0.5) / 2000))
    assert room.crps(y, samples) == pytest.approx(room.crps(y, mean, variance), rel=2e-3)
    assert room.dss(y, samples) == pytest.approx(room.dss(y, mean, variance), rel=5e-3)
    table = room.Quantiles(*((levels := np.arange(1, 1000) / 1000), normal.quantile(levels)))
    assert room.crps(y, table) == pytest.approx(room.crps(y, mean, variance), rel=2e-3)
    assert room.pinball(y, table) == pytest.approx(room.pinball(y, mean, variance), rel=1e-6)
    assert room.interval_score(y, table) == pytest.approx(room.interval_score(y, mean, variance), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-3, 3),
    st.floats(0.05, 20),
    st.floats(-3, 3),
    st.floats(0.05, 20),
    st.sampled_from(["dss", "crps", "nll_normal", "interval_score", "pinball"]),
)
def test_expected_scores_are_least_at_the_truth(mean, variance, other_mean, other_variance, name):
    """Properness: E over y ~ N(mean, variance), by quantiles of the truth."""
    levels = (np.arange(4000) + 0.5) / 4000
    y = room.Normal([mean], [variance]).quantile(levels)[0]
    score = FUNCTIONS[name]
    at_truth = score(y, np.full(4000, mean), np.full(4000, variance))
    elsewhere = score(y, np.full(4000, other_mean), np.full(4000, other_variance))
    assert at_truth <= elsewhere + 2e-3 * max(1.0, abs(elsewhere))


def test_pinball_tends_to_half_the_crps():
    assert 2 * room.pinball(*rows(), levels=5000) == pytest.approx(room.crps(*rows()), rel=1e-3)


def test_pit_table_counts_every_row():
    table = room.compute_pit(*rows(), n_bins=7)
    assert sum(table.share) == pytest.approx(1)
    assert len(table.edges) == 8
    assert "if calibrated" in str(table)
    assert table.to_dict()["n"] == 60


def test_ties_and_few_rows_are_normal():
    assert room.ence([1.0], [0.0], [4.0]) == 0.5
    assert room.pit_ks([0.0, 0.0], [0.0, 0.0], [1.0, 1.0]) == 0.5
    assert room.ence([1.0, 2.0], [0.0, 0.0], [1.0, 1.0], n_bins=5) == pytest.approx(2.5**0.5 - 1)
    with pytest.warns(UndefinedWarning):
        assert np.isnan(room.skce([1.0], [0.0], [4.0]))
    with pytest.warns(UndefinedWarning):
        assert np.isnan(room.skce([1.0] * 3, [0.0] * 3, [4.0] * 3, estimator="block", block_size=4))


def test_ks_test_equals_scipy():
    from scipy.stats import kstest

    y, mean, variance = rows()
    got = room.pit_ks_test(y, mean, variance)
    want = kstest((y - mean) / np.sqrt(variance), "norm")
    assert got.statistic == pytest.approx(want.statistic)
    assert got.pvalue == pytest.approx(want.pvalue)
    with pytest.raises(InputError, match="whole numbers"):
        room.pit_ks_test(y, mean, variance, sample_weight=np.full(60, 0.5))
