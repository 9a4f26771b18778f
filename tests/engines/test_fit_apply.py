"""Fitting from cells and by distributed Newton, and streaming application, against the same methods on rows."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest

from calibrant import calibrators as cal
from calibrant.core.links import softmax
from calibrant.engines.apply import apply_frame, is_simple
from calibrant.engines.fit import fit_frame, fit_summary
from calibrant.errors import ConvergenceWarning, FileError, InputError
from calibrant.summary.summary import Summary
from calibrant.workflows.apply import apply
from helpers import load_data, needs, where_installed


def simulated(n=6000, k=3, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    y = (softmax(z / 1.7 + np.linspace(-0.3, 0.3, k)).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return z, softmax(z), y


METHODS = [
    cal.IsotonicOneVsRest(),
    cal.IsotonicMulticlass(),
    cal.HistogramBinning(strategy="width"),
    cal.HistogramBinning(),
    cal.SplineCalibration(),
    cal.SplineCalibration(target="classwise"),
    cal.PlattScaling(),
    cal.BetaCalibration(),
]


@pytest.mark.parametrize(
    "method", METHODS, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'strategy', getattr(m, 'target', ''))}"
)
@pytest.mark.parametrize("k", [2, 3])
def test_fit_from_cells_is_close_to_the_fit_on_rows(method, k):
    from sklearn.base import clone

    _, p, y = simulated(k=k)
    rows = clone(method).fit(p, y).predict_proba(p)
    cells = fit_summary(clone(method), Summary(k).update(y, p)).predict_proba(p)
    stepped = isinstance(method, cal.IsotonicOneVsRest | cal.IsotonicMulticlass | cal.HistogramBinning)
    assert np.abs(rows - cells).mean() < (
        8e-3 if stepped else 2e-3
    )  # a step may move by a cell and take its rows along
    assert (
        np.mean(-np.log(np.maximum(cells[np.arange(len(y)), y], 1e-12)))
        < np.mean(-np.log(np.maximum(rows[np.arange(len(y)), y], 1e-12))) + 2e-3
    )


def test_temperature_by_passes_equals_the_published_optimum(make_frame):
    data = load_data("cifar10_resnet110")
    z, y = data["logits_cal"].astype(np.float64), data["labels_cal"]
    frame = make_frame({**{f"logit_{k}": z[:, k] for k in range(10)}, "label": y})
    found = fit_frame(cal.TemperatureScaling(), frame)
    assert found.temperature_ == pytest.approx(2.39501, abs=2e-5)
    np.testing.assert_allclose(
        found.predict_proba(z[:50]), cal.TemperatureScaling(space="logit").fit(z, y).predict_proba(z[:50]), atol=1e-9
    )


def test_vector_scaling_by_passes_equals_the_fit_on_rows():
    z, p, y = simulated()
    rows = cal.VectorScaling(space="logit").fit(z, y)
    lists = pl.DataFrame({"logits": z.tolist(), "label": y})
    for frame in (lists, lists.lazy(), pl.DataFrame({**{f"logit_{k}": z[:, k] for k in range(3)}, "label": y})):
        found = fit_frame(cal.VectorScaling(), frame)
        np.testing.assert_allclose(found.predict_proba(z), rows.predict_proba(z), atol=1e-7)
    wide = pl.DataFrame({**{f"p_{k}": p[:, k] for k in range(3)}, "label": y})
    found = fit_frame(cal.VectorScaling(), wide)
    np.testing.assert_allclose(found.predict_proba(p), cal.VectorScaling().fit(p, y).predict_proba(p), atol=1e-7)


def test_fitting_refuses_what_it_cannot_do():
    zero = pl.DataFrame({"p_0": [0.0, 0.5], "p_1": [1.0, 0.5], "label": [1, 0]})
    with pytest.raises(InputError, match="exact 0"):
        fit_frame(cal.TemperatureScaling(), zero)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit_frame(cal.TemperatureScaling(floor=0.01), zero)
    with pytest.raises(InputError, match="fit_frame"):
        fit_summary(cal.TemperatureScaling(), Summary(2).update([0, 1], [0.3, 0.6]))
    with pytest.raises(InputError, match="pairs"):
        fit_summary(cal.IsotonicOneVsRest(), Summary(pairs=True).update([True], [0.5]))


@pytest.mark.parametrize(
    "method", [cal.TemperatureScaling, cal.VectorScaling, cal.MatrixScaling, cal.EnsembleTemperatureScaling]
)
def test_simple_maps_are_expressions_with_the_same_numbers(method, make_frame):
    _, p, y = simulated(800)
    fitted = method().fit(p, y)
    if not is_simple(fitted):
        pytest.fail(f"{method.__name__} should be an expression")
    frame = make_frame({**{f"p_{k}": p[:, k] for k in range(3)}, "label": y, "id": np.arange(800)})
    done = apply_frame(fitted, frame)
    import narwhals.stable.v2 as nw

    table = nw.from_native(done)
    table = table.collect() if hasattr(table, "collect") else table
    order = np.argsort(table["id"].to_numpy())
    found = np.stack([table[f"p_{k}"].to_numpy() for k in range(3)], axis=1)[order]
    np.testing.assert_allclose(found, fitted.predict_proba(p), atol=1e-12)
    assert table["label"].to_numpy()[order].tolist() == y.tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow"])
@pytest.mark.parametrize("method", [cal.TemperatureScaling(), cal.IsotonicOneVsRest()], ids=["expression", "batches"])
def test_files_stream_through_a_calibrator(tmp_path, suffix, method):
    z, p, y = simulated(500)
    fitted = method.fit(p, y)
    for part in range(2):
        rows = slice(part * 250, (part + 1) * 250)
        pl.DataFrame(
            {**{f"logit_{k}": z[rows, k] for k in range(3)}, "label": y[rows], "note": ["x"] * 250}
        ).write_parquet(tmp_path / f"in{part}.parquet")
    out = tmp_path / f"out{suffix}"
    apply(fitted, tmp_path / "in*.parquet", out)
    readers = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".arrow": pl.read_ipc}
    table = readers[suffix](out)
    assert table.columns == ["p_0", "p_1", "p_2", "label", "note"]
    np.testing.assert_allclose(table.select("p_0", "p_1", "p_2").to_numpy(), fitted.predict_proba(p), atol=1e-9)
    assert not list(tmp_path.glob(".*"))


def test_list_columns_and_binary_scores_are_replaced(make_list_frame):
    _, p, y = simulated(300)
    fitted = cal.TemperatureScaling().fit(p, y)
    import narwhals.stable.v2 as nw

    done = nw.from_native(apply_frame(fitted, make_list_frame({"probs": p.tolist(), "label": y})))
    done = done.collect() if hasattr(done, "collect") else done
    np.testing.assert_allclose(np.array(done["probs"].to_list()), fitted.predict_proba(p), atol=1e-12)
    one = np.clip(p[:, 1], 0.01, 0.99)
    binary = cal.TemperatureScaling().fit(one, y == 1)
    done = nw.from_native(apply_frame(binary, make_list_frame({"score": one, "id": np.arange(300)})))
    done = done.collect() if hasattr(done, "collect") else done
    np.testing.assert_allclose(done["score"].to_numpy(), binary.predict_proba(one)[:, 1], atol=1e-12)


def test_apply_leaves_nothing_half_written(tmp_path):
    z, p, y = simulated(200)
    fitted = cal.TemperatureScaling(space="logit").fit(z, y)
    frame = pl.DataFrame({f"p_{k}": p[:, k] for k in range(3)})
    frame.write_parquet(tmp_path / "in.parquet")
    with pytest.raises(InputError, match="hold logits"):
        apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet")
    (tmp_path / "bad.parquet").write_bytes((tmp_path / "in.parquet").read_bytes()[:-50])
    with pytest.raises(FileError):
        apply(cal.TemperatureScaling().fit(p, y), tmp_path / "bad.parquet", tmp_path / "out.parquet")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["bad.parquet", "in.parquet"]


def test_command_line_applies_to_a_pattern(tmp_path):
    from click.testing import CliRunner

    from calibrant.cli import cli

    _, p, y = simulated(300)
    fitted = cal.TemperatureScaling().fit(p, y)
    fitted.save(tmp_path / "cal.json")
    for part in range(2):
        rows = slice(part * 150, (part + 1) * 150)
        pl.DataFrame({f"p_{k}": p[rows, k] for k in range(3)}).write_parquet(tmp_path / f"in{part}.parquet")
    out = tmp_path / "out.parquet"
    done = CliRunner().invoke(cli, ["apply", str(tmp_path / "cal.json"), str(tmp_path / "in*.parquet"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(pl.read_parquet(out).to_numpy(), fitted.predict_proba(p), atol=1e-12)


@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
@pytest.mark.parametrize("method", [cal.TemperatureScaling(), cal.IsotonicOneVsRest()], ids=["expression", "batches"])
def test_tabs_and_rows_to_be_rescaled_stream_too(tmp_path, monkeypatch, engine, method):
    from calibrant.workflows import apply as workflow

    def in_memory(*_args, **_options):
        pytest.fail("the table should stream")

    monkeypatch.setattr(workflow, "read_table", in_memory)
    _, p, y = simulated(300)
    fitted = method.fit(p, y)
    columns = {f"p_{k}": 5 * p[:, k] for k in range(3)}
    pl.DataFrame(columns | {"note": ["x"] * 300}).write_csv(tmp_path / "in.tsv", separator="\t")
    pl.DataFrame({"probs": (5 * p).tolist()}).write_parquet(tmp_path / "lists.parquet")
    apply(fitted, tmp_path / "in.tsv", tmp_path / "out.tsv", engine=engine, normalize=True)
    table = pl.read_csv(tmp_path / "out.tsv", separator="\t")
    assert table.columns == ["p_0", "p_1", "p_2", "note"]
    np.testing.assert_allclose(table.select("^p_.$").to_numpy(), fitted.predict_proba(p), atol=1e-9)
    apply(fitted, tmp_path / "lists.parquet", tmp_path / "o.parquet", engine=engine, normalize=True)
    lists = pl.read_parquet(tmp_path / "o.parquet")["probs"].to_list()
    np.testing.assert_allclose(np.array(lists), fitted.predict_proba(p), atol=1e-12)


@pytest.mark.parametrize(
    ("source", "output", "engine", "words"),
    [
        pytest.param("in.parquet", "out.jsonl", "duckdb", r"'jsonl'.*parquet, csv, tsv", marks=needs("duckdb")),
        ("*.parquet", "-", None, "output="),
    ],
)
def test_an_output_that_cannot_be_written_is_named(tmp_path, monkeypatch, source, output, engine, words):
    _, p, y = simulated(100)
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({f"p_{k}": p[:, k] for k in range(3)}).write_parquet("in.parquet")
    with pytest.raises(FileError, match=words):
        apply(cal.TemperatureScaling().fit(p, y), source, output, engine=engine)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl", "npz", "std.npz"])
def test_means_and_variances_are_replaced(tmp_path, suffix):
    from click.testing import CliRunner

    import calibrant
    from calibrant.cli import cli
    from calibrant.io.readers import read_predictions

    def run(*words):
        done = CliRunner().invoke(cli, [str(word) for word in words])
        assert done.exit_code == 0, done.output

    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=400), rng.normal(size=400)
    columns = {"mean": mean, "variance": rng.uniform(0.05, 0.15, 400), "y": mean + y, "id": np.arange(400)}
    path, out, fitted = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}", tmp_path / "cal.json"
    if suffix == "std.npz":
        np.savez(path, mean_test=mean, std_test=np.sqrt(columns["variance"]), y_test=columns["y"], id=columns["id"])
    elif suffix == "npz":
        np.savez(path, **columns)
    else:
        frame = pl.DataFrame(columns)
        {
            "csv": frame.write_csv,
            "tsv": lambda name: frame.write_csv(name, separator="\t"),
            "parquet": frame.write_parquet,
            "jsonl": frame.write_ndjson,
        }[suffix](path)
    run("fit", path, "-o", fitted, *(["--part", "test"] if suffix == "std.npz" else []))
    run("apply", fitted, path, "-o", out)
    expected = calibrant.load(fitted).predict(mean, columns["variance"])
    read = read_predictions(out)
    np.testing.assert_allclose(read.scores, expected[0], rtol=1e-12)
    np.testing.assert_allclose(read.variance, expected[1], rtol=1e-12)
    np.testing.assert_allclose(read.truth, columns["y"], rtol=1e-12)
    assert read.columns["id"].tolist() == list(range(400))
    assert np.square(read.truth - read.scores).mean() == pytest.approx(read.variance.mean(), rel=0.1)
    if suffix == "std.npz":
        with np.load(out) as new:
            assert sorted(new.files) == ["id", "mean_test", "std_test", "y_test"]


def test_means_and_variances_need_a_file_of_them(tmp_path):
    from calibrant.regression import StdScaling

    fitted = StdScaling().fit([0.0, 0.0], [1.0, 1.0], [2.0, -2.0])
    pl.DataFrame({"p_0": [0.5], "p_1": [0.5]}).write_csv(tmp_path / "a.csv")
    pl.DataFrame({"mean": [0.5], "variance": [0.5]}).write_csv(tmp_path / "b.csv")
    with pytest.raises(InputError, match="hold means and variances"):
        apply(fitted, tmp_path / "a.csv", tmp_path / "o.csv")
    with pytest.raises(FileError, match="another kind"):
        apply(fitted, tmp_path / "b.csv", tmp_path / "o.npz")
    with pytest.raises(FileError, match="do not fit together"):  # files of different columns
        apply(fitted, tmp_path / "*.csv", tmp_path / "o.csv")
    assert not list(tmp_path.glob("o.*"))


@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
def test_means_and_standard_deviations_stream_from_many_files(tmp_path, engine):
    from calibrant.regression import StdScaling

    fitted = StdScaling().fit([0.0, 0.0], [1.0, 1.0], [2.0, -2.0])
    for part in range(2):
        frame = pl.DataFrame({"id": [part], "mu": [0.5], "sigma": [0.5 + part], "y": [1.0]})
        frame.write_parquet(tmp_path / f"in{part}.parquet")
    apply(fitted, tmp_path / "in*.parquet", tmp_path / "o.parquet", engine=engine)
    table = pl.read_parquet(tmp_path / "o.parquet").sort("id")
    assert table.columns == ["id", "mu", "sigma", "y"]
    np.testing.assert_allclose(table["sigma"], [1.0, 3.0])  # a standard deviation stays one


@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
@pytest.mark.parametrize("name", ["logits_", "logit_", "Logits_"])
def test_probabilities_never_stand_in_columns_called_logits(tmp_path, engine, name):
    z, _, y = simulated(200)
    fitted = cal.TemperatureScaling(space="logit").fit(z, y)
    pl.DataFrame({f"{name}{k}": z[:, k] for k in range(3)} | {"label": y}).write_csv(tmp_path / "in.csv")
    layout = {"proba": f"{name}*", "space": "logit"}
    apply(fitted, tmp_path / "in.csv", tmp_path / "streamed.csv", **layout, engine=engine)
    apply(fitted, tmp_path / "in.csv", tmp_path / "arrays.npz", **layout)
    np.savez(tmp_path / "in.npz", logits_test=z, labels_test=y)
    apply(fitted, tmp_path / "in.npz", tmp_path / "out.npz")
    streamed = pl.read_csv(tmp_path / "streamed.csv")
    names = [*streamed.columns, *np.load(tmp_path / "arrays.npz").files, *np.load(tmp_path / "out.npz").files]
    assert not [n for n in names if "logit" in n.lower()]
    np.testing.assert_allclose(streamed.to_numpy()[:, :3], fitted.predict_proba(z), atol=1e-9)


def test_a_name_that_is_taken_is_refused(tmp_path):
    z, p, y = simulated(50)
    fitted = cal.TemperatureScaling(space="logit").fit(z, y)
    both = {f"logit_{k}": z[:, k] for k in range(3)} | {f"p_{k}": p[:, k] for k in range(3)}
    pl.DataFrame(both).write_csv(tmp_path / "in.csv")
    with pytest.raises(FileError, match="p_0 already"):
        apply(fitted, tmp_path / "in.csv", tmp_path / "o.csv", proba="logit_*")
