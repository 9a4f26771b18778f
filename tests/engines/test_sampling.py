"""A uniform sample in one pass, and fits on patterns: all rows where the method allows, else the sample."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant import calibrators as cal
from calibrant.cli import cli
from calibrant.core.links import softmax
from calibrant.engines import batches
from calibrant.engines import sample as sampling
from calibrant.engines.fit import fit_frame
from calibrant.engines.frames import summarize
from calibrant.engines.paired import compare_frames
from calibrant.engines.registry import open_paths
from calibrant.engines.sample import draw
from calibrant.errors import FileError, InputError
from calibrant.workflows.fit import fit
from helpers import needs, where_installed


def simulated(n=3000, k=3, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    y = (softmax(z / 1.7).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return softmax(z), y


def table(p, y):
    return pl.DataFrame({**{f"p_{k}": p[:, k] for k in range(p.shape[1])}, "label": y, "id": np.arange(len(y))})


@pytest.fixture
def logs(tmp_path):
    """Three files of 3,000 rows in all, four of them unusable."""
    frame = table(*simulated()).cast({"label": pl.Int64})
    frame[17, "p_0"], frame[18, "label"], frame[1900, "p_1"], frame[2999, "p_2"] = None, 7, 1.5, float("nan")
    for part, rows in enumerate((slice(0, 700), slice(700, 2500), slice(2500, 3000))):
        frame[rows].write_parquet(tmp_path / f"part{part}.parquet")
    return tmp_path / "*.parquet"


def test_few_rows_are_all_taken_in_their_order(make_frame):
    p, y = simulated(200)
    sample = draw(make_frame({f"p_{k}": p[:, k] for k in range(3)} | {"label": y}))
    assert sample.whole
    assert sample.n == 200
    np.testing.assert_array_equal(sample.predictions.scores, p)
    np.testing.assert_array_equal(sample.predictions.truth, y)


@pytest.mark.parametrize("kind", [int, float, str])
def test_every_verb_reads_numbered_labels_alike(make_frame, kind):
    """A pandas column that once held a NaN has labels 1.0, 2.0, 3.0 beside columns p_1, p_2, p_3."""
    p, y = simulated(300)
    columns = {f"p_{k + 1}": p[:, k] for k in range(3)} | {"label": [kind(code + 1) for code in y]}
    frame = make_frame(columns)
    assert summarize(frame).whole.n == 300
    sample = draw(frame)
    assert sample.n == 300
    np.testing.assert_array_equal(sample.predictions.truth.astype(int) - 1, y)
    scaled = fit_frame(cal.TemperatureScaling(), frame)
    assert scaled.temperature_ == pytest.approx(cal.TemperatureScaling().fit(p, y).temperature_, rel=1e-6)
    done, _ = compare_frames(frame, calibrator=scaled, metrics=["brier"])
    assert done.n == 300


@needs("duckdb")
def test_the_sample_depends_on_the_seed_and_on_no_batch(logs, monkeypatch):
    monkeypatch.setattr(sampling, "MOST_ROWS", 400)
    found = []
    for engine in ("polars", "duckdb"):
        for rows in (64, 997, 1 << 16):
            monkeypatch.setattr(batches, "BATCH_ROWS", rows)
            sample = draw(open_paths(logs, engine), seed=3)
            assert (sample.n, sample.predictions.n) == (2996, 400)
            assert sample.rejected == {"missing": 2, "label": 1, "outside": 1, "weight": 0}
            found.append(sample.predictions.scores)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    assert not np.array_equal(found[0], draw(open_paths(logs), seed=4).predictions.scores)


def test_every_row_has_the_same_chance(monkeypatch):
    monkeypatch.setattr(sampling, "MOST_ROWS", 60)
    monkeypatch.setattr(batches, "BATCH_ROWS", 32)
    frame = pl.DataFrame({"score": np.arange(300) / 300, "label": np.zeros(300, dtype=int)})
    hits = np.zeros(300)
    for seed in range(200):
        rows = np.rint(draw(frame, seed=seed).predictions.scores * 300).astype(int)
        assert (np.diff(rows) > 0).all()
        hits[rows] += 1
    assert hits.sum() == 200 * 60
    tenths = hits.reshape(10, 30).sum(axis=1)  # mean 1,200, standard deviation about 29
    assert np.abs(tenths - 1200).max() < 4 * 29
    assert np.abs(hits - 40).max() < 5 * np.sqrt(40 * 0.8)


def test_lists_weights_names_and_scores_are_carried_along(monkeypatch):
    p, y = simulated(500)
    monkeypatch.setattr(sampling, "MOST_SCORES", 3 * 100)
    lists = draw(pl.DataFrame({"probs": p.tolist(), "label": y, "weight": np.arange(500.0)})).predictions
    assert lists.n == 100
    rows = lists.weights.astype(int)
    np.testing.assert_array_equal(lists.scores, p[rows])
    np.testing.assert_array_equal(lists.truth, y[rows])
    names = np.array(["ant", "bee", "cow"])
    named = draw(pl.DataFrame({f"p_{n}": p[:, k] for k, n in enumerate(names)} | {"label": names[y]})).predictions
    assert named.classes == ("ant", "bee", "cow")
    np.testing.assert_array_equal(named.truth, names[y[_rows_of(p, named.scores)]])
    with pytest.raises(InputError, match="pairs"):
        draw(pl.DataFrame({"confidence": [0.5], "correct": [True]}))
    with pytest.raises(InputError, match="2 rows missing"):
        draw(pl.DataFrame({"score": [None, 0.5], "label": [1, None]}, schema={"score": pl.Float64, "label": pl.Int64}))


def _rows_of(p, chosen):
    return [int(np.flatnonzero((p == row).all(axis=1))[0]) for row in chosen]


@pytest.mark.parametrize("engine", where_installed(["polars", "duckdb"]))
@pytest.mark.parametrize("method", ["temperature", "vector"])
def test_methods_by_passes_use_all_rows(logs, monkeypatch, engine, method):
    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    repair = fit(logs, method=method, engine=engine, max_rejected="1%")
    p, y = simulated()
    rows = np.setdiff1d(np.arange(3000), [17, 18, 1900, 2999])
    expected = cal.get_calibrator(method)().fit(p[rows], y[rows])
    np.testing.assert_allclose(repair.calibrator.predict_proba(p), expected.predict_proba(p), atol=1e-7)
    assert (repair.n, repair.n_fitted, repair.n_compared) == (2996, None, 300)
    assert "2,996 calibration rows · 3 classes · compared on a random sample of 300, fitted on all" in str(repair)
    assert [row["method"] for row in repair.cv_results if row["chosen"]] == [method]


@pytest.mark.parametrize("method", ["isotonic", "isotonic-multiclass", "histogram", "spline", "platt", "beta"])
def test_methods_from_cells_use_all_rows(tmp_path, monkeypatch, method):
    p, y = simulated(6000)
    table(p, y).write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    found = fit(tmp_path, method=method).calibrator.predict_proba(p)
    whole = cal.get_calibrator(method)().fit(p, y).predict_proba(p)
    part = draw(table(p, y)).predictions
    sampled = cal.get_calibrator(method)().fit(part.scores, part.truth).predict_proba(p)
    assert np.abs(found - whole).mean() < 0.3 * np.abs(sampled - whole).mean()


@needs("duckdb")
def test_other_methods_and_auto_use_the_sample(logs, monkeypatch):
    monkeypatch.setattr(sampling, "MOST_ROWS", 400)
    first = fit(logs, fast=True, rng=1, max_rejected="1%")
    again = fit(logs, fast=True, rng=1, engine="duckdb", max_rejected="1%")
    p, _ = simulated()
    np.testing.assert_array_equal(first.calibrator.predict_proba(p), again.calibrator.predict_proba(p))
    assert (first.n, first.n_fitted, first.n_compared) == (2996, 400, 400)
    assert "compared on a random sample of 400, fitted on it" in str(first)
    dirichlet = fit(logs, method="dirichlet", max_rejected="1%")
    assert dirichlet.n_fitted == 400
    assert dirichlet.to_dict()["rejected"]["missing"] == 2


def test_a_pattern_of_few_rows_gives_what_one_file_gives(tmp_path):
    p, y = simulated(400)
    table(p, y).write_csv(tmp_path / "a.csv")
    one = fit(tmp_path / "a.csv", method="temperature", rng=0)
    many = fit(tmp_path / "*.csv", method="temperature")
    assert str(one) == str(many)
    assert one.calibrator.temperature_ == many.calibrator.temperature_


@pytest.mark.parametrize("zeros", [600, 1])
def test_exact_zeros_are_no_dead_end(tmp_path, monkeypatch, zeros):
    p, y = simulated()
    rows = np.flatnonzero(y != 0)[-zeros:]
    p[rows, 0] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    table(p, y).write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    sample = draw(pl.read_parquet(tmp_path / "a.parquet"))
    assert sample.zeros == zeros
    repair = fit(tmp_path, method="temperature")
    in_sample = (sample.predictions.scores == 0).any()
    assert in_sample == (zeros > 1)  # a single one is not drawn
    floor = cal.TemperatureScaling().fit(sample.predictions.scores, sample.predictions.truth).floor_
    assert repair.calibrator.floor_ == (floor if in_sample else 1 / 3000)
    assert np.isfinite(np.log(repair.calibrator.predict_proba(p))).all()


def test_normalize_rescales_the_rows_of_every_pass(tmp_path, monkeypatch):
    p, y = simulated()
    table(3 * p, y).write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    found = fit(tmp_path, method="temperature", normalize=True)
    assert found.calibrator.temperature_ == pytest.approx(cal.TemperatureScaling().fit(p, y).temperature_, rel=1e-6)
    with pytest.raises(InputError, match="3000 rows outside"):
        fit(tmp_path, method="temperature")


def test_a_damaged_file_is_one_clear_line(tmp_path):
    path = tmp_path / "a.parquet"
    table(*simulated()).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileError, match="cannot be read"):
        fit(path)
    with pytest.raises(FileError, match="truth"):
        fit(_without_label(tmp_path), label="y")


def _without_label(folder):
    table(*simulated(10)).write_csv(folder / "b.csv")
    return folder / "b.csv"


@pytest.mark.parametrize("engine", where_installed([[], ["--engine", "duckdb"]]))
def test_command_line_fits_a_pattern(logs, tmp_path, monkeypatch, engine):
    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    out = tmp_path / "cal.json"
    words = ["fit", str(logs), "--method", "temperature", "-o", str(out), "--max-rejected", "1%", *engine]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "compared on a random sample of 300, fitted on all" in done.stdout
    assert "4 rows were left out (2 missing, 1 label, 1 outside)" in done.stderr
    answer = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert (answer["n"], answer["n_fitted"], answer["n_compared"]) == (2996, 2996, 300)
    applied = CliRunner().invoke(cli, ["apply", str(out), str(logs), "-o", str(tmp_path / "new.csv")])
    assert applied.exit_code == 0, applied.output
    assert len(pl.read_csv(tmp_path / "new.csv")) == 3000
    assert type(calibrant.load(out)).__name__ == "TemperatureScaling"
