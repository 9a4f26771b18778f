"""Many scores: bins of a column, sorted keys, columns of classes, row scores."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics
from calibrant.core.declare import lookup
from calibrant.core.inputs import check_forecast
from calibrant.core.row_scores import observed_rows, possible_scores
from calibrant.core.tables import sorted_keys, width_bins, width_index
from calibrant.errors import InputError
from calibrant.metrics import _rps
from calibrant.metrics.recipes import MeanScore
from calibrant.views import ClassK, Classwise

#: More scores than three chunks, and no whole number of them.
N = 270_011


def scores(dtype: type, n: int = N) -> np.ndarray:
    """Sharp scores with many ties, both ends, the edges of the bins and rounding above 1."""
    rng = np.random.default_rng(3)
    p = rng.beta(0.3, 0.2, n)
    p[:4000] = rng.integers(0, 16, 4000) / 15.0
    p[4000:5000] = np.round(p[4000:5000], 2)
    p[5000:5010] = 1 + 3e-7
    return p.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 15, 700])
def test_bins_of_a_column_are_the_one_rule(m, dtype):
    p = scores(dtype)
    y = (np.random.default_rng(4).random(N) < p).astype(np.int64)
    view, score = ClassK(1), np.minimum(p, 1).astype(np.float64)
    found = view.width_bins(check_forecast(y, p, caller="test"), m)
    index = width_index(score, m)
    assert np.array_equal(found.w[0], np.bincount(index, minlength=m))
    assert np.array_equal(found.wt[0], np.bincount(index, y, m))
    assert found.ws[0] == pytest.approx(np.bincount(index, score, m), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, -0.2, 1.7, np.inf])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_bad_score_of_a_column_is_refused(bad, zero):
    p = np.full(N, 0.25)
    p[100], p[N - 5] = zero, bad
    with pytest.raises(InputError, match="y_proba"):
        metrics.ece(np.zeros(N, int), p, view="class-1")


@pytest.mark.parametrize("label", [-1, 2, 1 << 40])
def test_a_label_of_a_column_out_of_range_is_refused(label):
    y = np.zeros(N, np.int64)
    y[N - 5] = label
    with pytest.raises(InputError, match="y_true"):
        metrics.ece(y, np.full(N, 0.25), view="class-1")


@pytest.mark.parametrize("n_classes", [2, 5, 100])
def test_negative_zeros_are_zeros_in_every_class(n_classes):
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 0.2), 30_000)
    y = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    p[:20_000] = np.eye(n_classes)[y[:20_000]]
    odd = np.where(p == 0, -0.0, p)
    expected, found = (Classwise().width_bins(check_forecast(y, each, caller="test"), 15) for each in (p, odd))
    for name in ("w", "ws", "wt"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize(("n_classes", "m"), [(3, 1), (3, 15), (100, 15), (100, 2)])
def test_bins_of_classes_are_those_of_their_columns(n_classes, m):
    rng = np.random.default_rng(n_classes)
    p, y = rng.dirichlet(np.full(n_classes, 5.0), 300), rng.integers(0, n_classes, 300)
    forecast = check_forecast(y, p, caller="test")
    found = Classwise().width_bins(forecast, m)
    each = [width_bins(pairs, m) for pairs in Classwise().groups(forecast)]
    for name in ("w", "ws", "wt"):
        expected = np.concatenate([getattr(one, name) for one in each])
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["spread", "sharp", "rounded", "one value", "negative zeros", "ascending"])
def test_keys_are_sorted(kind, dtype):
    rng = np.random.default_rng(1)
    p = rng.random(N).astype(dtype)
    if kind == "sharp":
        p = np.where(p < 0.7, dtype(1), p)
    elif kind == "rounded":
        p = np.round(p, 1)
    elif kind == "one value":
        p = np.full(N, 0.5, dtype)
    elif kind == "negative zeros":
        p = np.where(p < 0.7, dtype(-0.0), p)
    elif kind == "ascending":  # whole chunks below the middle, and whole ones above
        p.sort()
    hit = rng.random(N) < 0.3
    keys = ((p + dtype(0)).view(f"i{p.dtype.itemsize}") << 1) | hit
    np.testing.assert_array_equal(sorted_keys(p, hit), np.sort(keys))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_path_of_many_scores(dtype):
    p = np.minimum(scores(dtype), 1)
    p[(p > 0.4) & (p < 0.95)] = 0.75  # a tie in the middle, where threads part
    y = np.random.default_rng(4).random(N) < p**1.1
    value, where = np.unique(p, return_inverse=True)
    steps = np.bincount(where, y) - np.bincount(where) * value.astype(np.float64)
    path = np.cumsum(steps) / N
    assert metrics.ks(y, p, view="class-1") == pytest.approx(np.abs(path).max(), rel=1e-10)
    assert metrics.kuiper(y, p, view="class-1") == pytest.approx(max(path.max(), 0) - min(path.min(), 0), rel=1e-10)


@pytest.mark.parametrize("n", [1, 511, 512, 1_500])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_columns_of_classes(n, layout):
    p = np.asarray(np.random.default_rng(n).dirichlet(np.ones(20), n), order=layout)
    p[0] = np.eye(20)[3] * (1 + 1e-8)
    forecast = check_forecast(np.zeros(n, int), p, caller="test")
    found = forecast.columns(2, 18)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, np.minimum(p, 1)[:, 2:18].T)


@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_the_short_way_to_the_ranked_score(n_classes):
    """The score at the truth is summed directly; the block of possible scores has it by running sums."""
    rng = np.random.default_rng(n_classes)
    p, y = rng.dirichlet(np.full(n_classes, 0.4), 500), rng.integers(0, n_classes, 500)
    possible = possible_scores(_rps.possible, p)[np.arange(500), y]
    np.testing.assert_allclose(observed_rows(_rps.possible, p, y), possible, rtol=1e-13, atol=1e-15)


def test_a_score_of_the_truth_alone_does_not_read_the_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 5))
    y = rng.integers(0, 5, 300)
    forecast = check_forecast(y, z, space="logit", caller="test")
    expected = np.log(np.exp(z).sum(axis=1)) - z[np.arange(300), y]
    monkeypatch.setattr(type(forecast), "block", lambda *_: pytest.fail("no row need be read"))
    nll = lookup("nll").build()
    assert isinstance(nll, MeanScore)
    assert nll.value(forecast) == pytest.approx(expected.mean(), rel=1e-13)


def test_a_root_shares_the_sums_of_its_score(monkeypatch):
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300)
    forecast = check_forecast(y, p, caller="test")
    build = {name: lookup(name).build() for name in ("brier", "rbs")}
    value = build["brier"].value(forecast)
    monkeypatch.setattr(MeanScore, "rows", lambda *_: pytest.fail("the rows were scored before"))
    assert build["rbs"].value(forecast) == pytest.approx(value**0.5, rel=1e-14)
