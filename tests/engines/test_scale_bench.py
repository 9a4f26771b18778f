"""The bench at scale runs, its one-query shortcuts give the exact numbers, and its goals are judged rightly."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from calibrant.engines.frames import top_bins, top_table
from calibrant.engines.summary import Summary
from calibrant.errors import CalibrantError
from calibrant.estimators import Binned
from calibrant.metrics.recipes import CalibrationError
from calibrant.studies.bench.scale import TASKS, ScaleReport, ScaleRun, _cpu_seconds, _fresh, _goals, _peak_mb, generate
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
    one, two = ("summary, spark local[1]", 8.0), ("summary, spark local[2]", 6.0)
    with_spark = best | {(task, 1000): run(task, 1000, seconds, 900.0) for task, seconds in (one, two)}
    assert _goals(with_spark, [10, 1000])[-1]["value"] == 0.75
    report = ScaleReport(tuple(best.values()), goals)
    assert "9.00 (missed)" in str(report)
    assert "| no |" in report.to_markdown()


def test_children_count_in_time_and_memory():
    if not Path("/proc/self/task").exists():
        pytest.skip("this system does not list processes in /proc")
    alone = _peak_mb()
    code = "x = b'x' * (300 << 20); sum(range(3_000_000)); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        before = time.process_time()
        assert _peak_mb() > alone + 250
        assert _cpu_seconds() > before + 0.03
    finally:
        child.communicate(b"\n")


def test_a_task_that_fails_says_why(tmp_path):
    with pytest.raises(CalibrantError, match="scan and sum of 7 rows failed"):
        _fresh("scan and sum", tmp_path / "none", 7)
