"""The law of the hits of a bin is that of the rows drawn one by one, and only metrics of bins use it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.core.resampling import _bin_starts, hit_law, hits_of_bins, replicate_tables
from calibrant.core.tables import Pairs, cell_table, value_table
from calibrant.estimators import Binned, CalibrationError, Cumulative
from calibrant.views import ClassK

RECIPES = {
    "width": CalibrationError(ClassK(1), Binned(15)),
    "mass": CalibrationError(ClassK(1), Binned(15, "mass")),
    "max": CalibrationError(ClassK(1), Binned(10), float("inf")),
    "debiased": CalibrationError(ClassK(1), Binned(12, debias=True), 2),
    "ks": CalibrationError(ClassK(1), Cumulative()),
}


def table_of(n: int, seed: int = 0, weight: np.ndarray | None = None):
    rng = np.random.default_rng(seed)
    score = np.round(rng.beta(4, 1, n), 3)
    return value_table(Pairs(score, rng.random(n) < score, weight))


@pytest.mark.parametrize("n", [1, 31, 33, 700, 5000])
def test_law_is_that_of_a_sum_of_coins(n):
    chance = np.random.default_rng(n).random(n)
    lowest, law = hit_law(chance, np.array([0]))
    hits = lowest[0] + np.arange(law.shape[1])
    inside = (hits >= 0) & (hits < n)
    exact = np.zeros(n + 1)
    exact[0] = 1.0
    for p in chance:
        exact[1:] = exact[1:] * (1 - p) + exact[:-1] * p
        exact[0] *= 1 - p
    np.testing.assert_allclose(law[0][inside], np.cumsum(exact)[hits[inside].astype(int)], atol=1e-12)
    assert law[0][-1] == 1.0


def test_law_of_many_bins_of_any_size():
    start = np.array([0, 1, 40, 41, 9000])
    chance = np.random.default_rng(1).random(20_000)
    lowest, law = hit_law(chance, start)
    for j, part in enumerate(np.split(chance, start[1:])):
        alone_lowest, alone = hit_law(part, np.array([0]))
        for hits in range(len(part) + 1):
            place, other = int(hits - lowest[j]), int(hits - alone_lowest[0])
            if 0 <= place < law.shape[1] and 0 <= other < alone.shape[1]:
                assert law[j, place] - j == pytest.approx(alone[0, other], abs=1e-11)


def test_equal_rows_are_binomial():
    lowest, law = hit_law(np.full(300, 0.3), np.array([0]))
    hits = lowest[0] + np.arange(law.shape[1])
    np.testing.assert_allclose(law[0], binom(300, 0.3).cdf(hits), atol=1e-12)


def test_certain_rows_are_certain():
    draw = hits_of_bins(value_table(Pairs(np.repeat([0.0, 1.0], 50), np.zeros(100, dtype=bool))), np.array([0, 1]))
    assert (draw(1000, np.random.default_rng(0)) == [0, 50]).all()


def test_draws_have_the_moments_of_the_rows():
    table = table_of(4000, weight=np.random.default_rng(2).integers(1, 4, 4000).astype(float))
    start = np.array([0, len(table) // 3, 2 * len(table) // 3])
    drawn = hits_of_bins(table, start)(20_000, np.random.default_rng(0))
    chance = table.we / table.w
    mean, variance = (np.add.reduceat(column, start) for column in (table.we, table.w * chance * (1 - chance)))
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.06)


@pytest.mark.parametrize("names", [["width"], ["mass"], ["width", "mass", "max", "debiased"]])
@pytest.mark.parametrize("grid", [0, 1200, 100])
def test_null_of_bins_is_that_of_rows(names, grid):
    """With a path beside them the rows are drawn one by one: both ways must give the same distribution."""
    rng = np.random.default_rng(4)
    score = rng.beta(4, 1, 1500)
    pairs = Pairs(score, rng.random(1500) < score)
    table = cell_table(pairs, grid) if grid else value_table(pairs)
    bins = {name: RECIPES[name] for name in names}
    rows = bins | {"ks": RECIPES["ks"]}
    assert _bin_starts(table, list(bins.values())) is not None
    assert _bin_starts(table, list(rows.values())) is None
    one = replicate_tables(bins, [table], 3000, np.random.default_rng(0), limit=False)
    other = replicate_tables(rows, [table], 3000, np.random.default_rng(1), limit=False)
    for name in names:
        error = np.hypot(one[name].std, other[name].std) / np.sqrt(3000)
        assert one[name].mean == pytest.approx(other[name].mean, abs=4 * error)
        assert one[name].std == pytest.approx(other[name].std, rel=0.15)


def test_more_draws_go_on_from_the_same_generator():
    recipe = {"ece": RECIPES["width"]}
    table = table_of(500)
    null = replicate_tables(recipe, [table], 100, np.random.default_rng(0), limit=False)["ece"]
    rng = np.random.default_rng(0)
    first, second = (replicate_tables(recipe, [table], 100, rng, limit=False)["ece"].values for _ in range(2))
    np.testing.assert_array_equal(null.values, first)
    np.testing.assert_array_equal(null.more(), second)
