"""Point 1: rows and every engine give one answer; one slice has one corrected p-value, whoever prints it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import calibrant
import calibrant.metrics
from acceptance.runner import run
from calibrant.core.declare import declared
from helpers import needs, where_installed

MEAN_SCORES = sorted(entry.name for entry in declared("classes") if entry.state == "score sums")
BINNED = ("ece", "mce", "cwce", "sce", "uce")
RESAMPLES = 200
#: A file in memory, and the same rows for an engine.
SOURCES = {
    "five classes": ("k5.csv", "logs/*.parquet"),
    "weights": ("k5w.csv", "k5w.csv"),
    "two classes": ("k2.csv", "k2.csv"),
    "two classes, weights": ("k2w.parquet", "k2w.parquet"),
    "logits": ("k5_logits.csv", "k5_logits.csv"),
    "pairs": ("pairs.csv", "pairlogs/*.csv"),
}
ENGINES = where_installed(["polars", "duckdb"])


def measures(folder: Path, file: str, names: tuple[str, ...] | list[str], *more: str) -> dict[str, dict[str, Any]]:
    line = ("evaluate", file, "--metric", ",".join(names), "--resamples", str(RESAMPLES), "--json", *more)
    done = run(line, folder)
    assert done.code == 0, done.err
    found: dict[str, dict[str, Any]] = json.loads(done.out)["metrics"]
    return found


def same(one: Any, two: Any) -> bool:
    if one is None or two is None or isinstance(one, str) or isinstance(two, str):
        return bool(one == two)
    return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)


def answered(folder: Path, source: str, names: list[str]) -> list[str]:
    """Names that this form can answer: pairs have no vectors."""
    if source != "pairs":
        return names
    return [
        name for name in names if run(("evaluate", "pairs.csv", "--metric", name, "--resamples", "0"), folder).code == 0
    ]


def test_there_are_mean_scores() -> None:
    assert {"accuracy", "confidence", "brier", "nll", "spherical", "rps", "rbs", "entropy"} <= set(MEAN_SCORES)


def mean_scores_apart(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    return [
        f"{name}.{key}: {here[name][key]} from rows, {there[name][key]} from the engine"
        for name in here
        if name in MEAN_SCORES
        for key in ("value", "null_mean", "null_std", "pvalue", "low", "high")
        if not same(here[name][key], there[name][key])
    ]


def binned_errors_apart(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    found = []
    for name in here.keys() & set(BINNED):
        one, two = here[name], there[name]
        error = math.hypot(one["null_std"], two["null_std"]) / math.sqrt(RESAMPLES)
        if not same(one["value"], two["value"]) or abs(one["null_mean"] - two["null_mean"]) > 4 * error:
            found.append(f"{name}: {one} from rows, {two} from the engine")
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("source", SOURCES)
def test_mean_scores_agree(folder: Path, source: str, engine: str) -> None:
    rows, many = SOURCES[source]
    names = answered(folder, source, MEAN_SCORES)
    here = measures(folder, rows, names)
    apart = mean_scores_apart(here, measures(folder, many, names, "--engine", engine))
    assert not apart, "\n".join(apart)
    assert any(entry["low"] is not None for entry in here.values())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("source", ["five classes", "weights", "two classes", "pairs"])
def test_binned_errors_agree(folder: Path, source: str, engine: str) -> None:
    rows, many = SOURCES[source]
    names = answered(folder, source, list(BINNED))
    apart = binned_errors_apart(measures(folder, rows, names), measures(folder, many, names, "--engine", engine))
    assert not apart, "\n".join(apart)


@pytest.mark.spark
@pytest.mark.parametrize("source", ["weights", "logits", "pairs"])
def test_spark_agrees(folder: Path, source: str) -> None:
    rows, many = SOURCES[source]
    names = answered(folder, source, [*MEAN_SCORES, *BINNED])
    here, there = measures(folder, rows, names), measures(folder, many, names, "--engine", "spark")
    apart = [*mean_scores_apart(here, there), *binned_errors_apart(here, there)]
    assert not apart, "\n".join(apart)
    assert len(here) >= 4


@needs("duckdb")
@pytest.mark.parametrize(
    ("rows", "many"), [("k5.csv", "csvlogs/*.csv"), ("pairs.csv", "pairlogs/*.csv"), ("k2.csv", "k2.csv")]
)
def test_one_slice_one_corrected_pvalue(folder: Path, rows: str, many: str) -> None:
    few = ("--resamples", str(RESAMPLES), "--json", "--by", "site")
    whole = {
        "rows": run(("evaluate", rows, *few), folder),
        "polars": run(("evaluate", many, "--engine", "polars", *few), folder),
        "duckdb": run(("evaluate", many, "--engine", "duckdb", *few), folder),
    }
    seen: dict[str, dict[str, float]] = {}
    for who, done in whole.items():
        assert done.code == 0, done.err
        seen[who] = {part["by"]["site"]: part["corrected_pvalue"] for part in json.loads(done.out)["slices"]}
    page = json.loads(run(("report", rows, "--no-compare", *few), folder).out)
    seen["report"] = {part["name"]: part["corrected"] for part in page["slices"]}
    gate = json.loads(run(("check", rows, "--min-pvalue", "0.006", *few), folder).out)
    seen["check"] = {line["by"]["site"]: line["value"] for line in gate["checks"] if line["by"]}
    for who, found in seen.items():
        assert found.keys() == seen["rows"].keys()
        for name, value in found.items():
            assert same(value, seen["rows"][name]), f"{name}: {value} in {who}, {seen['rows'][name]} in rows"


def test_regression_stands_in_the_same_registry(folder: Path) -> None:
    names = {entry.name for entry in declared("regression")}
    assert {"crps", "ence", "dss", "pit-ks", "mse", "qce"} <= names
    found = measures(folder, "reg.csv", sorted(names & {"crps", "mse", "dss", "ence"}))
    assert set(found) == names & {"crps", "mse", "dss", "ence"}


def test_arrays_and_file_agree(folder: Path) -> None:
    import polars as pl

    table = pl.read_csv(folder / "k2.csv")
    direct = calibrant.evaluate(table["label"].to_numpy(), table["score"].to_numpy(), n_resamples=RESAMPLES, rng=0)
    done = run(("evaluate", "k2.csv", "--resamples", str(RESAMPLES), "--json"), folder)
    ours, theirs = direct.to_dict()["metrics"], json.loads(done.out)["metrics"]
    for name in theirs:
        for key in ("value", "null_mean", "pvalue", "low", "high"):
            assert same(ours[name][key], theirs[name][key]), (name, key)
