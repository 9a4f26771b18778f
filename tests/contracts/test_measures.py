"""Every declared measure keeps the contract of the library, whatever it computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import metrics
from calibrant.core.declare import declared, lookup
from calibrant.core.inputs import check_forecast
from calibrant.core.tables import Bins, value_table
from calibrant.errors import CalibrantError, InputError, UndefinedWarning
from calibrant.metrics.recipes import CalibrationError, MeanScore

NAMES = [m.name for m in declared()]
#: Row-pair measures and density estimates: costly, so smaller inputs.
CANONICAL = {"skce", "ce-kde"}
#: Measures whose class order has a meaning.
ORDERED = {"rps"}


def sample(n=300, k=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(k, p=row) for row in p])
    return y, p.astype(dtype)


def value(name, y, p, **params):
    return calibrant.measure(name, y, p, **params)


@pytest.mark.parametrize("name", NAMES)
class TestEveryMeasure:
    def test_is_a_plain_float_in_its_range(self, name):
        y, p = sample()
        found = value(name, y, p)
        assert type(found) is float
        low, high = lookup(name).range
        assert low - 1e-12 <= found <= high + 1e-12

    def test_public_function_is_the_same_number(self, name):
        y, p = sample()
        assert getattr(metrics, lookup(name).function)(y, p) == value(name, y, p)

    def test_row_order_does_not_matter(self, name):
        y, p = sample()
        order = np.random.default_rng(1).permutation(len(y))
        assert value(name, y[order], p[order]) == pytest.approx(value(name, y, p), abs=1e-12)

    def test_integer_weights_equal_repeated_rows(self, name):
        y, p = sample(120)
        w = np.random.default_rng(2).integers(0, 4, len(y))
        rows = np.repeat(np.arange(len(y)), w)
        assert value(name, y, p, sample_weight=w) == pytest.approx(value(name, y[rows], p[rows]), abs=1e-10)

    def test_class_relabelling(self, name):
        y, p = sample()
        new = np.array([3, 2, 1, 0] if name in ORDERED else [2, 0, 3, 1])  # ordered classes may only be reversed
        moved = np.empty_like(p)
        moved[:, new] = p
        assert value(name, new[y], moved) == pytest.approx(value(name, y, p), abs=1e-12)

    def test_named_classes_equal_indices(self, name):
        y, p = sample()
        names = np.array(["ant", "bee", "cat", "dog"])
        assert value(name, names[y], p, classes=names) == value(name, y, p)

    def test_binary_column_means_two_columns(self, name):
        rng = np.random.default_rng(3)
        p = rng.random(200)
        y = (rng.random(200) < p).astype(int)
        assert value(name, y, p) == pytest.approx(value(name, y, np.stack([1 - p, p], axis=1)), abs=1e-12)

    def test_float32_is_close_to_float64(self, name):
        y, p = sample()
        # equal-mass edges and order may move by a row when scores round: a few rows out of 300
        tolerance = 2e-2 if name in {"ace", "tace", "mce"} else 1e-3
        assert value(name, y, p.astype(np.float32)) == pytest.approx(value(name, y, p), abs=tolerance)

    def test_logits_equal_their_softmax(self, name):
        rng = np.random.default_rng(4)
        z = rng.normal(size=(150, 3))
        y = rng.integers(0, 3, 150)
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        assert value(name, y, z, space="logit") == pytest.approx(value(name, y, p), abs=1e-9)

    def test_inputs_are_untouched(self, name):
        y, p = sample(80)
        w = np.ones(80)
        copies = y.copy(), p.copy(), w.copy()
        for array in (y, p, w):
            array.flags.writeable = False
        value(name, y, p, sample_weight=w)
        assert all((a == b).all() for a, b in zip((y, p, w), copies, strict=True))

    def test_containers_alike(self, name):
        import pandas as pd
        import polars as pl
        import pyarrow as pa
        import torch

        y, p = sample(60)
        expected = value(name, y, p)
        columns = {f"p_{k}": p[:, k] for k in range(p.shape[1])}
        for yy, pp in (
            (y.tolist(), p.tolist()),
            (pd.Series(y), pd.DataFrame(columns)),
            (pl.Series(y), pl.DataFrame(columns)),
            (pa.array(y), pa.table(columns)),
            (torch.tensor(y), torch.tensor(p)),
        ):
            assert value(name, yy, pp) == expected

    def test_exact_zero_and_one_ties_and_absent_classes(self, name):
        p = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [1, 0, 0]])
        y = np.array([0, 0, 1, 0, 1, 0])  # class 2 never occurs
        assert math.isfinite(value(name, y, p))

    def test_one_row(self, name):
        if name in CANONICAL:  # an estimate over pairs of rows has no answer: nan with a warning, never a quiet 0
            with pytest.warns(UndefinedWarning):
                assert math.isnan(value(name, [1], [[0.3, 0.7]]))
        else:
            assert math.isfinite(value(name, [1], [[0.3, 0.7]]))

    def test_many_classes(self, name):
        y, p = sample(40 if name in CANONICAL else 60, 1000)
        assert math.isfinite(value(name, y, p))

    @pytest.mark.parametrize(
        ("y", "p", "word"),
        [
            ([], np.zeros((0, 3)), "row"),
            ([0, 1], [[0.5, np.nan], [0.5, 0.5]], "row 0"),
            ([0, 1], [[0.5, 0.5], [np.inf, 0.5]], "row 1"),
            ([0, 1], [[1.5, -0.5], [0.5, 0.5]], "row 0"),
            ([0, 1], [[0.5, 0.5], [0.6, 0.5]], "row 1"),
            ([0, 3], [[0.5, 0.5], [0.5, 0.5]], "row 1"),
            ([0, -1], [[0.5, 0.5], [0.5, 0.5]], "row 1"),
            ([0], [[0.5, 0.5], [0.5, 0.5]], "rows"),
            ([0, 1], [[1.0], [1.0]], "columns"),
            ([[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]], "argmax"),
            (["a", "b"], [[0.5, 0.5], [0.5, 0.5]], "classes"),
        ],
    )
    def test_bad_input_gets_our_error(self, name, y, p, word):
        with pytest.raises(InputError, match=word) as caught:
            value(name, y, p)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, CalibrantError)
        assert "Hint:" in str(caught.value)

    def test_unknown_parameter_is_refused_by_name(self, name):
        with pytest.raises(InputError, match="colour"):
            value(name, [0, 1], [[0.5, 0.5], [0.5, 0.5]], colour="red")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in CANONICAL])
def test_chunks_equal_the_whole(name):
    """States of parts add up to the state of the whole, in any order of addition."""
    recipe = lookup(name).build()
    y, p = sample(400)
    whole = check_forecast(y, p, caller="test")
    parts = [check_forecast(y[a:b], p[a:b], caller="test") for a, b in ((0, 10), (10, 250), (250, 400))]
    if isinstance(recipe, MeanScore):
        states = [recipe.fill(part) for part in parts]
        total = states[2] + (states[0] + states[1])
        assert recipe.finish(total) == pytest.approx(recipe.value(whole), abs=1e-12)
        return
    assert isinstance(recipe, CalibrationError)
    if getattr(recipe.estimator, "bins", None) == "mass":  # edges are found on the whole: parts merge as value tables
        tables = [[value_table(pairs) for pairs in recipe.view.groups(part)] for part in parts]
        merged = [c + (a + b) for a, b, c in zip(*tables, strict=True)]
        total = Bins.stack([recipe.estimator.state(table) for table in merged])
        assert float(recipe.finish(total)) == pytest.approx(recipe.value(whole), abs=1e-12)
        return
    states = [recipe.fill(part) for part in parts]
    if isinstance(states[0], tuple):
        total = tuple(c + (a + b) for a, b, c in zip(*states, strict=True))
    else:
        total = states[2] + (states[0] + states[1])
    assert float(recipe.finish(total)) == pytest.approx(recipe.value(whole), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(0, 2), min_size=n, max_size=n),
            st.lists(st.tuples(*[st.integers(0, 10)] * 3), min_size=n, max_size=n),
        )
    ),
    st.sampled_from([n for n in NAMES if n not in CANONICAL | {"nll"}]),
)
def test_any_forecast_on_a_coarse_grid(case, name):
    """Ties, edges, zeros and ones are what a coarse grid is made of."""
    y, raw = case
    p = np.array(raw, dtype=float) + np.array([1e-300, 0, 0])
    p = np.where(p.sum(axis=1, keepdims=True) > 1e-200, p / p.sum(axis=1, keepdims=True), 1 / 3)
    found = value(name, y, p)
    low, high = lookup(name).range
    assert low - 1e-9 <= found <= high + 1e-9


def test_made_up_measure_takes_one_file(tmp_path, monkeypatch):
    """A new measure is one file: declaration and recipe; listing, calling and evaluating follow."""
    (tmp_path / "made_up.py").write_text(
        """
from calibrant.core.declare import Measure, declare
from calibrant.estimators import Binned
from calibrant.metrics.recipes import CalibrationError
from calibrant.views import WithinTopR

def _recipe(*, n_bins: int = 5):
    return CalibrationError(WithinTopR(2), Binned(n_bins), 2)

MEASURE = declare(Measure(name="made-up", title="Made up", notion="within two", estimates="nothing", bound=None,
    recipe=_recipe, weakness="made up", paper="none", cost="O(n·K)", state="table"))
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    from calibrant.core.declare import withdraw

    importlib.import_module("made_up")
    try:
        y, p = sample()
        assert "made-up" in calibrant.list_measures()
        assert calibrant.measure("made-up", y, p, n_bins=7) >= 0
        result = calibrant.evaluate(y, p, measures=["made-up"], n_resamples=50, rng=0)["made-up"]
        assert result.null_mean is not None
        assert 0 < result.pvalue <= 1
    finally:
        withdraw("made-up")
