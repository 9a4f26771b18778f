"""Every verb takes a path, a pattern, a frame or arrays, and gives one answer."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import calibrant
from calibrant.errors import FileError, InputError
from helpers import where_installed

RNG = np.random.default_rng(0)
P = RNG.dirichlet([0.5] * 3, 600)
Y = np.array([RNG.choice(3, p=0.7 * row + 0.1) for row in P])
SITE = RNG.choice(["a", "b"], 600)
MEAN, VARIANCE = RNG.normal(size=600), RNG.uniform(0.5, 1.5, 600)
OUTCOME = MEAN + 1.5 * np.sqrt(VARIANCE) * RNG.normal(size=600)


def table():
    return pl.DataFrame({f"p_{k}": P[:, k] for k in range(3)} | {"label": Y, "site": SITE})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verbs")
    (folder / "logs").mkdir()
    table().write_csv(folder / "preds.csv")
    table()[:300].write_csv(folder / "logs" / "a.csv")
    table()[300:].write_csv(folder / "logs" / "b.csv")
    reg = pl.DataFrame({"mean": MEAN, "variance": VARIANCE, "y": OUTCOME, "site": SITE})
    reg.write_csv(folder / "reg.csv")
    reg.with_columns(variance=2.25 * pl.col("variance")).write_csv(folder / "better.csv")
    pl.DataFrame({"confidence": P.max(1), "correct": P.argmax(1) == Y, "site": SITE}).write_csv(folder / "pairs.csv")
    return folder


def given(folder, form):
    """The same 600 predictions in one of the forms."""
    if form == "pandas":
        import pandas as pd

        return (pd.DataFrame(table().to_dict(as_series=False)),)
    if form == "duckdb":
        import duckdb

        return (duckdb.connect().read_csv(str(folder / "preds.csv")),)
    return {
        "arrays": lambda: (Y, P),
        "path": lambda: (folder / "preds.csv",),
        "pattern": lambda: (str(folder / "logs" / "*.csv"),),
        "directory": lambda: (folder / "logs",),
        "polars": lambda: (table(),),
        "lazy": lambda: (table().lazy(),),
        "arrow": lambda: (table().to_arrow(),),
    }[form]()


FRAMES = ("polars", "lazy", "pandas", "arrow", "duckdb")
FORMS = ("arrays", "path", "pattern", "directory", *FRAMES)


@pytest.mark.parametrize("form", where_installed(FORMS))
def test_evaluate_and_check(folder, form):
    data = given(folder, form)
    found = calibrant.evaluate(*data, metrics=["ece", "brier"], n_resamples=0)
    assert found.n == 600
    assert found["brier"].value == pytest.approx(calibrant.metric("brier", Y, P), abs=1e-9)
    assert found["ece"].value == pytest.approx(calibrant.metric("ece", Y, P), abs=1e-9)
    gate = calibrant.check(*data, max_values={"brier": 2.0}, min_values="accuracy=0.99")
    assert [line.passed for line in gate.lines] == [True, False]
    assert "FAILED" in str(gate)


@pytest.mark.parametrize("form", where_installed(FORMS))
def test_slices(folder, form):
    by = {"site": SITE} if form == "arrays" else "site"
    found = calibrant.evaluate(*given(folder, form), by=by, metrics="brier", n_resamples=100, rng=0)
    expected = calibrant.evaluate(Y[SITE == "b"], P[SITE == "b"], metrics="brier", n_resamples=0)
    part = next(part for part in found.slices if part.by == {"site": "b"})
    assert part.evaluation["brier"].value == pytest.approx(expected["brier"].value, abs=1e-9)
    assert part.corrected is not None


@pytest.mark.parametrize("form", where_installed(FORMS))
def test_fit(folder, form):
    done = calibrant.fit(*given(folder, form), method="temperature")
    expected = calibrant.fit(Y, P, method="temperature")
    assert done.calibrator.temperature_ == pytest.approx(expected.calibrator.temperature_, rel=1e-6)
    assert {row["method"] for row in done.cv_results} == {"identity", "temperature"}
    for word in ("preserves top-1", "weight", "uncalibrated"):
        assert word in str(done)


@pytest.mark.parametrize("form", where_installed(FRAMES))
def test_apply_gives_back_the_kind_of_frame(folder, form):
    import narwhals.stable.v2 as nw

    (frame,) = given(folder, form)
    fitted = calibrant.fit(Y, P, method="temperature").calibrator
    done = calibrant.apply(fitted, frame)
    assert type(done) is type(frame)
    rows = nw.from_native(done).lazy().collect()
    found = np.stack([rows[f"p_{k}"].to_numpy() for k in range(3)], axis=1)
    np.testing.assert_allclose(found, calibrant.apply(fitted, P), atol=1e-12)


@pytest.mark.parametrize("form", where_installed(["arrays", "path", "polars", "pandas", "arrow"]))
def test_compare_with_a_calibrator(folder, form):
    fitted = calibrant.fit(Y, P, method="temperature").calibrator
    found = calibrant.compare(*given(folder, form), calibrator=fitted)
    expected = calibrant.compare(Y, P, fitted.predict_proba(P), injective=True)
    assert found.to_dict()["metrics"].keys() == expected.to_dict()["metrics"].keys()
    assert found["brier"].change == pytest.approx(expected["brier"].change, abs=1e-9)
    assert found["brier"].exact


@pytest.mark.parametrize("form", where_installed(FORMS))
def test_report(folder, form):
    page = calibrant.report(*given(folder, form), compare_methods=False, n_resamples=50)
    assert page.html.startswith("<!doctype html>")
    assert page.to_dict()["evaluation"]["n"] == 600


@pytest.mark.parametrize("form", where_installed(FORMS))
def test_monitor(folder, tmp_path, form):
    report = calibrant.monitor(tmp_path / "store", *given(folder, form), name="Monday")
    assert (report.n, report.name) == (600, "Monday")


def test_explain():
    assert str(calibrant.explain("CRPS")).startswith("crps: ")
    assert calibrant.explain("temperature").to_dict()["name"] == "temperature"
    assert calibrant.explain("nll").to_dict()["also"][0]["task"] == "regression"
    with pytest.raises(InputError, match="known names"):
        calibrant.explain("nonsense")


# -- regression -----------------------------------------------------------------------------------


def test_regression_goes_through_every_verb(folder, tmp_path):
    from calibrant.regression import Normal

    rows = calibrant.evaluate(folder / "reg.csv", metrics=["crps"], by="site", n_resamples=0)
    assert list(rows.whole.to_dict()["metrics"]) == ["crps"]
    assert len(rows.slices) == 2
    arrays = calibrant.evaluate(OUTCOME, Normal(MEAN, VARIANCE), metrics=["crps"], n_resamples=0)
    assert arrays["crps"].value == pytest.approx(rows.whole["crps"].value, abs=1e-12)
    assert not calibrant.check(folder / "reg.csv", max_values="ence=0.01").passed
    change = calibrant.compare(folder / "reg.csv", folder / "better.csv")
    assert change["dss"].interval.low > 0
    done = calibrant.fit(folder / "reg.csv", method="std-scaling")
    assert type(done.calibrator).__name__ == "StdScaling"
    assert {row["method"] for row in done.cv_results} == {"identity", "std-scaling"}
    done.save(tmp_path / "cal.json")
    calibrant.apply(tmp_path / "cal.json", folder / "reg.csv", tmp_path / "out.csv")
    again = calibrant.compare(folder / "reg.csv", tmp_path / "out.csv")
    same = calibrant.compare(folder / "reg.csv", calibrator=tmp_path / "cal.json")
    assert again["dss"].change == pytest.approx(same["dss"].change, abs=1e-9)


def test_level_of_a_report_on_regression(folder):
    wide, narrow = (
        calibrant.report(folder / "reg.csv", level=level, n_resamples=50).to_dict()["evaluation"]["metrics"]["crps"]
        for level in (0.95, 0.5)
    )
    assert narrow["high"] - narrow["low"] < wide["high"] - wide["low"]


# -- nothing is ignored ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda f: calibrant.evaluate(Y, P, label="y"), "label"),
        (lambda f: calibrant.evaluate(Y, P, engine="polars"), "engine"),
        (lambda f: calibrant.evaluate(f / "preds.csv", master="local"), "master"),
        (lambda f: calibrant.evaluate(f / "preds.csv", part="cal"), "part"),
        (lambda f: calibrant.evaluate(f / "preds.csv", sample_weight=Y), "sample_weight"),
        (lambda f: calibrant.evaluate(f / "logs", groups="site"), "groups"),
        (lambda f: calibrant.evaluate(f / "logs", input_format="csv"), "input_format"),
        (lambda f: calibrant.evaluate(f / "logs", master="local"), "master"),
        (lambda f: calibrant.evaluate(f / "pairs.csv", space="logit"), "space"),
        (lambda f: calibrant.evaluate(f / "pairs.csv", normalize=True), "normalize"),
        (lambda f: calibrant.evaluate(f / "reg.csv", normalize=True), "normalize"),
        (lambda f: calibrant.evaluate(f / "preds.csv", space="logit", normalize=True), "normalize"),
        (lambda f: calibrant.fit(f / "preds.csv", space="logit", normalize=True, method="temperature"), "normalize"),
        (lambda f: calibrant.evaluate(f / "reg.csv", space="proba"), "space"),
        (lambda f: calibrant.fit(f / "reg.csv", fast=True), "fast"),
        (lambda f: calibrant.fit(f / "reg.csv", preserve="argmax"), "preserve"),
        (lambda f: calibrant.fit(f / "reg.csv", criterion="brier"), "criterion"),
        (lambda f: calibrant.fit(f / "preds.csv", criterion="dss"), "criterion"),
        (lambda f: calibrant.fit(f / "preds.csv", method="temperature", fast=True), "fast"),
        (lambda f: calibrant.compare(f / "preds.csv", f / "preds.csv", injective=True), "injective"),
        (
            lambda f: calibrant.report(f / "logs", calibrator=calibrant.fit(Y, P, method="platt").calibrator),
            "calibrator",
        ),
        (
            lambda f: calibrant.report(f / "pairs.csv", calibrator=calibrant.fit(Y, P, method="platt").calibrator),
            "calibrator",
        ),
        (lambda f: calibrant.check(f / "preds.csv", max_values="ks=1", metrics="ece"), "metrics"),
        (lambda f: calibrant.monitor(f / "store", label="y"), "label"),
        (lambda f: calibrant.apply(calibrant.fit(Y, P, method="platt").calibrator, P, "out.csv"), "output"),
    ],
)
def test_an_option_without_meaning_is_refused_by_name(folder, call, argument):
    with pytest.raises(InputError) as caught:
        call(folder)
    assert caught.value.argument == argument


def test_apply_refuses_to_overwrite_its_own_input(folder, tmp_path):
    path = tmp_path / "a.csv"
    table().write_csv(path)
    with pytest.raises(FileError, match="the file that is read"):
        calibrant.apply(calibrant.fit(Y, P, method="temperature").calibrator, path, path)
    assert pl.read_csv(path).equals(table())


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_classes_meet_by_name(tmp_path, method):
    names = np.array(["ant", "bee", "cat"])
    there = pl.DataFrame({f"p_{name}": P[:, k] for k, name in enumerate(names)} | {"label": names[Y]})
    back = there.select("label", "p_cat", "p_ant", "p_bee")
    fitted = calibrant.fit(there, method=method).calibrator
    assert max(abs(r.change) for r in calibrant.compare(there, back, n_bins=15)) < 1e-12
    wanted = calibrant.apply(fitted, there)
    assert calibrant.apply(fitted, back).equals(wanted.select(back.columns))
    back.write_csv(tmp_path / "back.csv")
    calibrant.apply(fitted, tmp_path / "back.csv", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["probs"], wanted.select("p_cat", "p_ant", "p_bee").to_numpy(), atol=1e-12)
    with pytest.raises(InputError, match=r"ant, bee, cat.*ant, bee, dog"):
        calibrant.apply(fitted, there.rename({"p_cat": "p_dog"}))


def test_every_command_has_a_verb_of_its_name():
    from click.testing import CliRunner

    from calibrant.cli import cli

    for verb in ("evaluate", "fit", "apply", "compare", "check", "report", "monitor", "explain"):
        assert callable(getattr(calibrant, verb))
        assert CliRunner().invoke(cli, [verb, "--help"]).exit_code == 0


# -- the command line -----------------------------------------------------------------------------


def command(*words):
    from click.testing import CliRunner

    from calibrant.cli import cli

    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["evaluate", "preds.csv", "--part", "cal"], "--part must"),
        (["evaluate", "logs", "--groups", "site"], "--groups must"),
        (["evaluate", "preds.csv", "--label", "nothing"], "check --label"),
        (["evaluate", "preds.csv", "--proba", "q_*"], "--proba 'prob_*'"),
        (["evaluate", "reg.csv", "--normalize"], "--normalize must"),
        (["fit", "reg.csv", "--fast", "-o", "x.json"], "--fast must"),
    ],
)
def test_errors_speak_of_flags(folder, words, flag, monkeypatch):
    monkeypatch.chdir(folder)
    done = command(*words)
    assert isinstance(done.exception, (InputError, FileError))
    assert flag in str(done.exception)
    assert "=" not in str(done.exception).partition("Hint: ")[2]


def test_metric_and_its_old_name(folder):
    new = command("evaluate", folder / "preds.csv", "--metric", "ece,ks", "--json", "--resamples", 0)
    old = command("evaluate", folder / "preds.csv", "--metric", "ece", "--metric", "ks", "--json", "--resamples", 0)
    assert json.loads(new.stdout) == json.loads(old.stdout)
    assert list(json.loads(new.stdout)["metrics"]) == ["ece", "ks"]
    assert new.stderr == "read: label = label · probabilities = p_0, p_1, p_2 · 600 rows\n"


def test_commands_on_patterns_and_regression(folder, tmp_path):
    assert command("report", folder / "logs" / "*.csv", "-o", tmp_path / "r.html", "--resamples", 50).exit_code == 0
    assert (tmp_path / "r.html").exists()
    assert command("check", folder / "logs" / "*.csv", "--max", "ks=0.001").exit_code == 3
    assert command("check", folder / "reg.csv", "--max", "ence=0.001").exit_code == 3
    assert command("compare", folder / "reg.csv", folder / "better.csv").exit_code == 0
    assert command("explain", "crps").exit_code == 0
    done = command("evaluate", folder / "reg.csv", "--metric", "crps", "--by", "site", "--json", "--resamples", 0)
    document = json.loads(done.stdout)
    assert list(document["metrics"]) == ["crps"]
    assert len(document["slices"]) == 2
