"""Class names stay with the numbers: permuted columns give the same answer, other names are refused naming both."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import calibrant
from calibrant.calibrators import TemperatureScaling
from calibrant.cli import cli
from calibrant.datasets import dirichlet_temperature
from calibrant.errors import CalibrantError
from helpers import where_installed

NAMES = ["cat", "dog", "fox"]
PERMUTED = ["fox", "cat", "dog"]


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="module")
def data():
    found = dirichlet_temperature(240, n_classes=3, concentration=0.5, temperature=0.5, rng=1)
    return found.y_proba, np.array(NAMES)[found.y_true], found.y_true


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data):
    """One file with its columns in several orders and under several names, and a calibrator of one of them."""
    path = tmp_path_factory.mktemp("names")
    p, y, codes = data
    plain = pl.DataFrame(p, schema=[f"p_{name}" for name in NAMES]).with_columns(label=pl.Series(y))
    plain.write_csv(path / "plain.csv")
    plain.select("label", *(f"p_{name}" for name in PERMUTED)).write_csv(path / "permuted.csv")
    plain.select("label", *(pl.col(f"p_{name}").alias(name) for name in PERMUTED)).write_csv(path / "bare.csv")
    plain.rename({"p_fox": "p_owl"}).with_columns(pl.col("label").replace("fox", "owl")).write_csv(path / "renamed.csv")
    plain.drop("p_fox").filter(pl.col("label") != "fox").with_columns(
        p_cat=pl.col("p_cat") / (pl.col("p_cat") + pl.col("p_dog")),
        p_dog=pl.col("p_dog") / (pl.col("p_cat") + pl.col("p_dog")),
    ).write_csv(path / "missing.csv")
    plain.with_columns(p_owl=pl.lit(0.0)).write_csv(path / "extra.csv")
    plain.with_columns(label=pl.Series(codes)).write_csv(path / "counted.csv")
    plain.drop("label").select(*(f"p_{name}" for name in PERMUTED)).write_csv(path / "unlabeled.csv")
    done = run("fit", path / "plain.csv", "--method", "vector", "-o", path / "cal.json")
    assert done.exit_code == 0, done.exception
    return path


def applied(folder, name, out):
    done = run("apply", folder / "cal.json", folder / f"{name}.csv", "-o", out)
    assert done.exit_code == 0, done.exception
    return pl.read_csv(out)


@pytest.mark.parametrize("name", ["permuted", "bare", "counted", "unlabeled"])
def test_apply_meets_by_name(folder, tmp_path, name):
    plain = applied(folder, "plain", tmp_path / "a.csv")
    other = applied(folder, name, tmp_path / "b.csv")
    for one in NAMES:
        mine = other[f"p_{one}" if f"p_{one}" in other.columns else one]
        assert np.abs(mine.to_numpy() - plain[f"p_{one}"].to_numpy()).max() < 1e-12


@pytest.mark.parametrize("name", ["renamed", "missing", "extra"])
@pytest.mark.parametrize("command", ["apply", "compare", "report"])
def test_other_classes_are_refused(folder, tmp_path, name, command):
    words = {
        "apply": ("apply", folder / "cal.json", folder / f"{name}.csv", "-o", tmp_path / "o.csv"),
        "compare": ("compare", folder / f"{name}.csv", "--calibrator", folder / "cal.json"),
        "report": ("report", folder / f"{name}.csv", "--calibrator", folder / "cal.json", "-o", tmp_path / "r.html"),
    }[command]
    done = run(*words)
    assert isinstance(done.exception, CalibrantError)
    assert "cat, dog, fox" in str(done.exception)
    assert ("owl" if name != "missing" else "cat, dog") in str(done.exception)


@pytest.mark.parametrize("name", ["permuted", "bare"])
def test_compare_of_the_same_predictions_is_nothing(folder, name):
    done = run("compare", folder / "plain.csv", folder / f"{name}.csv", "--json")
    assert done.exit_code == 0, done.exception
    for metric, found in json.loads(done.stdout)["metrics"].items():
        assert abs(found["change"]) < 1e-12, metric


@pytest.mark.parametrize("name", ["renamed", "extra"])
def test_compare_refuses_other_classes(folder, name):
    done = run("compare", folder / "plain.csv", folder / f"{name}.csv")
    assert isinstance(done.exception, CalibrantError)
    assert "owl" in str(done.exception)


def test_compare_with_a_calibrator_meets_by_name(folder):
    found = [
        json.loads(run("compare", folder / f"{name}.csv", "--calibrator", folder / "cal.json", "--json").stdout)
        for name in ("plain", "permuted", "bare", "counted")
    ]
    for other in found[1:]:
        for metric in ("brier", "nll", "accuracy"):
            assert other["metrics"][metric]["after"] == pytest.approx(found[0]["metrics"][metric]["after"], abs=1e-12)


def test_monitor_meets_by_name(folder, tmp_path):
    for day, name in enumerate(("plain", "permuted", "bare")):
        done = run("monitor", tmp_path / "store", folder / f"{name}.csv", "--name", f"day{day}", "--json")
        assert done.exit_code in (0, 3), done.exception
    done = run("monitor", tmp_path / "store", folder / "renamed.csv", "--name", "owls")
    assert isinstance(done.exception, CalibrantError)
    assert "owl" in str(done.exception)


# -- frames ---------------------------------------------------------------------------------------------


@pytest.fixture(params=where_installed(["polars", "pandas", "pyarrow"]))
def frame_of(request):
    """A frame of one library from columns by name."""
    library = import_module(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame


def columns(p, names):
    return {name: p[:, NAMES.index(name)] for name in names}


@pytest.mark.parametrize("order", [NAMES, PERMUTED])
def test_named_frames_and_string_labels(data, order, frame_of):
    p, y, codes = data
    right = calibrant.evaluate(codes, p, n_resamples=0)
    frame = frame_of(columns(p, order))
    found = calibrant.evaluate(y, frame, n_resamples=0)
    assert found["brier"].value == pytest.approx(right["brier"].value, abs=1e-12)
    assert found.classes == tuple(order)
    metric = calibrant.metrics.brier_score(y, frame)
    assert metric == pytest.approx(right["brier"].value, abs=1e-12)


def test_frames_meet_calibrators_by_name(data, frame_of):
    p, y, _ = data
    named = frame_of(columns(p, NAMES))
    fitted = calibrant.fit(y, named, method="vector").calibrator
    direct = TemperatureScaling().fit(named, y)
    assert direct.classes_.tolist() == NAMES
    for one in (fitted, direct):
        plain = one.predict_proba(named)
        permuted = one.predict_proba(frame_of(columns(p, PERMUTED)))
        assert np.abs(permuted[:, [1, 2, 0]] - plain).max() < 1e-12
        with pytest.raises(CalibrantError, match="cat, dog, fox; got cat, dog, owl"):
            one.predict_proba(frame_of({"cat": p[:, 0], "dog": p[:, 1], "owl": p[:, 2]}))


def test_compare_of_frames_meets_by_name(data):
    p, y, _ = data
    first, second = pl.DataFrame(p, schema=NAMES), pl.DataFrame(p, schema=NAMES).select(PERMUTED)
    assert calibrant.compare(y, first, second)["accuracy"].change == 0
    assert calibrant.compare(y, first, p)["accuracy"].change == 0  # a bare array has the order of the first
    with pytest.raises(CalibrantError, match="owl"):
        calibrant.compare(y, first, second.rename({"fox": "owl"}))


def test_two_labels_of_any_kind(data):
    p, _, codes = data
    s, t = p[:, 0], (codes == 0).astype(int)
    right = calibrant.evaluate(t, s, n_resamples=0)["brier"].value
    for words in (("no", "yes"), ("benign", "malignant"), (-1, 1), (False, True)):
        found = calibrant.evaluate([words[i] for i in t], s, n_resamples=0)
        assert found["brier"].value == pytest.approx(right)
    flipped = calibrant.evaluate(["spam" if i else "ham" for i in t], 1 - s, positive="ham", n_resamples=0)
    assert flipped["brier"].value == pytest.approx(right)
    assert calibrant.evaluate(t, 100 * s, percent=True, n_resamples=0)["brier"].value == pytest.approx(right)
    with pytest.raises(CalibrantError, match="percent"):
        calibrant.evaluate(t, 100 * s, n_resamples=0)


@pytest.mark.parametrize("command", ["compare", "report"])
def test_numbered_columns_meet_no_names_by_position(folder, tmp_path, command):
    numbered = pl.read_csv(folder / "counted.csv").rename({f"p_{name}": f"p_{k}" for k, name in enumerate(NAMES)})
    numbered.write_csv(tmp_path / "numbered.csv")
    words = [command, tmp_path / "numbered.csv", "--calibrator", folder / "cal.json"]
    words += ["-o", tmp_path / "page.html", "--no-compare", "--resamples", 20] if command == "report" else []
    done = run(*words)
    assert done.exit_code == 1
    assert "have the classes cat, dog, fox; got no names in p_0, p_1, p_2" in str(done.exception)
    assert run(*words, "--proba", "p_0,p_1,p_2").exit_code == 0


def test_compare_of_two_files_meets_no_names_by_position(folder, tmp_path):
    bare = pl.read_csv(folder / "plain.csv").drop("label")
    bare.rename({f"p_{name}": f"p_{k}" for k, name in enumerate(NAMES)}).write_csv(tmp_path / "numbered.csv")
    done = run("compare", folder / "plain.csv", tmp_path / "numbered.csv")
    assert done.exit_code == 1
    assert "the classes of the first (cat, dog, fox); got no names in p_0, p_1, p_2" in str(done.exception)


def test_frames_of_numbered_columns_meet_no_named_calibrator(data):
    p, y, codes = data
    fitted = TemperatureScaling(classes=NAMES).fit(p, y)
    frame = pl.DataFrame(p, schema=["p_0", "p_1", "p_2"])
    for verb, more in ((calibrant.compare, {}), (calibrant.report, {"n_resamples": 20})):
        with pytest.raises(CalibrantError, match="got no names in p_0, p_1, p_2"):
            verb(codes, frame, calibrator=fitted, **more)


def test_report_after_meets_by_name(data):
    p, y, codes = data
    first = pl.DataFrame(p, schema=[f"p_{name}" for name in NAMES])
    second = first.select(*(f"p_{name}" for name in PERMUTED))
    for labels in (y, codes):
        page = calibrant.report(labels, first, after=second, n_resamples=20)
        assert "Accuracy unchanged" in page.summary["comparison"]["verdict"]
    with pytest.raises(CalibrantError, match="have the classes cat, dog, fox; got cat, dog, owl"):
        calibrant.report(y, first, after=first.rename({"p_fox": "p_owl"}), n_resamples=20)
