"""The bench at scale runs, its one-query shortcuts give the exact numbers, and its goals are judged rightly."""

from __future__ import annotations

import polars as pl
import pytest

from calibrant.engines.frames import top_bins, top_table
from calibrant.engines.summary import Summary
from calibrant.estimators import Binned
from calibrant.metrics.recipes import CalibrationError
from calibrant.studies.bench.scale import TASKS, ScaleReport, ScaleRun, _goals, generate
from calibrant.views import TopLabel


def test_tasks_run_and_give_the_same_numbers(tmp_path):
    path = generate(tmp_path, 4000)
    assert generate(tmp_path, 4000) == path
    for name, task in TASKS.items():
        if "spark" not in name:
            task(path)
    frame = pl.read_parquet(path / "*.parquet")
    summary = Summary(pairs=True).update(frame["correct"], frame["confidence"])
    ece = CalibrationError(TopLabel(), Binned(15))
    assert float(ece.finish(top_bins(frame))) == pytest.approx(summary.measure("ece"), abs=1e-12)
    found = top_table(frame.lazy())
    (expected,) = summary.tables("top-1")
    assert found.key.tolist() == expected.key.tolist()
    assert found.n.tolist() == expected.n.tolist()


def test_goals_are_ratios_of_one_run():
    def run(task, rows, seconds, peak):
        return ScaleRun(task, rows, seconds, seconds, peak)

    best = {}
    for rows in (10, 1000):
        for task, seconds in (
            ("scan and sum", 1.0),
            ("15-bin ECE alone", 3.0),
            ("top-label cell table", 9.0),
            ("summary, 1 slice", 9.5),
        ):
            best[task, rows] = run(task, rows, seconds, 100.0 + rows / 10)
    goals = _goals(best, [10, 1000])
    assert [goal["met"] for goal in goals] == [True, False, True, True]
    report = ScaleReport(tuple(best.values()), goals)
    assert "9.00 (missed)" in str(report)
    assert "| no |" in report.to_markdown()
