"""The bench at scale runs, its queries by hand count what ours count, and its goals are judged rightly."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from calibrant.errors import CalibrantError
from calibrant.summary.summary import Summary
from calibrant_benchmarks import scale
from calibrant_benchmarks.command import command
from calibrant_benchmarks.scale import (
    GROWING,
    LARGE,
    PAIRS,
    RATIOS,
    SMALL,
    TASKS,
    ScaleReport,
    ScaleRun,
    _cpu_seconds,
    _fresh,
    _goals,
    _pairs,
    _peak_mb,
    generate,
    repeated,
)


def test_every_task_runs_and_ours_counts_what_is_counted_by_hand(tmp_path, monkeypatch):
    pytest.importorskip("duckdb", reason="DuckDB is absent (extra: engines)")
    monkeypatch.setattr(scale, "_BLOCK", 2000)
    path = generate(tmp_path, 6000)
    assert generate(tmp_path, 6000) == path
    assert len(list(path.glob("*.parquet"))) == 3
    assert len(list(repeated(path, 2).glob("*.parquet"))) == 6
    done = {name: task(path) for name, task in LARGE.items() if "--by" not in name}
    ece = done["evaluate -m ece --resamples 0, Polars"]["ece"].value
    polars = done["group-by by hand, Polars"]
    duckdb = pl.DataFrame(done["group-by by hand, DuckDB"], schema=["bin", "len", "c", "hit"], orient="row")
    for hand in (polars, duckdb):
        by_hand = hand.select((pl.col("c") - pl.col("hit")).abs().sum() / pl.col("len").sum()).item()
        assert by_hand == pytest.approx(ece, abs=1e-6)
    for name in ("evaluate, Polars", "evaluate, DuckDB", "evaluate -m ece --resamples 0, DuckDB"):
        assert done[name]["ece"].value == pytest.approx(ece, abs=1e-9)
    fitted = done["fit temperature, Polars"].calibrator.temperature_
    loss, slope, curve = scale._polars_temperature(path, 1 / fitted).row(0)
    assert abs(slope / curve) < 1e-4  # the expression by hand has its root where the fit ends
    assert loss > 0
    assert done["apply isotonic, DuckDB"].n == 6000
    assert done["group-by of 1,000 slices by hand, Polars"]["len"].sum() == 6000
    few = generate(tmp_path, 300, parts=30)
    assert len(list(few.glob("*.parquet"))) == 30
    assert [SMALL[name](few) is not None for name in SMALL] == [True, True]


def test_pairs_are_summarized_whole(tmp_path):
    path = _pairs(tmp_path, 4000)
    done = {name: task(path) for name, task in PAIRS.items()}
    frame = pl.read_parquet(path / "*.parquet")
    summary = Summary(pairs=True).update(frame["correct"], frame["confidence"])
    assert done["summarize pairs, Polars"].whole.same_rows(summary)
    ece = done["evaluate -m ece --resamples 0 of pairs, Polars"]["ece"].value
    assert ece == pytest.approx(summary.metric("ece"), abs=1e-12)


@pytest.mark.spark
def test_the_query_for_spark_counts_every_row(tmp_path):
    path = generate(tmp_path, 1000)
    assert _fresh("same aggregation in SQL, Spark", path, 1000).seconds > 0


def test_goals_are_ratios_of_one_run():
    def run(task, rows, seconds, peak=100.0):
        return ScaleRun(task, rows, seconds, 2 * seconds, peak)

    best = {(name, 20_000): run(name, 20_000, 2.0) for name in TASKS}
    best["evaluate, Polars", 20_000] = run("evaluate, Polars", 20_000, 13.0)
    best |= {(name, size): run(name, size, 1.0, 50.0) for name in GROWING for size in (500, 4000)}
    best["evaluate, Polars", 40_000] = run("evaluate, Polars", 40_000, 26.0)
    best["evaluate, Polars", 400_000] = run("evaluate, Polars", 400_000, 300.0, 110.0)
    goals = {goal["goal"]: goal for goal in _goals(best, 20_000)}
    assert len(goals) == len(RATIOS) + 3 + 6 + 4
    missed = goals["evaluate, Polars ≤ 6 × group-by by hand, Polars"]
    assert (missed["value"], missed["cpu"], missed["met"]) == (6.5, 6.5, False)
    assert goals["evaluate, DuckDB ≤ 5 × group-by by hand, DuckDB"]["met"]
    assert not goals["peak MB of apply isotonic, DuckDB: fifty times the rows ≤ 1.5 ×"]["met"]
    assert goals["time of apply isotonic, DuckDB: five times the rows ≤ 5.5 ×"]["met"]
    assert not goals["time of evaluate, Polars: five times the rows ≤ 5.5 ×"]["met"]
    assert goals["time of evaluate, Polars: twice the rows ≤ 2.2 ×"]["met"]
    assert not goals["time of evaluate, Polars: 20 times the rows ≤ 22 ×"]["met"]
    assert goals["peak MB of evaluate, Polars: 20 times the rows ≤ 1.2 ×"]["met"]
    without = {key: value for key, value in best.items() if "Spark" not in key[0]}
    assert len(_goals(without, 20_000)) == len(goals) - 3  # Spark: ours, and two of one's own session
    report = ScaleReport(tuple(best.values()), tuple(goals.values()))
    assert "6.50 (missed)" in str(report)
    assert "| 6.50 | 6.50 | no |" in report.to_markdown()


def test_what_fails_is_told_and_the_rest_goes_on(tmp_path, monkeypatch):
    def fresh(task, _, rows):
        if task == "evaluate, DuckDB":
            raise CalibrantError("evaluate, DuckDB failed: no room")
        return ScaleRun(task, rows, 1.0, 1.0, 1.0)

    monkeypatch.setattr(scale, "_fresh", fresh)
    report = scale.run_scale(tmp_path, rows=3000, rounds=2, files=2, repeat=5)
    assert report.failed == ("evaluate, DuckDB failed: no room",)
    assert {run.task for run in report.runs} == {*LARGE, *PAIRS, *SMALL} - {"evaluate, DuckDB"}
    assert {run.rows for run in report.runs if run.task == "evaluate, Polars"} == {500, 700, 3000, 6000, 15_000}
    assert "Failed: evaluate, DuckDB failed: no room" in report.to_markdown()


def test_children_count_in_time_and_memory():
    if not Path("/proc/self/task").exists():
        pytest.skip("this system does not list processes in /proc")
    alone = _peak_mb()
    code = "import time\nx = b'x' * (300 << 20)\nwhile time.process_time() < 1: pass\nprint(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        before = time.process_time()
        assert _peak_mb() > alone + 250
        assert _cpu_seconds() > before + 0.9
    finally:
        child.communicate(b"\n")


def test_files_go_to_a_temporary_folder_that_is_removed(tmp_path, monkeypatch):
    seen = []

    def run_scale(folder, **_):
        seen.append(Path(folder))
        assert seen[-1].is_dir()
        return ScaleReport((ScaleRun("evaluate, Polars", 1000, 1.0, 1.0, 1.0),), ())

    monkeypatch.setattr(scale, "run_scale", run_scale)
    page = tmp_path / "scale.md"
    for more in ([], ["--scratch", str(tmp_path)]):
        done = CliRunner().invoke(command, ["--scale", "--rows", "1000", "-o", str(page), *more])
        assert done.exit_code == 0, done.output
    assert not seen[0].exists()
    assert seen[1] == tmp_path
    assert "polars" in page.read_text()
    assert "| evaluate, Polars | 1,000 |" in page.read_text()


def test_a_task_that_fails_says_why(tmp_path):
    with pytest.raises(CalibrantError, match="scan and sum of pairs, Polars of 7 rows failed"):
        _fresh("scan and sum of pairs, Polars", tmp_path / "none", 7)
