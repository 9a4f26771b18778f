"""The same job asked in two ways gives one answer: formats, forms, commands, parts and slices."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibrant
from acceptance.inputs import NAMES, N
from acceptance.runner import run
from frozen.judge import differences
from helpers import needs, where_installed

FEW = ("--resamples", "60")
KEYS = ("value", "null_mean", "null_std", "pvalue", "low", "high")


def document(argv: tuple[str, ...], folder: Path) -> dict[str, Any]:
    done = run((*argv, "--json"), folder)
    assert done.code in (0, 3), done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def measures(folder: Path, *argv: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = document(("evaluate", *argv, *FEW), folder)["metrics"]
    return found


def apart(one: dict[str, Any], two: dict[str, Any], keys: tuple[str, ...] = KEYS, tol: float = 1e-9) -> list[str]:
    """Where two tables of measures disagree."""
    found = []
    for name, entry in one.items():
        if name not in two:
            found.append(f"{name} is missing")
            continue
        for key in keys:
            a, b = entry.get(key), two[name].get(key)
            if a is None or b is None or isinstance(a, str) or isinstance(b, str):
                ok = a == b
            else:
                ok = math.isclose(a, b, rel_tol=tol, abs_tol=tol)
            if not ok:
                found.append(f"{name}.{key}: {a} and {b}")
    return found


@pytest.fixture(scope="module")
def seams(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five-class file in every format, and its rows in other shapes."""
    path = tmp_path_factory.mktemp("seams")
    table = pl.read_csv(folder / "k5.csv")
    table.write_csv(path / "k5.csv")
    table.write_csv(path / "k5.tsv", separator="\t")
    table.write_parquet(path / "k5.parquet")
    table.write_ipc(path / "k5.arrow")
    table.write_ndjson(path / "k5.jsonl")
    p = table.select(f"p_{name}" for name in NAMES).to_numpy()
    labels = table["label"].to_numpy().astype(str)
    codes = np.array([NAMES.index(name) for name in labels])
    np.savez(
        path / "k5.npz", probs=p, labels=labels, classes=np.array(NAMES), site=table["site"].to_numpy().astype(str)
    )
    np.savez(path / "coded.npz", probs=p, labels=codes)
    np.save(path / "probs.npy", p)
    np.save(path / "labels.npy", codes)
    table.select("label", "patient", "site", *reversed([f"p_{name}" for name in NAMES])).write_csv(
        path / "mirrored.csv"
    )
    table.sample(fraction=1.0, shuffle=True, seed=1).write_csv(path / "shuffled.csv")
    table.with_columns(probs=pl.concat_list(f"p_{name}" for name in NAMES)).select(
        "probs", label=pl.Series(codes), site="site"
    ).write_parquet(path / "lists.parquet")
    weighted = pl.read_csv(folder / "k5w.csv")
    weighted.write_csv(path / "weighted.csv")
    weighted[np.repeat(np.arange(N), weighted["weight"].to_numpy())].drop("weight").write_csv(path / "repeated.csv")
    binary = pl.read_csv(folder / "k2.csv")
    binary.write_csv(path / "k2.csv")
    binary.with_columns(p_0=1 - pl.col("score"), p_1="score").drop("score").write_csv(path / "k2_columns.csv")
    pl.read_csv(folder / "pairs.csv").write_csv(path / "pairs.csv")
    pl.read_csv(folder / "k5_after.csv").write_csv(path / "k5_after.csv")
    pl.read_csv(folder / "reg.csv").write_csv(path / "reg.csv")
    regression = pl.read_csv(folder / "reg.csv")
    regression.with_columns(std=pl.col("variance").sqrt()).drop("variance").write_csv(path / "reg_std.csv")
    regression.write_parquet(path / "reg.parquet")
    np.savez(path / "reg.npz", mean=regression["mean"], variance=regression["variance"], y=regression["y"])
    for site in ("north", "south", "west"):
        table.filter(site=site).write_csv(path / f"{site}.csv")
        regression.filter(site=site).write_csv(path / f"reg_{site}.csv")
    return path


@pytest.mark.parametrize(
    "file", ["k5.tsv", "k5.parquet", "k5.arrow", "k5.jsonl", "k5.npz", "coded.npz", "lists.parquet"]
)
def test_formats(seams: Path, file: str) -> None:
    assert not apart(measures(seams, "k5.csv"), measures(seams, file))


def test_npy_pair(seams: Path) -> None:
    assert not apart(measures(seams, "k5.csv"), measures(seams, "probs.npy", "--label", "labels.npy"))


@pytest.mark.parametrize("file", ["reg.parquet", "reg.npz", "reg_std.csv"])
def test_formats_of_regression(seams: Path, file: str) -> None:
    assert not apart(measures(seams, "reg.csv"), measures(seams, file))


