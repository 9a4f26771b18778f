"""Point 3: what someone adds in one file works everywhere, through public names alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibrant
from acceptance.inputs import NAMES
from acceptance.runner import run
from calibrant.core.declare import Metric, declare, withdraw
from calibrant.metrics.recipes import MeanScore
from helpers import needs

FEW = ("--resamples", "50")


# -- a mean score --------------------------------------------------------------------------------------


def _power3(graph: Any) -> Any:
    """The power score of order 3, 2·Σp³ − 3·p_y²; it is proper."""
    return 2.0 * graph.sum(graph.p * graph.p * graph.p) - 3.0 * (graph.p * graph.p)


@pytest.fixture
def power3() -> Iterator[str]:
    """A mean score nobody knew before, declared as its own file would."""
    metric = declare(
        Metric(
            name="power3",
            title="Power score of order 3",
            notion="proper score",
            proper=True,
            perfect=-1.0,
            range=(-1.0, 2.0),
            estimates="nothing, it is an example",
            bound=None,
            recipe=lambda: MeanScore(_power3),
            weakness="is an example",
            paper="none",
            cost="O(n·K)",
            state="score sums",
            percent=False,
        )
    )
    yield metric.name
    withdraw(metric.name)


def by_hand(folder: Path) -> float:
    table = pl.read_csv(folder / "k5.csv")
    p = table.select(f"p_{name}" for name in NAMES).to_numpy()
    truth = np.array([NAMES.index(name) for name in table["label"]])
    return float(np.mean(2 * (p**3).sum(axis=1) - 3 * p[np.arange(len(p)), truth] ** 2))


@needs("duckdb")
def test_new_mean_score_on_rows_and_engines(folder: Path, power3: str) -> None:
    seen = {}
    for file, engine in (
        ("k5.csv", ()),
        ("k5.csv", ("--engine", "polars")),
        ("logs/*.parquet", ("--engine", "duckdb")),
    ):
        done = run(("evaluate", file, *engine, "--metric", power3, *FEW, "--json"), folder)
        assert done.code == 0, done.err
        seen[file, engine] = json.loads(done.out)["metrics"][power3]
    first = seen["k5.csv", ()]
    assert first["value"] == pytest.approx(by_hand(folder), abs=1e-12)
    assert first["low"] < first["value"] < first["high"]
    for entry in seen.values():
        for key in ("value", "null_mean", "pvalue", "low", "high"):
            assert entry[key] == pytest.approx(first[key], abs=1e-9)


@pytest.mark.spark
def test_new_mean_score_on_spark(folder: Path, power3: str) -> None:
    done = run(("evaluate", "k5.csv", "--engine", "spark", "--metric", power3, *FEW, "--json"), folder)
    assert json.loads(done.out)["metrics"][power3]["value"] == pytest.approx(by_hand(folder), abs=1e-9)


def test_new_mean_score_in_torch(folder: Path, power3: str) -> None:
    torch = pytest.importorskip("torch")
    from calibrant.torch import StreamingCalibration

    table = pl.read_csv(folder / "k5.csv")
    p = table.select(f"p_{name}" for name in NAMES).to_numpy()
    truth = np.array([NAMES.index(name) for name in table["label"]])
    stream = StreamingCalibration(5, [power3])
    for rows in np.array_split(np.arange(len(p)), 3):
        stream.update(torch.tensor(np.log(np.maximum(p[rows], 1e-12))), torch.tensor(truth[rows]))
    assert float(stream.compute()[power3]) == pytest.approx(by_hand(folder), abs=1e-5)


def test_new_mean_score_decides_a_fit(folder: Path, tmp_path: Path, power3: str) -> None:
    line = ("fit", "k5.csv", "--candidate", "temperature", "--candidate", "vector", "--fast", "--criterion", power3)
    done = run((*line, "-o", str(tmp_path / "cal.json"), "--json"), folder)
    assert done.code == 0, done.err
    assert power3 in done.out


def test_new_mean_score_in_report_gate_compare_and_docs(folder: Path, power3: str) -> None:
    gate = run(("check", "k5.csv", "--max", f"{power3}=0.99", *FEW, "--json"), folder)
    assert gate.code == 0, gate.err
    both = run(("compare", "k5.csv", "k5_after.csv", "--metric", power3, "--json"), folder)
    assert both.code == 0, both.err
    assert power3 in both.out
    assert "Power score of order 3" in run(("explain", power3), folder).out
    assert power3 in calibrant.list_metrics()
    table = pl.read_csv(folder / "k2.csv")
    value = calibrant.metric(power3, table["label"].to_numpy(), table["score"].to_numpy())
    p = np.column_stack([1 - table["score"].to_numpy(), table["score"].to_numpy()])
    truth = np.where(table["label"] == 1, p[:, 1], p[:, 0])
    assert value == pytest.approx(float(np.mean(2 * (p**3).sum(axis=1) - 3 * truth**2)))


# -- a view and an estimator ---------------------------------------------------------------------------


def test_new_view_and_estimator() -> None:
    from calibrant.estimators import Binned, Estimator
    from calibrant.views import TopLabel, View

    @dataclass(frozen=True)
    class SecondLabel(TopLabel):
        """Judged exactly as the top label, under a name of its own."""

        word = "mine"

    @dataclass(frozen=True)
    class Seven(Binned):
        """Seven bins."""

        n_bins: int = 7

    assert issubclass(SecondLabel, View)
    assert issubclass(Seven, Estimator)
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300)
    mine = calibrant.metrics.calibration_error(y, p, view=SecondLabel(), estimator=Seven())
    assert mine == calibrant.metrics.expected_calibration_error(y, p, n_bins=7)


def test_new_view_leaves_the_others_alone() -> None:
    """In a process of its own: whoever derives from a view without naming the result takes nobody's name."""
    words = """
from calibrant.views import TopLabel, as_view
before = type(as_view("top-1", "test"))
class Mine(TopLabel):
    pass
assert type(as_view("top-1", "test")) is before, as_view("top-1", "test")
"""
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- a calibrator --------------------------------------------------------------------------------------


