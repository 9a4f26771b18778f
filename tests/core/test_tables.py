"""Bins, cells and value tables: the one rule, the merge laws, the exact sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.core.tables import (
    COARSE,
    FINE,
    PARTS,
    Pairs,
    Table,
    cell_key,
    cell_table,
    class_bins,
    mass_bins,
    value_table,
    width_bins,
    width_index,
)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [10, 15, 20, 25, 100])
def test_decimals_fall_in_the_bin_they_name(m, dtype):
    """i/m closes bin i − 1: (lo, hi], also where linspace is one ulp off (0.3, 0.6, 0.7)."""
    edges = np.array([float(f"{i / m:.12g}") for i in range(1, m + 1)]).astype(dtype)
    assert width_index(edges, m).tolist() == list(range(m))
    assert width_index(np.array([0.0], dtype), m).tolist() == [0]


def test_cells_nest_in_bins():
    s = np.random.default_rng(0).random(10_000)
    for grid in (FINE, COARSE):
        cell = cell_key(s, grid) // PARTS
        for m in (10, 15, 20, 25, 100):
            assert (cell // (grid // m) == width_index(s, m)).all()


def test_cell_keys_keep_the_order_of_scores():
    rng = np.random.default_rng(1)
    s = np.sort(
        np.concatenate(
            [rng.random(2000), 10.0 ** -rng.uniform(0, 18, 2000), 1 - 10.0 ** -rng.uniform(0, 16, 2000), [0, 1]]
        )
    )
    assert (np.diff(cell_key(s, FINE)) >= 0).all()


pairs_strategy = st.integers(0, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 1e-9, 0.1, 0.25, 0.3, 0.5, 0.7, 0.999999, 1.0]), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


def make(case):
    return Pairs(np.array(case[0], dtype=float), np.array(case[1], dtype=bool))


def same(a: Table, b: Table) -> bool:
    return all(np.allclose(getattr(a, f), getattr(b, f), atol=1e-12) for f in ("key", "n", "w", "ws", "wt", "we", "w2"))


@settings(max_examples=60, deadline=None)
@given(pairs_strategy, pairs_strategy, pairs_strategy, st.sampled_from([0, FINE]))
def test_merge_laws(a, b, c, grid):
    def table(case):
        return cell_table(make(case), grid) if grid else value_table(make(case))

    ta, tb, tc = table(a), table(b), table(c)
    assert same(ta + tb, tb + ta)
    assert same((ta + tb) + tc, ta + (tb + tc))
    assert same(ta + Table.empty(grid), ta)
    assert same(ta + tb, table((a[0] + b[0], a[1] + b[1])))


@settings(max_examples=60, deadline=None)
@given(pairs_strategy, st.integers(1, 8))
def test_mass_bins_by_sorting_values_equal_the_table(case, m):
    fast, slow = mass_bins(make(case), m), value_table(make(case)).mass_bins(m)
    for name in ("w", "ws", "wt"):
        assert np.allclose(getattr(fast, name), getattr(slow, name))


def test_value_table_equals_a_plain_group_by():
    rng = np.random.default_rng(2)
    for dtype in (np.float64, np.float32, np.float16):
        s = rng.random(5000).astype(dtype)
        s[::7] = dtype(0.5)
        t = rng.random(5000) < 0.3
        table = value_table(Pairs(s, t))
        keys, counts = np.unique(s, return_counts=True)
        assert (table.key == keys.astype(np.float64)).all()
        assert (table.n == counts).all()
        assert (table.wt == [t[s == key].sum() for key in keys]).all()


def test_many_chunks_equal_one():
    rng = np.random.default_rng(3)
    s, t = rng.random(300_000), rng.random(300_000) < 0.5
    bins = width_bins(Pairs(s, t), 15)
    index = width_index(s, 15)
    assert np.allclose(bins.w[0], np.bincount(index, minlength=15))
    assert np.allclose(bins.ws[0], np.bincount(index, s, 15))
    assert np.allclose(bins.wt[0], np.bincount(index, t, 15))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bins_of_every_class_keep_the_one_rule_next_to_the_first_edge(dtype):
    for m in range(1, 60):
        edge = dtype(1 / m)
        near = np.clip(np.array([np.nextafter(edge, dtype(0)), edge, np.nextafter(edge, dtype(2))]), 0, 1)
        found = class_bins(np.stack([near, 1 - near], axis=1), np.zeros(3, dtype=np.int64), m)
        assert (found[0, 0] == np.bincount(width_index(near, m), minlength=m)).all(), m
        assert (found[2, 0] == found[0, 0]).all(), m