def test_standard_input(seams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    data = io.BytesIO((seams / "k5.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data, encoding="utf-8"))
    assert not apart(measures(seams, "k5.csv"), measures(seams, "-"))


@pytest.mark.parametrize("file", ["mirrored.csv", "shuffled.csv"])
def test_order_of_columns_and_rows(seams: Path, file: str) -> None:
    values = ("value", "low", "high") if file == "mirrored.csv" else ("value",)
    skip = {"rps"}  # cares for the order of classes, as it should
    one = {name: entry for name, entry in measures(seams, "k5.csv").items() if name not in skip}
    assert not apart(one, measures(seams, file), values)


def test_columns_meet_by_name(seams: Path) -> None:
    both = document(("compare", "k5.csv", "mirrored.csv"), seams)
    changes = _numbers(both, "change")
    assert changes
    assert max(map(abs, changes)) < 1e-9


def _numbers(value: Any, key: str) -> list[float]:
    if isinstance(value, dict):
        here = [value[key]] if isinstance(value.get(key), int | float) else []
        return here + [number for item in value.values() for number in _numbers(item, key)]
    return [number for item in value for number in _numbers(item, key)] if isinstance(value, list) else []


def test_weights_are_repetitions(seams: Path) -> None:
    one, two = measures(seams, "weighted.csv"), measures(seams, "repeated.csv")
    assert not apart(one, two, ("value",))
    means = {name: one[name] for name in ("brier", "nll", "accuracy", "confidence")}
    assert not apart(means, two, ("low", "high", "null_mean", "null_std", "pvalue"))


def test_two_columns_are_one_score(seams: Path) -> None:
    assert not apart(measures(seams, "k2.csv"), measures(seams, "k2_columns.csv"))


def test_pairs_are_the_top_label(seams: Path) -> None:
    one, two = measures(seams, "pairs.csv"), measures(seams, "k5.csv")
    shared = {name: one[name] for name in ("ece", "ks", "mmce", "accuracy", "confidence")}
    assert not apart(shared, two)


def test_report_shows_what_evaluate_shows(seams: Path) -> None:
    for file in ("k5.csv", "k2.csv", "pairs.csv", "reg.csv"):
        page = document(("report", file, "--no-compare", *FEW), seams)
        assert not apart(measures(seams, file), page["evaluation"]["metrics"]), file


@pytest.mark.parametrize("file", ["k5.csv", "k2.csv", "pairs.csv", "reg.csv"])
def test_gate_judges_what_evaluate_shows(seams: Path, file: str) -> None:
    names = ("ence", "crps") if file == "reg.csv" else ("ece", "ks", "mmce")
    view = "@class-1" if file == "k2.csv" else ""  # two classes are judged by the probability of the positive one
    shown = measures(seams, file, "--metric", ",".join(name + view for name in names))
    limits = [word for name in names for word in ("--max", f"{name}=0.9", "--min-pvalue", f"{name}=0.02")]
    gate = document(("check", file, *limits, *FEW), seams)
    for line in gate["checks"]:
        key = "pvalue" if line["rule"] == "min-pvalue" else "value"
        assert line["value"] == pytest.approx(shown[line["metric"]][key], abs=1e-9), line


def test_compare_shows_what_evaluate_shows(seams: Path) -> None:
    both = document(("compare", "k5.csv", "k5_after.csv", "--metric", "brier,nll,ece,ks"), seams)
    before, after = measures(seams, "k5.csv"), measures(seams, "k5_after.csv")
    for name, entry in both["metrics"].items():
        assert entry["before"] == pytest.approx(before[name]["value"], abs=1e-9), name
        assert entry["after"] == pytest.approx(after[name]["value"], abs=1e-9), name


@pytest.mark.parametrize("engine", where_installed([(), ("--engine", "polars"), ("--engine", "duckdb")]))
def test_slice_is_the_part_alone(seams: Path, engine: tuple[str, ...]) -> None:
    many = ("--resamples", "1000")
    whole = document(("evaluate", "k5.csv", "--by", "site", *engine, *many), seams)
    for part in whole["slices"]:
        alone = document(("evaluate", f"{part['by']['site']}.csv", *engine, *many), seams)
        assert part["n"] == alone["n"]
        keys = ("value",) if engine else KEYS
        tol = 1e-9 if not engine else 2e-3  # slices keep coarser cells
        assert not apart(part["metrics"], alone["metrics"], keys, tol)
        assert part["judgment"]["pvalue"] <= part["corrected_pvalue"]  # one test: the verdict's, then corrected
        assert abs(part["judgment"]["pvalue"] - alone["judgment"]["pvalue"]) < 0.1  # coarser cells, other draws
        assert str(part["verdict"]).split(":")[0] == str(alone["verdict"]).split(":")[0]


def test_slice_of_regression_is_the_part_alone(seams: Path) -> None:
    whole = document(("evaluate", "reg.csv", "--by", "site", *FEW), seams)
    for part in whole["slices"]:
        assert not apart(part["metrics"], measures(seams, f"reg_{part['by']['site']}.csv"))


def test_summary_travels(seams: Path) -> None:
    table = pl.read_csv(seams / "k5.csv")
    whole = calibrant.engines.summarize(table.lazy()).whole
    parts = [calibrant.engines.summarize(table[i : i + 100].lazy()).whole for i in range(0, N, 100)]
    merged = parts[2] + parts[0] + parts[3] + parts[1]
    again = calibrant.Summary.from_bytes(whole.to_bytes())
    shown = {who: calibrant.evaluate(one, n_resamples=60, rng=0).to_dict()["metrics"]
             for who, one in {"whole": whole, "merged": merged, "again": again}.items()}  # fmt: skip
    file = measures(seams, "k5.csv", "--engine", "polars")
    assert not apart(file, shown["whole"])
    assert not apart(file, shown["again"])
    assert not apart(file, shown["merged"])


@needs("duckdb")
def test_repair_then_evaluate(seams: Path, tmp_path: Path) -> None:
    cal = str(tmp_path / "cal.json")
    assert run(("fit", "k5.csv", "--method", "vector", "-o", cal), seams).code == 0
    files = {}
    for suffix, more in (("csv", ()), ("parquet", ("--engine", "polars")), ("tsv", ("--engine", "duckdb"))):
        files[suffix] = str(tmp_path / f"out.{suffix}")
        done = run(("apply", cal, f"k5.{'csv' if suffix == 'csv' else 'parquet'}", *more, "-o", files[suffix]), seams)
        assert done.code == 0, done.err
    done = run(("apply", cal, "k5.npz", "-o", str(tmp_path / "out.npz")), seams)
    assert done.code == 0, done.err
    files["npz"] = str(tmp_path / "out.npz")
    shown = {suffix: measures(seams, file) for suffix, file in files.items()}
    for suffix, found in shown.items():
        assert not apart(shown["csv"], found, ("value",)), suffix
    both = document(("compare", "k5.csv", "--calibrator", cal, "--metric", "brier,nll,ece"), seams)
    for name, entry in both["metrics"].items():
        assert entry["after"] == pytest.approx(shown["csv"][name]["value"], abs=1e-9), name
    table = pl.read_csv(seams / "k5.csv")
    p = table.select(f"p_{name}" for name in NAMES).to_numpy()
    direct = calibrant.load(cal).predict_proba(p)
    written = pl.read_csv(files["csv"]).select(f"p_{name}" for name in NAMES).to_numpy()
    np.testing.assert_allclose(direct, written, atol=1e-9)
    portable = calibrant.predict_from_json(json.loads(Path(cal).read_text(encoding="utf-8")), p)
    np.testing.assert_allclose(direct, portable, atol=1e-9)


def test_logits_are_their_probabilities(folder: Path, tmp_path: Path) -> None:
    table = pl.read_csv(folder / "k5_logits.csv")
    z = table.select(f"logit_{name}" for name in NAMES).to_numpy()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    frame = table.select("label", "site").with_columns(pl.Series(f"p_{name}", p[:, i]) for i, name in enumerate(NAMES))
    frame.write_parquet(tmp_path / "probs.parquet")
    assert not apart(measures(folder, "k5_logits.csv"), measures(folder, str(tmp_path / "probs.parquet")))


def test_functions_and_evaluate_agree(seams: Path) -> None:
    table = pl.read_csv(seams / "k5.csv")
    p = table.select(f"p_{name}" for name in NAMES).to_numpy()
    y = np.array([NAMES.index(name) for name in table["label"]])
    names = ",".join(name for name in calibrant.list_metrics() if name not in ("kde", "ce-kde", "skce", "smece"))
    shown = document(("evaluate", "k5.csv", "--metric", names, "--resamples", "0"), seams)["metrics"]
    for name in names.split(","):
        alone = getattr(calibrant.metrics, name.replace("-", "_"))(y, p)
        assert shown[name]["value"] == pytest.approx(alone, abs=1e-12), name
        assert calibrant.metric(name, y, p) == alone


def test_monitor_of_file_and_pattern(folder: Path, tmp_path: Path) -> None:
    one = document(("monitor", str(tmp_path / "one"), "k5.parquet", "--name", "day1"), folder)
    two = document(("monitor", str(tmp_path / "two"), "logs/*.parquet", "--name", "day1"), folder)
    assert not differences(one, two)