@pytest.fixture
def half_way(monkeypatch: pytest.MonkeyPatch) -> str:
    """A method of one's own: its module, and one line in the mapping."""
    from calibrant import calibrators
    from calibrant.calibrators.temperature import TemperatureScaling

    class HalfWay(TemperatureScaling):
        """Temperature scaling under a name of its own."""

        short_name = "half-way"

    module = ModuleType("calibrant.calibrators.half_way")
    HalfWay.__module__ = module.__name__
    module.HalfWay = HalfWay  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(calibrators.CALIBRATORS, "HalfWay", "half_way")
    return "half-way"


def test_new_calibrator(folder: Path, tmp_path: Path, half_way: str) -> None:
    cal = tmp_path / "cal.json"
    assert "HalfWay" in calibrant.list_calibrators()
    assert run(("explain", half_way), folder).code == 0
    done = run(("fit", "k5.csv", "--method", half_way, "-o", str(cal), "--json"), folder)
    assert done.code == 0, done.err
    assert run(("apply", str(cal), "k5.csv", "-o", str(tmp_path / "out.csv")), folder).code == 0
    assert run(("compare", "k5.csv", "--calibrator", str(cal), "--json"), folder).code == 0
    assert type(calibrant.load(cal)).__name__ == "HalfWay"


# -- an engine -----------------------------------------------------------------------------------------


def test_new_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.engines import polars, registry

    opened = []
    module = ModuleType("fake_engine")

    def open_files(files: list[str], kind: str, *more: Any, **options: Any) -> Any:
        opened.append(files)
        return polars.open_files(files, kind, *more, **options)

    module.open_files, module.write = open_files, polars.write  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_engine", module)
    monkeypatch.setitem(registry._MODULES, "fake", "fake_engine")
    monkeypatch.setattr(registry, "ENGINES", ("auto", *registry._MODULES))
    one = calibrant.evaluate(str(folder / "logs/*.parquet"), engine="fake", n_resamples=50, rng=0)
    two = calibrant.evaluate(str(folder / "logs/*.parquet"), engine="polars", n_resamples=50, rng=0)
    assert opened
    assert one.to_dict() == two.to_dict()


def test_engines_are_listed_once() -> None:
    from calibrant.cli import cli
    from calibrant.engines.registry import ENGINES

    for name in ("evaluate", "fit", "apply", "monitor"):
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        option = next(option for option in command.params if option.name == "engine")
        assert tuple(option.type.choices) == ENGINES
    source = Path(calibrant.__file__).parent
    for engine in ("duckdb", "pyspark"):
        users = {
            str(path.relative_to(source))
            for path in source.rglob("*.py")
            if any(
                line.strip().startswith((f"import {engine}", f"from {engine}"))
                for line in path.read_text().splitlines()
            )
        }
        assert len(users) <= 1, users
