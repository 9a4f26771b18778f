"""The honest path: rows that were fitted on are known again, and nothing measured on them is called better."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.cli import cli
from calibrant.core.fingerprint import fingerprint, share_seen
from calibrant.datasets import dirichlet_temperature

NAMES = ["cat", "dog", "fox"]


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def write(path, n, seed, temperature=0.5):
    data = dirichlet_temperature(n, n_classes=3, concentration=0.5, temperature=temperature, rng=seed)
    frame = pl.DataFrame(data.y_proba, schema=[f"p_{name}" for name in NAMES])
    frame.with_columns(label=pl.Series(np.array(NAMES)[data.y_true])).write_csv(path)
    return path


@pytest.fixture
def thirty(tmp_path):
    """Thirty rows and an isotonic map fitted on them: what version 0.1 called better."""
    path = write(tmp_path / "preds.csv", 30, 3, temperature=1.0)
    done = run("fit", path, "--method", "isotonic", "-o", tmp_path / "cal.json")
    assert done.exit_code == 0, done.exception
    return tmp_path


def test_compare_with_the_calibrator(thirty):
    done = run("compare", thirty / "preds.csv", "--calibrator", thirty / "cal.json", "--json")
    found = json.loads(done.stdout)
    assert found["verdict"].startswith("In-sample")
    assert "Better" not in done.stdout
    assert found["in_sample"]["share"] == 1
    assert found["in_sample"]["cross_fitted_gain"]["gain"] < 0.5


def test_files_that_apply_made_of_them(thirty):
    done = run("apply", thirty / "cal.json", thirty / "preds.csv", "-o", thirty / "out.csv")
    assert "In-sample" in done.stderr
    assert f"Next: calibrant compare {thirty / 'preds.csv'} --calibrator" in done.stderr
    assert run("compare", thirty / "preds.csv", thirty / "out.csv").stdout.count("In-sample") == 1
    evaluated = json.loads(run("evaluate", thirty / "out.csv", "--json", "--resamples", 20).stdout)
    assert evaluated["verdict"].startswith("In-sample")
    gate = run("check", thirty / "out.csv", "--max", "ece=0.9", "--resamples", 20)
    assert gate.exit_code == 3
    assert "In-sample" in gate.stdout
    page = run("report", thirty / "out.csv", "--no-compare", "--resamples", 20, "--format", "md")
    assert "In-sample" in page.stdout
    (thirty / "out.csv").write_text((thirty / "preds.csv").read_text())  # another content: the mark is void
    assert "In-sample" not in run("evaluate", thirty / "out.csv", "--resamples", 20).stdout


def marked(path, data, calibrator):
    """Apply a calibrator, and return the share that its mark states and what compare says of the output."""
    found = calibrant.apply(str(calibrator), str(data), path)
    said = str(calibrant.compare(str(data), str(path)).verdict) if path.is_file() else ""
    share = None if found.in_sample is None else found.in_sample.share
    return share, said, json.loads((path.parent / f"{path.name}.in-sample.json").read_text())["share"]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("method", ["isotonic", "temperature"])
def test_files_that_are_streamed_have_the_mark_too(tmp_path, suffix, method):
    frame = pl.read_csv(write(tmp_path / "preds.csv", 300, 3))
    data = tmp_path / f"preds.{suffix}"
    turned = frame.select("label", "p_fox", "p_cat", "p_dog")  # the calibrator knows its classes by name
    (turned.write_parquet if suffix == "parquet" else turned.write_ipc)(data)
    calibrant.fit(str(tmp_path / "preds.csv"), method=method).save(tmp_path / "cal.json")
    share, said, stated = marked(tmp_path / f"out.{suffix}", data, tmp_path / "cal.json")
    assert share == stated == 1
    assert said.startswith("In-sample")
    write(tmp_path / "new.csv", 300, 4)
    pl.read_csv(tmp_path / "new.csv").write_parquet(tmp_path / "new.parquet")
    found = calibrant.apply(str(tmp_path / "cal.json"), str(tmp_path / "new.parquet"), tmp_path / "new_out.parquet")
    assert found.in_sample is None


def test_streamed_rows_with_twins_are_known_as_a_whole(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"score": rng.random(500).round(1), "label": rng.integers(0, 2, 500)})
    frame.write_csv(tmp_path / "a.csv")
    frame.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "a.parquet")
    calibrant.fit(str(tmp_path / "a.csv"), method="isotonic").save(tmp_path / "cal.json")
    for suffix in ("csv", "parquet"):
        assert marked(tmp_path / f"out.{suffix}", tmp_path / f"a.{suffix}", tmp_path / "cal.json")[0] == 1


def test_streamed_means_logits_and_lists_are_known(tmp_path):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=300)
    frame = pl.DataFrame({"mean": mean, "std": rng.uniform(0.5, 1, 300), "y": mean + rng.normal(size=300)})
    logits = rng.normal(size=(300, 3))
    wide = pl.DataFrame(logits, schema=["logit_0", "logit_1", "logit_2"]).with_columns(label=rng.integers(0, 3, 300))
    listed = pl.DataFrame({"logits": logits.tolist(), "label": wide["label"]})
    for name, table, method in (
        ("moments", frame, "auto"),
        ("wide", wide, "temperature"),
        ("listed", listed, "isotonic"),
    ):
        table.write_parquet(tmp_path / f"{name}.parquet")
        calibrant.fit(str(tmp_path / f"{name}.parquet"), method=method).save(tmp_path / "cal.json")
        assert marked(tmp_path / "out.parquet", tmp_path / f"{name}.parquet", tmp_path / "cal.json")[0] == 1


def test_a_table_with_a_bad_row_has_the_mark(tmp_path):
    path = write(tmp_path / "preds.csv", 300, 3)
    calibrant.fit(str(path), method="temperature").save(tmp_path / "cal.json")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, ",0.5,0.5,cat"]) + "\n")
    found = calibrant.apply(str(tmp_path / "cal.json"), str(path), tmp_path / "out.csv")
    assert found.rejected["missing"] == 1
    assert found.in_sample.share == 1
    assert (tmp_path / "out.csv.in-sample.json").is_file()


def test_rescaled_rows_are_known(tmp_path):
    path = write(tmp_path / "preds.csv", 300, 3)
    off = pl.read_csv(path).with_columns(pl.col("^p_.*$") * 2)
    off.write_csv(path)
    off.write_parquet(tmp_path / "preds.parquet")
    calibrant.fit(str(path), method="temperature", normalize=True).save(tmp_path / "cal.json")
    for data in (path, tmp_path / "preds.parquet"):
        out = tmp_path / f"out{data.suffix}"
        assert calibrant.apply(str(tmp_path / "cal.json"), str(data), out, normalize=True).in_sample.share == 1


def test_a_directory_has_the_mark(tmp_path):
    frame = pl.read_csv(write(tmp_path / "preds.csv", 300, 3)).with_columns(day=pl.int_range(300) % 3)
    frame.write_parquet(tmp_path / "preds.parquet")
    calibrant.fit(str(tmp_path / "preds.csv"), method="temperature").save(tmp_path / "cal.json")
    done = calibrant.apply(
        str(tmp_path / "cal.json"), str(tmp_path / "preds.parquet"), tmp_path / "out", partition_by="day"
    )
    assert done.in_sample.share == 1
    assert str(calibrant.evaluate(str(tmp_path / "out"), n_resamples=20).verdict).startswith("In-sample")
    next((tmp_path / "out").rglob("*.parquet")).unlink()  # another content: the mark is void
    assert not str(calibrant.evaluate(str(tmp_path / "out"), n_resamples=20).verdict).startswith("In-sample")


def test_report_with_the_calibrator(thirty):
    done = run("report", thirty / "preds.csv", "--calibrator", thirty / "cal.json", "--resamples", 20, "--format", "md")
    assert "In-sample" in done.stdout
    assert "Better" not in done.stdout


def test_new_rows_are_new(thirty):
    write(thirty / "new.csv", 300, 4)
    done = run("compare", thirty / "new.csv", "--calibrator", thirty / "cal.json")
    assert "In-sample" not in done.stdout
    done = run("apply", thirty / "cal.json", thirty / "new.csv", "-o", thirty / "new_out.csv")
    assert "In-sample" not in done.stderr
    assert not (thirty / "new_out.csv.in-sample.json").exists()


def test_part_of_the_rows(tmp_path):
    path = write(tmp_path / "preds.csv", 400, 5)
    run("fit", path, "--method", "temperature", "--holdout", "0.3", "-o", tmp_path / "cal.json")
    found = json.loads(run("compare", path, "--calibrator", tmp_path / "cal.json", "--json").stdout)
    assert 0.6 < found["in_sample"]["share"] < 0.8
    assert "of these rows" in found["verdict"]


def test_holdout_proves_on_rows_of_their_own(tmp_path):
    path = write(tmp_path / "preds.csv", 1000, 6)
    done = run("fit", path, "--method", "temperature", "--holdout", "0.3", "-o", tmp_path / "cal.json")
    assert "Proof on rows held out: 300 predictions" in done.stdout
    assert "Better" in done.stdout
    assert f"Next: calibrant apply {tmp_path / 'cal.json'} {path} -o preds.calibrated.csv" in done.stderr
    result = calibrant.fit(str(path), method="temperature", holdout=0.3)
    assert result.proof.n == 300
    assert result.n == 700
    again = calibrant.fit(str(path), method="temperature", holdout=0.3)
    assert again.proof["brier"].change == result.proof["brier"].change  # seeded by default


def test_holdout_of_pairs_proves_what_compare_says(tmp_path):
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1.0, 1000)
    pl.DataFrame({"confidence": confidence, "correct": rng.random(1000) < confidence**2}).write_csv(
        tmp_path / "pairs.csv"
    )
    done = calibrant.fit(str(tmp_path / "pairs.csv"), method="platt", holdout=0.3)
    held = np.sort(np.random.default_rng(0).permutation(1000)[:300])
    pl.read_csv(tmp_path / "pairs.csv")[held].write_csv(tmp_path / "held.csv")
    said = calibrant.compare(str(tmp_path / "held.csv"), calibrator=done.calibrator)
    assert done.proof.to_dict() == said.to_dict()
    assert done.proof["accuracy"].change == 0


def test_next_commands_are_real(tmp_path):
    path = write(tmp_path / "preds.csv", 1000, 7).rename(tmp_path / "my preds.csv")
    frame = pl.read_csv(path).rename({"label": "kind"})
    frame.write_csv(path)
    done = run("evaluate", path, "--label", "kind", "--resamples", 200)
    assert f"calibrant fit '{path}' --label kind --holdout 0.3 -o cal.json" in done.stdout
    done = run("fit", path, "--label", "kind", "--method", "temperature", "-o", tmp_path / "cal.json")
    assert f"calibrant fit '{path}' --label kind --method temperature --holdout 0.3 -o" in done.stderr
    run("summarize", path, "--label", "kind", "-o", tmp_path / "day.calsum")
    done = run("fit", tmp_path / "day.calsum", "--method", "isotonic", "-o", tmp_path / "cal.json")
    assert "--holdout" not in done.stderr  # cells cannot be split


def test_auto_ships_nothing_without_evidence():
    """A map ships only where held-out rows favor it, and its claim is what those rows gained."""
    changed = []
    for seed in range(6):
        data = dirichlet_temperature(150, n_classes=3, concentration=0.5, temperature=1.0, rng=seed)
        done = calibrant.fit(data.y_true, data.y_proba, fast=True)
        changed.append(not done.changes_nothing)
        assert done.changes_nothing or done.calibrator.fitted_on_["gain"]["gain"] > 0
    assert not all(changed)


def test_apply_refuses_its_own_input(thirty):
    done = run("apply", thirty / "cal.json", thirty / "preds.csv", "-o", thirty / "preds.csv")
    assert "is the file that is read" in str(done.exception)


# -- fingerprints -----------------------------------------------------------------------------------


def test_fingerprints_do_not_cry_wolf():
    rng = np.random.default_rng(0)
    rounded = [rng.random(2000).round(1) for _ in range(2)]
    assert share_seen(fingerprint(rounded[0]), rounded[1]) == 0
    finer = [rng.random(500).round(3) for _ in range(40)]
    assert np.mean([share_seen(fingerprint(a), b) > 0 for a, b in zip(finer[::2], finer[1::2], strict=True)]) <= 0.1
    p = rng.dirichlet(np.ones(5), (2, 3000))
    known = fingerprint(p[0])
    assert share_seen(known, p[1]) == 0
    assert share_seen(known, p[0].astype(np.float32)) > 0.5
    assert share_seen(known, np.concatenate([p[0][:1500], p[1][:1500]])) == pytest.approx(0.5, abs=0.12)
    assert share_seen(known, p[0][rng.permutation(3000)]) == 1


def test_calibrators_keep_them(tmp_path):
    data = dirichlet_temperature(100, n_classes=3, concentration=0.5, temperature=1.0, rng=0)
    done = calibrant.fit(data.y_true, data.y_proba, method="temperature")
    done.save(tmp_path / "cal.json")
    again = calibrant.load(tmp_path / "cal.json")
    assert share_seen(again.fitted_on_, data.y_proba) == 1
    found = calibrant.compare(data.y_true, data.y_proba, calibrator=again)
    assert found.in_sample["share"] == 1
    assert (tmp_path / "cal.json").stat().st_size < 20_000


def test_an_automatic_mixture_is_loaded_again(tmp_path):
    data = dirichlet_temperature(1500, n_classes=4, concentration=0.3, temperature=0.5, rng=0)
    done = calibrant.fit(data.y_true, data.y_proba, fast=True)
    assert done.calibrator.best_.short_name == "ensemble"
    done.save(tmp_path / "cal.json")
    again = calibrant.load(tmp_path / "cal.json")
    assert np.array_equal(again.predict_proba(data.y_proba), done.calibrator.predict_proba(data.y_proba))
