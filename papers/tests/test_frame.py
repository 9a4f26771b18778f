"""The frame of studies: same numbers whatever the processes, checkpoints that survive a kill, files that can be read."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from calibrant.errors import InputError
from calibrant_papers.studies import bins, estimator_bias, learning_curves, resolution, sample_size, temperature_sweep
from calibrant_papers.studies.arrays import build, log_sizes, repeats_for
from calibrant_papers.studies.frame import Study, StudyResult, run_study, workspace


def squares(cell, arrays, rng):
    return [{"x": cell["x"], "value": float(arrays["a"].sum() + cell["x"] ** 2), "noise": rng.random()}]


def failing(cell, arrays, rng):
    if cell["x"] == 3:
        raise KeyboardInterrupt
    return squares(cell, arrays, rng)


def make(worker=squares, seed=1):
    return Study("squares", worker, tuple({"x": x} for x in range(6)), {"a": np.arange(3.0)}, seed)


def test_a_seed_decides_everything():
    first, again, other = run_study(make()), run_study(make()), run_study(make(seed=2))
    assert first == again
    assert [row["noise"] for row in first] != [row["noise"] for row in other]
    assert len({row["noise"] for row in first}) == 6  # every cell draws on its own
    assert [row["value"] for row in first] == [3.0 + x**2 for x in range(6)]


@pytest.mark.slow
def test_processes_change_nothing():
    study = Study("estimator-bias-1", _bias_cell(), tuple(_cells()), {}, 0)
    assert run_study(study, jobs=1) == run_study(study, jobs=2)


def _bias_cell():
    from calibrant_papers.studies.estimator_bias import _one_size

    return _one_size


def _cells():
    return ({"model": "case 1", "n": n, "repeats": 3, "order": 1} for n in (64, 128, 256))


def test_a_killed_study_goes_on_and_ends_alike(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_study(make(failing), folder=tmp_path)
    done = [path for path in tmp_path.glob("*/*.json") if path.name != "plan.json"]
    assert len(done) == 3
    stamps = {path: path.stat().st_mtime_ns for path in done}
    told = []
    rows = run_study(make(), folder=tmp_path, progress=lambda done, total, _: told.append((done, total)))
    assert rows == run_study(make())
    assert told[0] == (3, 6)
    assert told[-1] == (6, 6)
    assert {path: path.stat().st_mtime_ns for path in done} == stamps  # finished cells are not touched again
    assert not list(tmp_path.glob("**/*.part"))


def test_a_damaged_checkpoint_is_computed_again(tmp_path):
    rows = run_study(make(), folder=tmp_path)
    path = next(p for p in tmp_path.glob("*/*.json") if p.name != "plan.json")
    path.write_text("{half", encoding="utf-8")
    assert run_study(make(), folder=tmp_path) == rows


def test_other_data_never_reuse_cells(tmp_path):
    run_study(make(), folder=tmp_path)
    other = Study("squares", squares, tuple({"x": x} for x in range(6)), {"a": np.arange(4.0)}, 1)
    assert [row["value"] for row in run_study(other, folder=tmp_path)] == [6.0 + x**2 for x in range(6)]


def test_a_workspace_lends_its_folder(tmp_path):
    with workspace(tmp_path):
        run_study(make())
    assert len(list(tmp_path.glob("*/*.json"))) == 7
    assert run_study(make()) == run_study(make(), folder=tmp_path)


def test_results_are_written_and_read_back(tmp_path):
    result = StudyResult(
        "demo",
        ({"n": 1, "value": 0.5}, {"n": 2, "value": float("inf")}),
        "It shows.",
        {
            "panel": {"n": [1.0, 2.0], "value": [0.5, 0.7], "value low": [0.4, 0.6], "value high": [0.6, 0.8]},
        },
    )
    names = {path.name for path in result.save(tmp_path)}
    assert names >= {"demo.parquet", "demo.csv", "demo.json"}
    assert pl.read_parquet(tmp_path / "demo.parquet").equals(result.to_frame())
    assert json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))["rows"][1]["value"] == "inf"
    assert "It shows." in str(result)
    pytest.importorskip("matplotlib")
    assert {"demo.svg", "demo.png"} <= names
    assert (tmp_path / "demo.svg").read_text(encoding="utf-8").count("<svg") == 1


def test_jobs_must_not_be_negative():
    with pytest.raises(InputError, match="jobs of run_study"):
        run_study(make(), jobs=-1)


# -- the studies ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forecasts():
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal((3000, 3))
    law = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return (law.cumsum(axis=1) <= rng.random(3000)[:, None]).sum(axis=1), 1.6 * z


def test_sizes_and_repeats_as_published():
    assert log_sizes(26_032) == [100, 186, 344, 639, 1185, 2198, 4077, 7564, 14032, 26032]
    assert log_sizes(25_000) == [100, 185, 341, 630, 1163, 2149, 3969, 7329, 13536, 25000]
    assert repeats_for(10, 10_000)[::-1] == [1, 144, 529, 1156, 2025, 3136, 4489, 6084, 7921, 10000]
    assert build("tce:bins=mass,debias=True").estimator.debias


def test_sample_size_sees_bias_of_ece_and_none_of_brier(forecasts):
    y, z = forecasts
    result = sample_size(y, z, z / 1.6, space="logit", after_space="logit", sizes=(100, 3000), repeats=60)
    rows = {(row["n"], row["measure"]): row for row in result.rows}
    assert rows[100, "RBS"]["repeats"] == 60
    assert rows[3000, "ECE"]["relative"] == 1
    assert rows[100, "CWCE₂ 100 bins"]["relative"] > 1.3
    assert rows[100, "RBS"]["mean_square"] == pytest.approx(rows[3000, "RBS"]["mean_square"], rel=0.05)
    assert rows[3000, "RBS"]["change"] > 0
    assert "At 100 rows" in result.finding


def test_learning_curves_improve_and_keep_the_accuracy(forecasts):
    y, z = forecasts
    result = learning_curves(y, z, space="logit", methods=("ts", "irova"), sizes=(128, 1500), repeats=2, n_test=1000)
    rows = {(row["method"], row["rows"]): row for row in result.rows}
    assert rows["ts", 1500]["Brier"] < rows["none", 1500]["Brier"]
    assert rows["ts", 128]["accuracy"] == rows["none", 128]["accuracy"]


def test_temperature_sweep_finds_the_temperature(forecasts):
    y, z = forecasts
    result = temperature_sweep(y, z, space="logit", temperatures=(1.0, 1.3, 1.6, 2.0, 2.5))
    best = min(result.rows, key=lambda row: row["NLL"])["temperature"]
    assert best == 1.6


def test_more_bins_only_add_error(forecasts):
    y, z = forecasts
    rows = bins(y, z, space="logit", numbers=(5, 50), n_resamples=20).rows
    value = {(row["bins"], row["measure"]): row for row in rows}
    assert value[50, "ECE"]["value"] >= value[5, "ECE"]["value"]
    assert value[50, "ECE"]["if_calibrated"] > value[5, "ECE"]["if_calibrated"]


def test_resolution_agrees_with_the_required_sample_size(forecasts):
    from calibrant.inference import required_sample_size

    y, z = forecasts
    result = resolution(y, z, space="logit")
    own = next(row for row in result.rows if row["n"] == 3000)
    assert required_sample_size(own["resolves"], y, z, space="logit") == pytest.approx(3000, abs=1)
    assert "cannot resolve an ECE below" in result.finding


def test_bias_on_own_forecasts_has_a_known_truth(forecasts):
    y, z = forecasts
    rows = estimator_bias(y, z, space="logit", sizes=(64, 1024), repeats=30).rows
    error = {(row["n"], row["estimator"]): row["mean_absolute_error"] for row in rows}
    assert error[1024, "15 bins"] < error[64, "15 bins"]
