"""Every engine gives NumPy's table: identical counts, sums to 1e-9, slices, weights, bad rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.engines.agreement import assert_same, check_engine, hostile_predictions, spellings

from calibrant.core.tables import COARSE, FINE, PARTS, cell_key
from calibrant.engines.frames import summarize, with_cells
from calibrant.errors import FileError, InputError, MissingExtraError
from calibrant.io.layout import Layout
from calibrant.io.paths import expand
from calibrant.summary.summary import Summary
from calibrant.workflows.evaluate import evaluate
from calibrant.workflows.sources import Reading, summarize_data
from helpers import where_installed


def test_engine_keeps_the_contract(make_frame):
    check_engine(make_frame)


def evaluate_paths(path, engine="auto", **options):
    return summarize_data(path, Reading("evaluate", engine=engine), **options)


@pytest.mark.parametrize("grid", [FINE, COARSE])
def test_cell_rule_is_the_same_in_the_engine(grid):
    import narwhals.stable.v2 as nw

    edges = np.arange(grid + 1) / grid
    score = np.concatenate(
        [
            edges,
            np.nextafter(edges, 0),
            np.nextafter(edges, 1),
            edges.astype(np.float32).astype(np.float64),
            2.0 ** -np.arange(0, 80.0),
            1 - 2.0 ** -np.arange(1, 54.0),
            np.random.default_rng(0).random(100_000),
            np.random.default_rng(1).beta(0.02, 0.02, 100_000),
            [0.0, 1.0, 5e-324],
        ]
    )
    score = np.clip(score, 0, 1)
    found = with_cells(nw.from_native(pl.DataFrame({"__s": score})), grid)["__key"].to_numpy()
    np.testing.assert_array_equal(found, cell_key(score, grid))
    assert found.max() < grid * PARTS


def test_logits_and_binary_columns(make_frame):
    rng = np.random.default_rng(2)
    z = rng.normal(size=(3000, 4)) * 4
    y = rng.integers(0, 4, 3000)
    found = summarize(make_frame({**{f"logit_{k}": z[:, k] for k in range(4)}, "label": y})).whole
    assert_same(Summary(4).update(y, z, space="logit"), found)
    p = rng.random(3000).astype(np.float32)
    found = summarize(make_frame({"score": p, "label": (y > 1).astype(np.int64)})).whole
    assert_same(Summary(2).update(y > 1, p), found)
    odds = rng.normal(size=3000) * 5
    found = summarize(
        make_frame({"z": odds, "label": (y > 1).astype(np.int64)}), Layout(proba="z", space="logit")
    ).whole
    assert_same(Summary(2).update(y > 1, odds, space="logit"), found)


def test_named_classes_and_normalize():
    p = np.random.default_rng(0).random((500, 3)) + 0.01
    y = np.random.default_rng(1).integers(0, 3, 500)
    names = np.array(["cat", "dog", "emu"])
    columns = {f"p_{name}": p[:, k] for k, name in enumerate(names)} | {"label": names[y]}
    found = summarize(pl.LazyFrame(columns), normalize=True).whole
    assert_same(Summary(3, classes=names).update(names[y], p, normalize=True), found)


def test_six_decimals_are_no_bad_rows(make_frame):
    """Their sums miss 1 by 1e-6, the tolerance, give or take a last bit that hangs on the order of the sum."""
    rng = np.random.default_rng(0)
    p, y = np.round(rng.dirichlet(np.ones(3), 400), 6), rng.integers(0, 3, 400)
    assert np.abs(p.sum(axis=1) - 1).max() > 1e-6
    assert np.abs(p.sum(axis=1) - 1).max() < 1.1e-6
    found = summarize(make_frame({f"p_{k}": p[:, k] for k in range(3)} | {"label": y}))
    assert (found.whole.n, sum(found.rejected.values())) == (400, 0)
    assert_same(Summary(3).update(y, p), found.whole)


def test_bad_rows_are_counted_and_by_option_fatal(make_frame):
    nan = float("nan")
    columns = {
        "p_0": [0.4, None, nan, 0.9, 1.2, 0.5, 0.5, 0.5],
        "p_1": [0.6, 0.5, 0.5, 0.3, -0.2, 0.5, 0.5, 0.5],
        "label": [1, 0, 0, 0, 0, 2, None, 0],
        "weight": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0],
    }
    frame = make_frame(columns)
    found = summarize(frame)
    assert found.whole.n == 1
    assert found.rejected == {"missing": 3, "label": 1, "outside": 2, "weight": 1}
    assert "7 rows were left out" in str(found.whole.evaluate(n_resamples=0))
    with pytest.raises(InputError, match="3 rows missing"):
        summarize(frame, strict=True)


@pytest.mark.parametrize("values", [[None, float("nan"), 1.0, 2.0], [0.0, -0.0, 1.0, 2.0]], ids=["missing", "zero"])
@pytest.mark.parametrize("views", [None, ["top-1", "entropy"]], ids=["all", "entropy"])
def test_one_slice_in_two_spellings_loses_no_row(make_frame, values, views):
    p, y, columns = spellings(values)
    found = summarize(make_frame(columns), by=["site"], views=views, n_bins=[7])
    expected = Summary(3, views=views, n_bins=[7]).update(y[:198], p[:198])
    assert_same(expected, found.whole)
    assert found.whole.metric("ece", n_bins=7) == pytest.approx(expected.metric("ece", n_bins=7), abs=1e-12)
    first = None if values[0] is None else 0.0
    assert {key: (part.n, sum(part.rejected.values())) for key, part in found.parts.items()} == {
        (first,): (100, 0), (1.0,): (49, 1), (2.0,): (49, 1)
    }  # fmt: skip


def test_infinite_log_score_and_rank_scores(make_frame):
    columns = {"p_0": [1.0, 0.2, 0.0], "p_1": [0.0, 0.3, 0.0], "p_2": [0.0, 0.5, 1.0], "label": [1, 2, 2]}
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    found = summarize(make_frame(columns)).whole
    expected = Summary(3).update(columns["label"], p)
    assert found.metric("nll") == np.inf
    for name in ("rps", "brier", "spherical", "entropy", "uce", "sce"):
        assert found.metric(name) == pytest.approx(expected.metric(name), abs=1e-12)


def test_files_add_up_to_slices(tmp_path):
    columns = hostile_predictions(900)
    frame = pl.DataFrame(columns)
    frame[:700].write_parquet(tmp_path / "a.parquet")
    frame[700:760].write_parquet(tmp_path / "b.parquet")
    frame[760:].write_parquet(tmp_path / "c.parquet")
    found = evaluate_paths(tmp_path, by=["day"])
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    assert_same(Summary(3).update(columns["label"], p, sample_weight=columns["weight"]), found.whole)
    assert sum(part.n for part in found.parts.values()) == 900


def test_list_columns_count_bad_rows(make_list_frame):
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(5), 400)
    y = rng.integers(0, 5, 400)
    lists = [row.tolist() for row in p] + [None, [0.5, 0.5], [0.9, 0.9, 0.0, 0.0, 0.0]]
    frame = make_list_frame({"probs": lists, "label": [*y.tolist(), 0, 0, 0], "day": ["a", "b"] * 201 + ["a"]})
    found = summarize(frame, by=["day"])
    assert_same(Summary(5).update(y, p), found.whole)
    assert found.rejected == {"missing": 2, "label": 0, "outside": 1, "weight": 0}
    assert sorted(found.parts) == [("a",), ("b",)]


def test_percentages_in_every_row_are_called_so():
    with pytest.raises(InputError, match="percentages: divide by 100"):
        summarize(pl.DataFrame({"score": [40.0, 70.0], "label": [0, 1]}))


def test_empty_frames_and_missing_columns_are_refused_with_a_hint():
    with pytest.raises(InputError, match="at least one usable row"):
        summarize(
            pl.DataFrame({"confidence": [None], "correct": [True]}, schema={"confidence": pl.Float64, "correct": bool})
        )
    with pytest.raises(FileError, match="no probabilities"):
        summarize(pl.DataFrame({"a": [1.0]}))
    with pytest.raises(FileError, match="slices"):
        summarize(pl.DataFrame({"confidence": [0.5], "correct": [True]}), by=["model"])
    wide = {f"p_{k}": [1 / 65] for k in range(65)} | {"label": [0]}
    with pytest.raises(InputError, match="list column"):
        summarize(pl.DataFrame(wide))


def test_sixty_four_wide_columns():
    p = np.random.default_rng(0).dirichlet(np.full(64, 0.3), 200)
    y = np.random.default_rng(1).integers(0, 64, 200)
    frame = pl.LazyFrame({**{f"p_{k}": p[:, k] for k in range(64)}, "label": y})
    assert_same(Summary(64).update(y, p), summarize(frame).whole)


@pytest.mark.parametrize("engine", where_installed(["auto", "duckdb"]))
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "arrow"])
def test_paths_of_every_format(tmp_path, engine, suffix):
    columns = hostile_predictions(600)
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    frame = pl.DataFrame(columns)
    writers = {"parquet": "write_parquet", "csv": "write_csv", "jsonl": "write_ndjson", "arrow": "write_ipc"}
    for part in range(3):
        getattr(frame[part * 200 : (part + 1) * 200], writers[suffix])(tmp_path / f"part{part}.{suffix}")
    found = evaluate_paths(tmp_path / f"*.{suffix}", engine, by=["day"])
    expected = Summary(3).update(columns["label"], p, sample_weight=columns["weight"])
    assert_same(expected, found.whole)
    assert len(found.parts) == 3
    assert_same(expected, evaluate_paths(tmp_path, engine).whole)


def test_a_damaged_file_is_a_clear_error(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"confidence": np.linspace(0, 1, 5000), "correct": np.arange(5000) % 2 == 0}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileError, match="cannot be read"):
        evaluate_paths(path)
    with pytest.raises(FileError, match="matches no file"):
        expand(tmp_path / "*.csv")
    (tmp_path / "b.pkl").write_bytes(b"")
    with pytest.raises(FileError, match="pickle"):
        expand(tmp_path / "b.pkl")


def test_a_missing_engine_names_its_extra(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    path = tmp_path / "a.csv"
    path.write_text("confidence,correct\n0.5,1\n", encoding="utf-8")
    with pytest.raises(MissingExtraError, match=r"calibrant\[engines\]"):
        evaluate_paths(path, "duckdb")


def test_evaluation_by_slice_is_corrected(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1, 6000)
    model = np.repeat(["good", "bad", "fine"], 2000)
    correct = rng.random(6000) < np.where(model == "bad", s - 0.2, s)
    pl.DataFrame({"confidence": s, "correct": correct, "model": model}).write_parquet(tmp_path / "a.parquet")
    outcome = evaluate(tmp_path / "*.parquet", by="model", n_resamples=2000, n_bins=7)
    corrected = {part.by["model"]: part.corrected for part in outcome.slices}
    assert corrected["bad"] < 0.001
    assert min(corrected["good"], corrected["fine"]) > 0.01
    document = outcome.to_dict()
    assert [part["by"] for part in document["slices"]] == [{"model": "bad"}, {"model": "fine"}, {"model": "good"}]
    assert document["metrics"]["ece"]["value"] > 0


def test_the_cells_of_several_views_come_from_one_query(monkeypatch):
    """An engine without batches reads and checks its rows for every query; shared pairs are counted once."""
    pd = pytest.importorskip("pandas")
    from calibrant.engines import frames

    seen = []
    genuine = frames.with_cells
    monkeypatch.setattr(frames, "with_cells", lambda frame, grid: seen.append(grid) or genuine(frame, grid))
    columns = hostile_predictions(2000)
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    views = ["top-1", "classwise", "class-1", "pooled"]
    found = summarize(pd.DataFrame({**{f"p_{k}": p[:, k] for k in range(3)}, "label": columns["label"]}), views=views)
    assert_same(Summary(3, views=views).update(columns["label"], p), found.whole)
    assert len(seen) == 1
