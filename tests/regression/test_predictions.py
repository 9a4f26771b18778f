"""The three kinds of forecast keep one protocol: distribution function, quantiles, CRPS, PIT, moments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from calibrant.errors import InputError
from calibrant.regression import Normal, Quantiles, Samples

KINDS = {
    "normal": lambda: Normal([0.0, 2.0], [1.0, 4.0]),
    "samples": lambda: Samples([[0.0, 1.0, 1.0, 3.0], [5.0, -1.0, 2.0, 2.5]]),
    "quantiles": lambda: Quantiles([0.1, 0.4, 0.8], [[-1.0, 0.0, 2.0], [0.0, 1.0, 1.5]]),
    "one quantile": lambda: Quantiles([0.4], [[-1.0], [1.5]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("y", [-3.0, 0.3, 1.0, 8.0])
def test_crps_is_the_integral_over_the_distribution_function(kind, y):
    forecast = KINDS[kind]()
    got = forecast.crps(np.full(2, y))
    for row in range(2):
        part = forecast.part(slice(row, row + 1))
        jumps = sorted({y, *getattr(part, "values", np.zeros((1, 0)))[0].tolist()})

        def gap(x, part=part):
            return float((part.cdf(np.array([x]))[0] - (x >= y)) ** 2)

        ends = [-40.0, *jumps, 40.0]
        want = sum(quad(gap, a, b, limit=200)[0] for a, b in pairwise(ends))
        assert got[row] == pytest.approx(want, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_the_quantile_function(kind):
    forecast = KINDS[kind]()
    levels = (np.arange(20000) + 0.5) / 20000
    draws = forecast.quantile(levels)
    assert forecast.mean == pytest.approx(draws.mean(axis=1), abs=1e-3)
    if kind == "one quantile":
        with pytest.raises(InputError, match="positive"):
            _ = forecast.variance
    elif kind == "samples":
        assert forecast.variance == pytest.approx(draws.var(axis=1) * 4 / 3, rel=1e-3)
    else:
        assert forecast.variance == pytest.approx(draws.var(axis=1), rel=2e-3)


@pytest.mark.parametrize("kind", ["normal", "quantiles"])
def test_quantile_inverts_cdf(kind):
    forecast = KINDS[kind]()
    for level in (0.15, 0.4, 0.7):
        assert forecast.cdf(forecast.quantile([level])[:, 0]) == pytest.approx(level)


def test_pit_is_uniform_under_the_forecast():
    rng = np.random.default_rng(0)
    n = 20000
    draws = rng.normal(size=(n, 9)).round(1)  # with ties
    y = rng.normal(size=n).round(1)
    levels = np.array([0.1, 0.5, 0.9])
    table = Quantiles(levels, np.repeat(np.array([[-1.0, 0.0, 1.0]]), n, axis=0))
    inside = Quantiles((np.arange(99) + 1) / 100, np.repeat(Normal([0.0], [1.0]).quantile(99), n, axis=0))
    for pit, step in (
        (Samples(draws).pit(y, rng), 10),
        (inside.pit(rng.normal(size=n), rng), 10),
        (table.pit(table.quantile(np.array([0.05]))[:, 0] - 1, rng) / 0.1, 4),
    ):
        counts = np.histogram(pit, step, (0, 1))[0]
        chi2 = ((counts - n / step) ** 2 / (n / step)).sum()
        assert chi2 < 40


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Normal([0.0, 1.0], [1.0, 0.0]), "variance of Normal must be positive; got 0 at row 1"),
        (lambda: Normal([0.0, np.nan], [1.0, 1.0]), "mean of Normal must be finite; got nan at row 1"),
        (lambda: Normal([0.0], [1.0, 1.0]), "1 rows"),
        (lambda: Samples([1.0, 2.0]), "shape"),
        (lambda: Quantiles([0.5, 0.1], [[0.0, 1.0]]), "increase strictly"),
        (lambda: Quantiles([0.1, 0.5], [[1.0, 0.0]]), "crossing quantiles at row 0"),
        (lambda: Quantiles([0.1, 0.5], [[1.0]]), "one column"),
        (lambda: Samples([[1.0], [2.0]]).variance, "two draws"),
    ],
)
def test_bad_forecasts_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()
