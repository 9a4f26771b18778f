"""Draws that share their order: binomial for every table row, and independent of each other inside a table."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.resampling import SharedOrder
from calibrant.core.tables import Table

COUNT = np.array([1.0, 7.0, 40.0, 300.0, 5000.0])
P = np.array([0.3, 0.999, 0.5, 0.02, 0.0004])


def table(count=COUNT, p=P):
    we = count * p
    return Table(1200, np.arange(len(p)), count, count, we, we, we, count)


def draws(rows, size, rng):
    found = SharedOrder(len(rows) + 3, size, rng).residuals(rows, rng, np.empty((len(rows) + 3, size + 1)))
    assert (found[0] == rows.wt - rows.we).all()
    return np.rint(found[1:] + rows.we)


def test_draws_are_binomial_and_independent():
    from scipy.stats import binom, chisquare

    rng = np.random.default_rng(0)
    size = 20_000
    count, share = np.tile(COUNT, 4), np.tile(P, 4)  # more rows than one block
    drawn = draws(table(count, share), size, rng)
    assert drawn.shape == (size, 20)
    for column, n, p in zip(drawn.T, count, share, strict=True):
        values = np.arange(n + 1)
        expected = size * binom.pmf(values, n, p)
        seen = np.bincount(column.astype(int), minlength=len(values))
        common = expected >= 5
        found = chisquare(
            np.append(seen[common], seen[~common].sum() + 1e-9),
            np.append(expected[common], expected[~common].sum() + 1e-9),
            sum_check=False,
        )
        assert found.pvalue > 1e-4
    correlation = np.corrcoef(drawn.T) - np.eye(20)
    assert np.abs(correlation).max() < 5 / np.sqrt(size)


def test_what_is_certain_never_varies():
    rng = np.random.default_rng(0)
    count, p = np.array([4.0, 900.0, 2.0]), np.array([0.0, 1.0, 0.5])
    drawn = draws(table(count, p), 500, rng)
    assert (drawn[:, 0] == 0).all()
    assert (drawn[:, 1] == 900).all()
    assert set(drawn[:, 2]) == {0.0, 1.0, 2.0}


def test_wide_counts_are_drawn_too():
    rng = np.random.default_rng(0)
    drawn = draws(table(np.array([1e6]), np.array([0.5])), 2000, rng)
    assert drawn.mean() == pytest.approx(5e5, abs=60)
    assert drawn.std() == pytest.approx(500, rel=0.1)


def test_tables_that_share_an_order_have_spreads_of_their_own():
    """What all tables take from the order alone would make every slice too sure, or too careful, at once."""
    rng = np.random.default_rng(0)
    same = table(np.full(60, 50.0), np.full(60, 0.3))
    order, room = SharedOrder(60, 100, rng), np.empty((60, 101))
    spreads = [order.residuals(same, rng, room)[1:].sum(axis=1).std() for _ in range(40)]
    expected = np.sqrt(60 * 50 * 0.3 * 0.7)
    assert np.mean(spreads) == pytest.approx(expected, rel=0.05)
    assert np.std(spreads) > 0.05 * expected  # of 100 independent draws: 7%
    assert np.std(spreads) < 0.1 * expected
