"""Every command has a public function of its name; what that returns prints as the command prints."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calibrant
from acceptance.runner import run
from helpers import where_installed

VERBS = ("evaluate", "fit", "apply", "compare", "check", "report", "monitor", "explain")


@pytest.mark.parametrize("verb", VERBS)
def test_library_has_the_verb(verb: str) -> None:
    function = getattr(calibrant, verb)
    assert callable(function)
    assert verb in calibrant.__all__
    assert inspect.getdoc(function)


def printed(argv: tuple[str, ...], folder: Path) -> str:
    done = run(argv, folder)
    assert done.code in (0, 3), done.err
    return done.out.rstrip("\n")


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("file", ["k5.csv", "k2.csv", "pairs.csv", "reg.csv", "csvlogs/*.csv", "k5.npz"])
def test_evaluate_prints_its_result(here: Path, file: str) -> None:
    result = calibrant.evaluate(file, n_resamples=50, rng=0)
    assert str(result) == printed(("evaluate", file, "--resamples", "50"), here)


def test_evaluate_by_prints_its_result(here: Path) -> None:
    result = calibrant.evaluate("k5.csv", by="site", n_resamples=50, rng=0)
    assert str(result) == printed(("evaluate", "k5.csv", "--by", "site", "--resamples", "50"), here)


@pytest.mark.parametrize("pair", [("k5.csv", "k5_after.csv"), ("reg.csv", "reg_after.csv")])
def test_compare_prints_its_result(here: Path, pair: tuple[str, str]) -> None:
    assert str(calibrant.compare(*pair)) == printed(("compare", *pair), here)


def test_check_prints_its_result(here: Path) -> None:
    gate = calibrant.check("k5.csv", max_values={"ks": 0.02}, n_resamples=50, rng=0)
    assert str(gate) == printed(("check", "k5.csv", "--max", "ks=0.02", "--resamples", "50"), here)
    assert not gate.passed


def test_explain_prints_its_result(here: Path) -> None:
    for name in ("ece", "temperature", "taxonomy", "crps"):
        assert str(calibrant.explain(name)) == printed(("explain", name), here)
    assert str(calibrant.explain()) == printed(("explain",), here)


def test_fit_and_apply_print_their_results(here: Path, tmp_path: Path) -> None:
    result = calibrant.fit("k5.npz", method="temperature")
    text = printed(("fit", "k5.npz", "--method", "temperature", "-o", str(tmp_path / "a.json")), here)
    assert str(result).splitlines()[0] == text.splitlines()[0]
    applied = calibrant.apply(str(tmp_path / "a.json"), "k5_logits.csv", str(tmp_path / "b.csv"))
    again = printed(("apply", str(tmp_path / "a.json"), "k5_logits.csv", "-o", str(tmp_path / "b.csv")), here)
    assert str(applied) == again


def test_monitor_prints_its_result(here: Path, tmp_path: Path) -> None:
    result = calibrant.monitor(tmp_path / "one", "k5.csv", name="day1")
    assert (
        str(result).splitlines()[0]
        == printed(("monitor", str(tmp_path / "two"), "k5.csv", "--name", "day1"), here).splitlines()[0]
    )


def test_report_prints_its_result(here: Path) -> None:
    page = calibrant.report("k5.csv", n_resamples=50, rng=0, compare_methods=False)
    text = printed(("report", "k5.csv", "--no-compare", "--resamples", "50", "--format", "text"), here)
    assert str(page).splitlines()[0] == text.splitlines()[0]


@pytest.mark.parametrize("form", where_installed(["polars", "pandas", "pyarrow", "lazy", "path", "directory"]))
def test_evaluate_takes_every_form(here: Path, form: str) -> None:
    table = pl.read_csv("k5.csv")
    data: Any = {
        "polars": lambda: table,
        "pandas": table.to_pandas,
        "pyarrow": table.to_arrow,
        "lazy": table.lazy,
        "path": lambda: Path("k5.parquet"),
        "directory": lambda: "csvlogs",
    }[form]()
    result = calibrant.evaluate(data, n_resamples=0)
    first = calibrant.evaluate("k5.csv", n_resamples=0)
    for name in ("ece", "brier", "nll", "accuracy"):
        assert result[name].value == pytest.approx(first[name].value, abs=1e-9)
