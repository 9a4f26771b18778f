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
    assert f"calibrant fit '{path}' --label kind --holdout 0.3 -o" in done.stderr


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
