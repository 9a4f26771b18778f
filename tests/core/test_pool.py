"""Ties pooled in chunks equal ties pooled at once, also across the borders of chunks."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.tables import pool_ties, sorted_keys
from calibrant.estimators.residuals import cumulative_extent


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("n", [1, 2, 7, 65_536, 65_537, 200_003])
@pytest.mark.parametrize("kind", ["continuous", "decimals", "constant", "saturated"])
def test_chunks_equal_the_whole(dtype: type, n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    score = rng.random(n).astype(dtype)
    if kind == "decimals":
        score = np.round(score, 1).astype(dtype)
    elif kind == "constant":
        score[:] = 0.5
    elif kind == "saturated":
        score[rng.random(n) < 0.5] = 1
    outcome = rng.random(n) < score
    values, where = np.unique(score.astype(np.float64), return_inverse=True)
    found, counts, hits, sums = pool_ties(sorted_keys(score, outcome), score.dtype)
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(counts, np.bincount(where))
    np.testing.assert_array_equal(hits, np.bincount(where, outcome))
    np.testing.assert_array_equal(sums, values * counts)


def test_extent_of_the_path() -> None:
    rng = np.random.default_rng(0)
    wt, ws = rng.random(150_001), rng.random(150_001)
    path = np.cumsum(wt - ws)
    high, low = cumulative_extent(wt, ws)
    assert high == pytest.approx(max(path.max(), 0), rel=1e-10)
    assert low == pytest.approx(max(-path.min(), 0), rel=1e-10)
    assert cumulative_extent(np.array([1.0]), np.array([0.25])) == (0.75, 0.0)
