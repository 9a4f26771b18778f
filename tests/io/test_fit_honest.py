"""Top-label pairs: a confidence is calibrated as the probability of being right."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.calibrators import AutoCalibrator, PlattScaling


@pytest.fixture(scope="module")
def pairs() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    confidence = np.round(rng.uniform(0.4, 1.0, 600), 2)
    return pl.DataFrame(
        {"confidence": confidence, "correct": (rng.random(600) < confidence**2).astype(int), "id": range(600)}
    )


def test_a_confidence_is_fitted_and_applied(pairs, tmp_path):
    done = calibrant.fit(pairs, method="platt")
    assert done.calibrator.classes_.tolist() == ["wrong", "right"]
    new = calibrant.apply(done.calibrator, pairs)
    assert new.columns == pairs.columns
    assert new["id"].to_list() == list(range(600))
    direct = PlattScaling().fit(pairs["confidence"].to_numpy(), pairs["correct"].to_numpy())
    expected = direct.predict_proba(pairs["confidence"].to_numpy())[:, 1]
    np.testing.assert_allclose(new["confidence"].to_numpy(), expected, atol=1e-12)
    assert (
        calibrant.evaluate(new, n_resamples=0)["ece"].value < calibrant.evaluate(pairs, n_resamples=0)["ece"].value / 3
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_percentages_stay_percentages(pairs, tmp_path, suffix):
    percent = pairs.with_columns(pl.col("confidence") * 100)
    source, out, cal = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", tmp_path / "cal.json"
    (percent.write_csv if suffix == "csv" else percent.write_parquet)(source)
    calibrant.fit(str(source), percent=True, method="platt").save(cal)
    calibrant.apply(str(cal), str(source), str(out), percent=True)
    new = (pl.read_csv if suffix == "csv" else pl.read_parquet)(out)
    plain = calibrant.apply(str(cal), pairs)
    np.testing.assert_allclose(new["confidence"].to_numpy(), 100 * plain["confidence"].to_numpy(), rtol=1e-9)
    assert calibrant.evaluate(str(out), percent=True, n_resamples=0).in_sample is not None


def test_a_calibrator_of_classes_refuses_pairs(pairs):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    other = calibrant.fit((rng.random(200) < p).astype(int), p, method="platt").calibrator
    with pytest.raises(calibrant.errors.CalibrantError, match="top-label pairs"):
        calibrant.apply(other, pairs)


def test_equal_rows_do_not_hide_the_gain():
    """Two distinct scores: joined rows once left no other rows to learn from, and the claim was 0."""
    rng = np.random.default_rng(2)
    p = rng.choice([0.6, 0.9], 500)
    y = (rng.random(500) < p**3).astype(int)
    fitted = AutoCalibrator(fast=True).fit(p, y)
    before = -np.log(np.where(y == 1, p, 1 - p)).mean()
    q = fitted.predict_proba(p)[:, 1]
    inside = before + np.log(np.where(y == 1, q, 1 - q)).mean()
    assert fitted.gain_[0] == pytest.approx(inside, rel=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_fit_ships_nothing_when_nothing_is_proven(seed):
    """Calibrated rows: without proof three of ten such draws were changed a little."""
    rng = np.random.default_rng([seed, 150, 2])
    p = rng.beta(2, 2, 150)
    done = calibrant.fit((rng.random(150) < p).astype(int), p, fast=True)
    assert done.changes_nothing
    np.testing.assert_array_equal(calibrant.apply(done.calibrator, p)[:, 1], p)


def test_what_is_proven_is_shipped():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    y = (rng.random(300) < 0.25 + 0.5 * p).astype(int)
    assert not calibrant.fit(y, p, fast=True).changes_nothing


def test_the_report_recommends_nothing_beside_a_calibrated_model():
    from calibrant.reporting.recalibration import without_contradiction

    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.3, 0.3, 0.3], 20_000)
    y = (p.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    verdict = calibrant.evaluate(y, p, n_resamples=60).verdict
    assert verdict.next_step == "use"
    some = {
        "crossfitted": True,
        "command": "calibrant fit",
        "reason": "mixture: −0.0001 NLL",
        "sentence": "Recommended",
    }
    told = without_contradiction(some, verdict)
    assert told["command"] is None
    assert "Recommended" not in told["sentence"]
    page = calibrant.report(y, p, n_resamples=60)
    assert "Recommended" not in page.html


def test_compare_takes_the_calibrator_of_a_confidence(pairs):
    rng = np.random.default_rng(9)
    confidence = np.round(rng.uniform(0.4, 1.0, 600), 3)
    other = pl.DataFrame({"confidence": confidence, "correct": (rng.random(600) < confidence**2).astype(int)})
    fitted = calibrant.fit(pairs, method="platt").calibrator
    done = calibrant.compare(other, calibrator=fitted)
    after = calibrant.apply(fitted, other)
    assert done["ece"].after == pytest.approx(calibrant.evaluate(after, n_resamples=0)["ece"].value)
    with pytest.raises(calibrant.errors.CalibrantError, match="confidence in the top label"):
        calibrant.compare(pl.DataFrame({"score": confidence, "label": other["correct"]}), calibrator=fitted)


def test_the_next_command_of_apply_can_be_copied(pairs, tmp_path, monkeypatch):
    import shlex

    from click.testing import CliRunner

    from calibrant.cli import cli

    monkeypatch.chdir(tmp_path)
    pairs.select(sure=pl.col("confidence") * 100, correct="correct").write_csv("a.csv")
    words = ["--percent", "--confidence", "sure"]
    assert CliRunner().invoke(cli, ["fit", "a.csv", *words, "--method", "platt", "-o", "cal.json"]).exit_code == 0
    said = CliRunner().invoke(cli, ["apply", "cal.json", "a.csv", *words, "-o", "b.csv"])
    step = next(line for line in said.output.splitlines() if line.startswith("Next: calibrant "))
    again = CliRunner().invoke(cli, shlex.split(step.removeprefix("Next: calibrant ")))
    assert again.exit_code == 0, again.output
    assert "In-sample" in again.output
