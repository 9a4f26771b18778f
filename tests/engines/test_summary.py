"""The Summary: merge laws, any chunking, exact where it says so, errors below the stated bound elsewhere, bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.agreement import assert_same, hostile_predictions

from calibrant import evaluate
from calibrant.core.cells import bounds, fill_cells
from calibrant.core.declare import declared, lookup
from calibrant.core.inputs import check_forecast, check_pairs
from calibrant.core.resampling import PathNull
from calibrant.core.tables import COARSE, FINE, Pairs, cell_table
from calibrant.errors import FileError, InputError
from calibrant.estimators import CalibrationError, Isotonic
from calibrant.summary.codec import _HEAD
from calibrant.summary.summary import Summary
from calibrant.views import Entropy, TopLabel
from helpers import load_data

EXACT = (
    "accuracy",
    "confidence",
    "ece",
    "mce",
    "tce",
    "cwce",
    "sce",
    "uce",
    "brier",
    "nll",
    "spherical",
    "rps",
    "rbs",
    "entropy",
)


def predictions(n=3000, k=4, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.2), n)
    return rng.integers(0, k, n), p, rng.integers(0, 3, n).astype(float)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_measures_equal_the_rows(name, weighted):
    y, p, w = predictions()
    weight = w if weighted else None
    forecast = check_forecast(y, p, caller="test", sample_weight=weight)
    summary = Summary(4).update(y, p, sample_weight=weight)
    assert summary.metric(name) == pytest.approx(lookup(name).build().value(forecast), rel=1e-9, abs=1e-12)
    assert summary.precision(lookup(name).build()).bound == 0


@pytest.mark.parametrize("m", [7, 18, 10, 15, 25])
def test_bin_counts_told_at_construction_are_exact_and_others_refused(m):
    y, p, _ = predictions()
    summary = Summary(4, n_bins=[7, 18]).update(y[:1000], p[:1000]).update(y[1000:], p[1000:])
    for name, view in (("ece", None), ("sce", None), ("uce", None)):
        rows = lookup(name).build(n_bins=m).value(check_forecast(y, p, caller="test"))
        assert summary.metric(name, n_bins=m) == pytest.approx(rows, abs=1e-12), (name, view)
    with pytest.raises(InputError, match=r"n_bins=\[11\]"):
        summary.metric("ece", n_bins=11)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 500), max_size=6), seed=st.integers(0, 5))
def test_any_chunking_and_any_order_give_the_same(cuts, seed):
    columns = hostile_predictions(500, seed=seed)
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    y, w = columns["label"], columns["weight"]
    whole = Summary(3, n_bins=[7]).update(y, p, sample_weight=w)
    order = np.random.default_rng(seed).permutation(500)
    edges = [0, *sorted(cuts), 500]
    parts = [
        Summary(3, n_bins=[7]).update(y[rows], p[rows], sample_weight=w[rows])
        for rows in (order[a:b] for a, b in pairwise(edges))
        if len(rows) and w[rows].any()
    ]
    assert_same_but_rows(whole, sum(parts))


def assert_same_but_rows(one, two):
    two.n = one.n  # chunks that held only weight 0 were skipped
    assert_same(one, two)


def test_merge_laws():
    parts = [Summary(4).update(*predictions(200, seed=i)[:2]) for i in range(3)]
    a, b, c = parts
    before = [part.to_bytes() for part in parts]
    assert_same((a + b) + c, a + (b + c))
    assert_same(a + b, b + a)
    assert (a + a.empty()).to_bytes() == a.to_bytes()
    assert (a.empty() + a).to_bytes() == a.to_bytes()
    assert [part.to_bytes() for part in parts] == before
    with pytest.raises(InputError, match="n_classes"):
        a + Summary(3)
    with pytest.raises(InputError, match="coarse"):
        a + Summary(4, coarse=True)


def test_bytes_round_trip_and_damage():
    y, p, w = predictions()
    summary = Summary(4, n_bins=[7], views=["top-1", "classwise", "entropy", "within-2"], classes=list("abcd"))
    summary.update(np.array(list("abcd"))[y], p, sample_weight=w)
    summary.add_rows(0, 0, {}, {"missing": 3})
    data = summary.to_bytes()
    again = Summary.from_bytes(data)
    assert again == summary
    assert again.rejected["missing"] == 3
    assert again.metric("ks", view="within-2") == summary.metric("ks", view="within-2")
    assert b"pickle" not in data
    with pytest.raises(FileError, match="damaged"):
        Summary.from_bytes(data[:-3] + b"xyz")
    with pytest.raises(FileError, match="damaged"):
        Summary.from_bytes(data[:-1])
    with pytest.raises(FileError, match="not a Summary"):
        Summary.from_bytes(b"hello")
    newer = _HEAD.pack(b"CALSUM", 99, 0, b"\0" * 32)
    with pytest.raises(FileError, match="schema 99"):
        Summary.from_bytes(newer)


def test_infinite_score_survives_the_bytes():
    summary = Summary(2).update([1], [0.0])
    assert Summary.from_bytes(summary.to_bytes()).metric("nll") == np.inf


def adversarial():
    rng = np.random.default_rng(7)
    n = 4000
    decimals = rng.integers(0, 101, n) / 100
    one_cell = 0.5 + rng.random(n) / FINE * 0.9
    order = np.sort(one_cell)
    yield "all in one cell, sorted hits", order, np.arange(n) < n // 2
    yield "all in one cell", one_cell, rng.random(n) < 0.5
    yield "mass at 0 and 1", rng.choice([0.0, 1.0, 1e-12, 1 - 1e-12, 0.3], n), rng.random(n) < 0.7
    yield "sharp", 1 - rng.random(n) ** 30, rng.random(n) < 0.9
    yield "decimals on edges", decimals, rng.random(n) < decimals
    yield "float32 decimals", decimals.astype(np.float32), rng.random(n) < decimals
    yield "uniform", rng.random(n), rng.random(n) < 0.5


@pytest.mark.parametrize(("score", "hit"), [pytest.param(s, t, id=name) for name, s, t in adversarial()])
def test_measured_error_is_below_the_stated_bound(score, hit):
    forecast = check_pairs(hit, score, caller="test")
    summary = Summary(pairs=True).update(hit, score)
    for name in ("ks", "mmce", "smece"):
        recipe = lookup(name).build()
        said = summary.precision(recipe)
        error = abs(summary.value(recipe) - recipe.value(forecast))
        assert error <= said.bound + 1e-12, (name, error, said)
    if np.ptp(score) > 1e-3:  # placed to the width of a cell
        recipe = lookup("kde").build()
        assert summary.value(recipe) == pytest.approx(recipe.value(forecast), abs=2e-3)
    assert "approximate" in summary.precision(CalibrationError(TopLabel(), Isotonic())).sentence


@pytest.mark.parametrize("n_classes", [2, 3])
def test_joined_cells_and_the_limit_law_give_the_same_null_distribution(monkeypatch, n_classes):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(n_classes, 0.4), 30_000)
    y = (rng.random(30_000)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, n_classes - 1)
    summary = Summary(n_classes=n_classes).update(y, p)
    names = ["ece", "ks", "mmce", "cwce", "ace", "smece"]
    found = {}
    for label, draws, steps in (("cells", 1e18, 1e18), ("joined", 0, 100)):
        monkeypatch.setattr("calibrant.core.resampling.MANY_DRAWS", draws)
        monkeypatch.setattr("calibrant.core.resampling.ENOUGH_STEPS", steps)
        found[label] = summary.evaluate(metrics=names, n_resamples=600, rng=0).results
    for one, two in zip(found["cells"], found["joined"], strict=True):
        assert two.value == one.value
        assert two.null_mean == pytest.approx(one.null_mean, rel=0.1), one.name  # four standard errors
        assert two.null_std == pytest.approx(one.null_std, rel=0.15), one.name
        assert two.pvalue == pytest.approx(one.pvalue, abs=0.08), one.name


def test_the_bound_of_the_smooth_error_is_small_where_it_matters():
    rng = np.random.default_rng(0)
    score = rng.random(20_000)
    summary = Summary(pairs=True).update(rng.random(20_000) < 0.25 + 0.5 * score, score)
    recipe = lookup("smece").build()
    assert 0 < summary.precision(recipe).bound < 0.02 * summary.value(recipe)


@pytest.mark.parametrize("grid", [FINE, COARSE])
def test_cells_lie_within_their_bounds_and_counting_equals_sorting(grid):
    for _, score, hit in adversarial():
        many = Pairs(np.tile(score, 3), np.tile(hit, 3))
        one, two = cell_table(many, grid), fill_cells(many, grid)
        for name in ("key", "n", "ws", "wt", "we", "w2"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)
        low, high = bounds(one)
        mean = one.ws / one.w
        assert ((low <= mean * (1 + 1e-12) + 1e-15) & (mean <= high * (1 + 1e-12) + 1e-15)).all()


def test_real_network_matches_the_table_of_rows():
    data = load_data("cifar10_resnet110")
    z, y = data["logits_test"], data["labels_test"]
    summary = Summary(10).update(y, z, space="logit")
    rows = evaluate(y, z, space="logit", n_resamples=200, rng=0)
    cells = summary.evaluate(n_resamples=200, rng=0)
    assert [r.name for r in cells.results] == [r.name for r in rows.results]
    for one, two in zip(rows.results, cells.results, strict=True):
        assert two.value == pytest.approx(one.value, abs=1e-4)
        assert (two.estimates, two.bound) == (one.estimates, one.bound)
        if one.null_mean is not None:
            assert two.null_mean == pytest.approx(one.null_mean, rel=0.1)
    assert cells.verdict.status == rows.verdict.status
    assert summary.metric("ace") == pytest.approx(0.0036, abs=1e-4)  # plain cells would say 0.0119
    assert any("ks is from cells" in note for note in cells.notes)


def test_refusals_name_the_alternative():
    summary = Summary(3).update([0, 1], [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])
    with pytest.raises(InputError, match=r"metric skce needs the rows.*estimator='block'"):
        summary.metric("skce")
    with pytest.raises(InputError, match="views="):
        summary.metric("ks", view="rank-2")
    with pytest.raises(InputError, match="Convention"):
        summary.metric("ece", convention="netcal")
    with pytest.raises(InputError, match="at least one row"):
        Summary(3).evaluate()
    with pytest.raises(InputError, match="n_classes"):
        Summary()
    pairs = Summary(pairs=True).update([True], [0.9])
    with pytest.raises(InputError, match="top-label pairs"):
        pairs.metric("brier")
    weighted = Summary(2).update([0, 1], [0.2, 0.7], sample_weight=[0.5, 1])
    assert weighted.evaluate(n_resamples=20)["ece"].pvalue is None
    with pytest.raises(InputError, match="whole numbers"):
        weighted.metric("tce", debias=True)


def test_views_that_follow_from_kept_ones():
    y, p, _ = predictions()
    summary = Summary(4).update(y, p)
    forecast = check_forecast(y, p, caller="test")
    for name, params in (("ece", {"view": "class-2"}), ("tce", {"view": "pooled"})):
        if "view" in lookup(name).parameters():
            assert summary.metric(name, **params) == pytest.approx(
                lookup(name).build(**params).value(forecast), abs=1e-9
            )
    assert summary.metric("tace") == pytest.approx(lookup("tace").build().value(forecast), abs=0.02)
    per_class = Summary(4, views=["top-1", Entropy("predicted")]).update(y, p)
    expected = lookup("uce").build(per_class=True).value(forecast)
    assert per_class.metric("uce", per_class=True) == pytest.approx(expected, abs=1e-12)


def test_every_declared_measure_works_or_refuses_by_name():
    y, p, _ = predictions(300)
    summary = Summary(4).update(y, p)
    for measure in declared():
        try:
            assert np.isfinite(summary.metric(measure.name))
        except InputError as error:
            assert "needs the rows" in str(error)  # noqa: PT017
            assert measure.state == "all rows" or measure.name in ("skce", "ce-kde")


def test_limit_law_of_ks_matches_resampling():
    rng = np.random.default_rng(0)
    s = rng.beta(4, 1.2, 20_000)
    summary = Summary(pairs=True).update(rng.random(20_000) < s, s)
    limit = PathNull(summary.tables("top-1")[0])
    drawn = summary.evaluate(metrics=["ks"], n_resamples=400, rng=1)["ks"]
    assert limit.mean == pytest.approx(drawn.null_mean, rel=0.08)
    assert limit.std == pytest.approx(drawn.null_std, rel=0.15)
    assert limit.pvalue(limit.quantile(0.95)) == pytest.approx(0.05, abs=1e-6)


def test_sizes_stay_small():
    rng = np.random.default_rng(0)
    s = rng.random(400_000)
    assert len(Summary(pairs=True).update(s > 0.5, s).to_bytes()) < 4_000_000
    assert len(Summary(pairs=True, coarse=True).update(s > 0.5, s).to_bytes()) < 60_000
