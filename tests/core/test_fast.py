"""Compiled kernels give the numbers of NumPy, refuse what NumPy refuses, and stay away where they do not pay."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from calibrant import metrics
from calibrant import test_calibration as run_test
from calibrant.calibrators import (
    IsotonicMulticlass,
    MatrixScaling,
    OrderPreserving,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.core import fast
from calibrant.core.declare import declared
from calibrant.core.fingerprint import row_hashes
from calibrant.core.inputs import check_forecast
from calibrant.core.resampling import class_outcomes, draw_labels
from calibrant.core.tables import Bins, width_bins
from calibrant.errors import InputError
from calibrant.views import Classwise, TopLabel

pytest.importorskip("numba", reason="numba is absent (extra: fast)")

#: More rows than one chunk, so that every kernel is asked for.
N = 120_000
#: Metrics that need all pairs of rows are tried on fewer.
SQUARE = {"skce": 2_000, "ce-kde": 300}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(5, 0.4), N)
    p[:2000] = np.round(p[:2000] / p[:2000].sum(axis=1, keepdims=True), 1)
    p[:2000] = np.where(np.abs(p[:2000].sum(axis=1, keepdims=True) - 1) < 1e-9, p[:2000], np.eye(5)[1])
    y = (p.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    return y, p


def both(monkeypatch: pytest.MonkeyPatch, call):
    monkeypatch.setenv("CALIBRANT_FAST", "0")
    plain = call()
    monkeypatch.setenv("CALIBRANT_FAST", "1")
    return plain, call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [metric.name for metric in declared()])
def test_values_agree_to_the_last_bits(monkeypatch, rows, name, dtype):
    y, p = rows
    n = SQUARE.get(name, N)
    metric = getattr(metrics, name.replace("-", "_"))
    plain, quick = both(monkeypatch, lambda: metric(y[:n], p[:n].astype(dtype)))
    assert quick == pytest.approx(plain, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", ["ece", "ks", "smece", "kde", "mmce"])
def test_one_column_agrees(monkeypatch, rows, name):
    y, p = rows
    metric = getattr(metrics, name)
    plain, quick = both(monkeypatch, lambda: metric(y == 1, p[:, 1], view="class-1"))
    assert quick == pytest.approx(plain, rel=1e-12, abs=1e-14)


def test_the_kernels_are_used(monkeypatch, rows):
    """The agreement above would hold without any kernel: a broken one must be seen."""
    y, p = rows
    asked = []
    real = fast._compiled

    def note(name):
        asked.append(name)
        return real(name)

    monkeypatch.setenv("CALIBRANT_FAST", "1")
    monkeypatch.setattr(fast, "_compiled", note)
    for name in ("ece", "sce", "ks", "smece"):
        getattr(metrics, name)(y, p)
    metrics.ece(y == 1, p[:, 1].copy(), view="class-1")
    metrics.skce(y[:500], p[:500])
    run_test(y[:900], p[:900], method="resampling", metric="ece", n_resamples=50, rng=0)
    run_test(y[:900], p[:900], method="resampling", metric="sce", n_resamples=50, rng=0)
    VectorScaling().fit(p[:900], y[:900])
    OrderPreserving().fit(p[:900], y[:900])
    IsotonicMulticlass().fit(*wide_rows())
    StructuredMatrixScaling().fit(p[:900], y[:900])
    assert {"curve_pass", "search_pass", "vector_pass", "label_pass", "drawn_pass", "between_pass", "hash_pass"} <= set(
        asked
    )
    assert "softmax_pass" in asked
    assert {"top_pass", "top_bins_pass", "width_pass", "class_pass", "path_pass", "linear_pass", "tile_pass"} <= set(
        asked
    )
    assert all(real(name) is not None for name in asked)


@pytest.mark.parametrize("name", ["ece", "sce", "ks", "smece", "kde", "skce"])
@pytest.mark.parametrize("form", ["read-only", "by columns", "every second row", "backwards"])
def test_arrays_of_any_layout(monkeypatch, rows, name, form):
    y, p = rows
    n = 1000 if name == "skce" else N
    y, p = y[:n].copy(), p[:n].copy()
    if form == "by columns":
        p = np.asfortranarray(p)
    elif form == "every second row":
        y, p = np.repeat(y, 2)[::2], np.repeat(p, 2, axis=0)[::2]
    elif form == "backwards":
        y, p = y[::-1], p[::-1]
    p.flags.writeable = y.flags.writeable = form != "read-only"
    metric = getattr(metrics, name)
    plain, quick = both(monkeypatch, lambda: metric(y, p))
    assert quick == pytest.approx(plain, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", ["ece", "sce", "ks"])
@pytest.mark.parametrize("bad", [[np.nan], [-0.2], [1.7], [np.inf], [0.1] * 5, [0.3] * 5])
def test_bad_rows_are_refused_alike(monkeypatch, rows, bad, name):
    """A number that is no probability, and numbers that are, of which a row does not sum to 1."""
    y, p = rows
    broken = p.copy()
    broken[N - 7, : len(bad)] = bad

    def call():
        with pytest.raises(InputError) as caught:
            getattr(metrics, name)(y, broken)
        return str(caught.value)

    plain, quick = both(monkeypatch, call)
    assert plain == quick


@pytest.mark.parametrize("fast_or_not", ["0", "1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 5, 40, 100])
def test_one_walk_fills_the_bins_of_checked_rows(monkeypatch, n_classes, dtype, fast_or_not):
    """Check and bins in one walk give the bins of the careful way, with ties, edges and rounding above 1."""
    monkeypatch.setenv("CALIBRANT_FAST", fast_or_not)
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 0.3), 40_000)
    p[:900] = np.eye(n_classes)[rng.integers(0, n_classes, 900)] * (1 + 2e-7)
    p[900:3000] = 0.0
    for column in (1, 0):
        p[900:3000, column] = 0.5  # the first of two equal ones is predicted
    p[3000:5000] = 0.0
    low = rng.integers(0, 16, 2000) / 15.0  # on the edges of the bins
    p[3000:5000, 0], p[3000:5000, 1] = low, 1.0 - low
    edge = dtype(1 / 15 + 2.0**-24)  # the largest scores of the first bin and the smallest of the second
    p[5000:5040] = 0.0
    p[5000:5040, 0] = edge + np.arange(-20, 20) * np.spacing(edge)
    p[5000:5040, 1] = 1.0 - p[5000:5040, 0]
    p, y = p.astype(dtype), (p.cumsum(axis=1) > rng.random((40_000, 1))).argmax(axis=1)
    careful = check_forecast(y, p, caller="test")
    for view in (TopLabel(), Classwise()):
        walked = check_forecast(y, p, caller="test", wanted=(view, 15))
        assert ("bins", view, 15) in walked._kept
        assert walked._clip
        assert careful._clip
        direct = view.numbered(careful)
        parts = Bins.stack([width_bins(pairs, 15) for _, pairs in direct])
        found = view.width_bins(walked, 15)
        assert np.array_equal(found.w, parts.w)
        assert np.array_equal(found.wt, parts.wt)
        assert found.ws == pytest.approx(parts.ws, rel=1e-12, abs=1e-12)
        assert np.array_equal(walked.top, careful.top)


@pytest.mark.parametrize("label", [-1, 5])
@pytest.mark.parametrize("name", ["ece", "sce"])
def test_labels_out_of_range_are_refused_alike(monkeypatch, rows, name, label):
    y, p = rows[0].copy(), rows[1]
    y[N - 3] = label

    def call():
        with pytest.raises(InputError, match="y_true") as caught:
            getattr(metrics, name)(y, p)
        return str(caught.value)

    plain, quick = both(monkeypatch, call)
    assert plain == quick


def test_negative_zero_and_rounding_beyond_one_are_read_alike(monkeypatch, rows):
    y, p = rows
    odd = p.copy()
    odd[5] = [1 + 1e-9, -0.0, -1e-9, 0, 0]
    plain, quick = both(monkeypatch, lambda: (metrics.ece(y, odd), metrics.ks(y, odd), metrics.sce(y, odd)))
    assert plain == pytest.approx(quick, rel=1e-12)


@pytest.mark.parametrize("metric", ["ece", "ace", "mce", "sce", "ks", "smece"])
def test_null_draws_give_the_same_pvalue(monkeypatch, rows, metric):
    """Same seed, same uniforms, same labels: the p-value has the same last digit on both paths."""
    y, p = rows[0][2000:3500], rows[1][2000:3500]
    warm = p**0.9 / (p**0.9).sum(axis=1, keepdims=True)

    def call():
        return run_test(y, warm, method="resampling", metric=metric, n_resamples=200, rng=3).pvalue

    plain, quick = both(monkeypatch, call)
    assert plain == quick


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [VectorScaling, IsotonicMulticlass, OrderPreserving, StructuredMatrixScaling])
@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_fits_agree_to_the_last_bits(monkeypatch, kind, n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 0.5), 1500)
    y = (np.log(p) / 1.3 + rng.gumbel(size=p.shape)).argmax(axis=1)
    weight = rng.integers(1, 4, 1500).astype(float) if weighted else None
    plain, quick = both(monkeypatch, lambda: kind().fit(p, y, sample_weight=weight).predict_proba(p[:200]))
    np.testing.assert_allclose(quick, plain, rtol=1e-9, atol=1e-12)


def wide_rows(n_classes: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 0.3), 700)
    p[:200] = np.eye(n_classes)[rng.integers(0, n_classes, 200)]  # ties at 0 and 1
    return p, (np.log(p + 1e-9) + rng.gumbel(size=p.shape)).argmax(axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("space", ["proba", "logit"])
def test_the_shared_curve_has_the_same_bits(monkeypatch, space, dtype):
    p, y = wide_rows()
    x = (p if space == "proba" else np.log(p + 1e-9)).astype(dtype)
    plain, quick = both(monkeypatch, lambda: IsotonicMulticlass(space=space).fit(x, y))
    np.testing.assert_array_equal(quick.thresholds_, plain.thresholds_)
    np.testing.assert_array_equal(quick.values_, plain.values_)


@pytest.mark.parametrize("weighted", [False, True])
def test_structured_fits_are_the_same(monkeypatch, weighted):
    p, y = wide_rows()
    weights = np.arange(len(y)) % 3 + 1 if weighted else None
    plain, quick = both(monkeypatch, lambda: StructuredMatrixScaling().fit(p, y, sample_weight=weights))
    np.testing.assert_allclose(quick.weight_, plain.weight_, rtol=1e-9, atol=1e-9)
    matrix = MatrixScaling(odir=(0.01, 0.01))  # its search ends sooner, and its directions are single precision
    plain, quick = both(monkeypatch, lambda: clone(matrix).fit(p, y, sample_weight=weights).matrix_)
    np.testing.assert_allclose(quick, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 5, 16, 17, 70, 1500])
def test_drawn_labels_and_their_bins_are_the_same(monkeypatch, n_classes, dtype):
    p = np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.3), 300).astype(dtype)
    forecast = check_forecast(p.argmax(axis=1), p, caller="test", normalize=True)
    draw = lambda: draw_labels(forecast, 40, np.random.default_rng(1))  # noqa: E731
    plain, quick = both(monkeypatch, draw)
    np.testing.assert_array_equal(plain, quick)
    counts = both(monkeypatch, lambda: class_outcomes(forecast, 15, "width")(plain))
    np.testing.assert_array_equal(*counts)
    assert counts[0].sum() == plain.size


def test_rows_have_the_same_hashes(monkeypatch):
    odd = np.array([[np.nan, 1.0, np.inf], [0.0, -np.inf, 1e38], [0.1, -0.2, 7e5]])
    for scores in (odd, odd.astype(np.float32), odd * 1e265, wide_rows()[0], np.asfortranarray(wide_rows(7)[0])):
        np.testing.assert_array_equal(*both(monkeypatch, lambda scores=scores: row_hashes(scores)))
    assert [int(each) for each in row_hashes(np.array([[0.2, 0.3, 0.5]]))] == [
        11207514119688356303
    ]  # stored calibrators hold it


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [3, 32, 33, 64, 70])
def test_a_walk_that_hashes_finds_the_ends_of_rows(monkeypatch, n_classes, dtype):
    z = np.random.default_rng(n_classes).normal(0, 5, (80, n_classes)).astype(dtype)
    z[71, 0], z[72, -1], z[73, n_classes // 2] = 1e30, -1e30, -0.0  # beyond the grid, and finite
    every = np.arange(n_classes)
    for value in (0.0, np.inf, -np.inf, np.nan):
        z[every, every] = value

        def walk(scores=z):
            ends = np.empty((2, len(scores)))
            return row_hashes(scores, "logit", ends), ends

        (plain, plain_ends), (quick, quick_ends) = both(monkeypatch, walk)
        np.testing.assert_array_equal(plain, quick)
        finite = np.isfinite(z).all(axis=1)
        for ends in (plain_ends, quick_ends):
            np.testing.assert_array_equal(ends[:, finite], [z[finite].min(axis=1), z[finite].max(axis=1)])
            assert not np.isfinite(ends[:, ~finite]).all(axis=0).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_classes", [2, 5, 70])
def test_a_fit_refuses_logits_that_are_no_numbers(monkeypatch, n_classes, value):
    z = np.random.default_rng(0).normal(size=(60, n_classes))
    y, z[41, 1] = z.argmax(axis=1), value
    for wish in "01":
        monkeypatch.setenv("CALIBRANT_FAST", wish)
        with pytest.raises(InputError, match=r"finite logits.* at row 41"):
            TemperatureScaling(space="logit").fit(z, y)


def test_small_work_never_loads_numba():
    code = (
        "import sys, numpy as np, calibrant.metrics as m\n"
        "p = np.random.default_rng(0).dirichlet(np.ones(3), 1000)\n"
        "m.ece(p.argmax(axis=1), p); m.ks(p.argmax(axis=1), p)\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_numba_numpy_does_the_work(monkeypatch, rows):
    y, p = rows
    monkeypatch.setenv("CALIBRANT_FAST", "0")
    plain = metrics.ece(y, p)
    monkeypatch.setenv("CALIBRANT_FAST", "1")
    monkeypatch.setattr(fast, "_compiled", lambda name: None)
    assert metrics.ece(y, p) == plain


@pytest.mark.parametrize("kind", ["proba", "logit", "pairs"])
def test_cells_and_sums_of_a_lake_agree(monkeypatch, rows, kind):
    """The tape repeats the queries of the sums, and cells count alike, with slices and without."""
    pl = pytest.importorskip("polars")
    y, p = rows
    p = np.vstack([p, np.eye(5)])  # with exact zeros
    y = np.append(y, [0, 1, 2, 3, 4])
    if kind == "pairs":
        frame = pl.LazyFrame({"confidence": p.max(axis=1), "correct": p.argmax(axis=1) == y})
    else:
        name, held = ("p", p) if kind == "proba" else ("logit", np.log(np.maximum(p, 1e-9)))
        frame = pl.LazyFrame({f"{name}_{k}": held[:, k] for k in range(5)} | {"label": y})
    frame = frame.with_columns(day=pl.int_range(pl.len()) % 7)
    asked = []
    real = fast._compiled
    monkeypatch.setattr(fast, "_compiled", lambda name: asked.append(name) or real(name))
    from calibrant.engines.frames import summarize

    for by in ([], ["day"]):
        plain, quick = both(monkeypatch, lambda by=by: summarize(frame, by=by))
        parts = zip(plain.sorted_parts().values(), quick.sorted_parts().values(), strict=True)
        for one, two in [(plain.whole, quick.whole), *parts]:
            for view in ("top-1",) if kind == "pairs" else ("top-1", "classwise"):
                for a, b in zip(one.tables(view), two.tables(view), strict=True):
                    assert all(np.array_equal(getattr(a, c), getattr(b, c)) for c in ("key", "n", "wt"))
                    np.testing.assert_allclose(a.ws, b.ws, rtol=1e-12)
            assert one.sums.keys() == two.sums.keys()
            for name in one.sums:
                np.testing.assert_allclose(one.sums[name], two.sums[name], rtol=1e-9, atol=1e-7)
    assert {"cell_pass", "tape_pass"} <= set(asked)
    assert all(real(name) is not None for name in asked)


def test_counts_of_a_cell_may_pass_32_bits():
    from calibrant.engines.dense import _Cells

    cells = _Cells(1200, weighted=False)
    one = np.full(3, 0.5)
    for _ in range(3):
        cells.add(one, np.array([1.0, 1.0, 0.0]), 1, None)
        cells.rows = 1 << 31  # as if the cell were full: the next rows move it away
    (table,) = cells.tables()
    assert (table.n.tolist(), table.wt.tolist(), table.ws.tolist()) == ([9.0], [6.0], [4.5])


def test_logarithms_of_the_tape_are_those_of_numpy():
    from calibrant._compiled import compiled
    from calibrant.engines.tape import _OPS

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(2_000), 10.0 ** rng.uniform(-307, 307, 2_000), 1.0 + 1e-9 * rng.normal(size=1_000)])
    odd = np.array([0.0, 5e-324, np.inf, np.nan, -1.0])
    for values in (x, odd):
        work, sums = np.zeros((2, len(values))), np.zeros((len(values), 1))
        code, slots = np.array([[_OPS.index("log"), 1, 0, 0, 0]]), np.arange(len(values))
        compiled("tape_pass")(code, values[None], work, np.array([1]), slots, sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.testing.assert_allclose(sums[:, 0], np.log(values), rtol=3e-16, atol=0.0)


@pytest.mark.parametrize("name", ["_compiled", "_compiled_bins"])
def test_kept_machine_code_depends_on_its_own_file_alone(name):
    """numba looks at the file of a kernel to see if the code on disk is old, not at the files of what it calls."""
    tree = ast.parse(Path(fast.__file__).parents[1].joinpath(f"{name}.py").read_text(encoding="utf-8"))
    foreign: set[str] = set()

    def used(node: ast.AST) -> set[str]:
        return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}

    kernels = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrant"):
            foreign |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign) and used(node.value) & foreign:
            foreign |= {part for target in node.targets for part in used(target)}
        elif isinstance(node, ast.FunctionDef) and node.name != "compiled":
            kernels += 1
            assert not used(node) & foreign, node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):  # types (part of the key) and flags
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                assert key is None or not used(value.elts[1]) & foreign, ast.unparse(key)
    assert kernels > 5


def test_files_tell_how_much_work_comes(monkeypatch, tmp_path):
    import polars as pl

    from calibrant.engines.registry import open_paths

    monkeypatch.setattr(fast, "_seen", 0.0)
    path = tmp_path / "one.parquet"
    pl.DataFrame({"confidence": np.random.default_rng(0).random(10_000)}).write_parquet(path)
    for engine in ("polars", "duckdb"):
        before = fast._seen
        open_paths(path, engine)
        assert fast._seen - before == path.stat().st_size / 3
