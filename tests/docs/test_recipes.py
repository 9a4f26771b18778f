"""The recipes of the guide are programs: they run here as they stand on the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibrant

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "ci.md").read_text(encoding="utf-8")
AIRFLOW, SPARK = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
TUTORIAL = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")
LAKE, NIGHT, ONE_MACHINE = re.findall(r"```python\n(.*?)```", TUTORIAL, flags=re.DOTALL)
(DBT,) = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)


def rows(seed, *, broken=False, n=2000):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), n)
    truth = p[:, ::-1] if broken else p
    y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return pl.DataFrame({f"p_{k}": p[:, k] for k in range(3)} | {"label": y})


def write_lake(folder, days):
    for number, (day, broken) in enumerate(days.items()):
        (folder / f"day={day}").mkdir(parents=True)
        rows(number, broken=broken).write_parquet(folder / f"day={day}" / "part-0.parquet")


def test_airflow_task(tmp_path):
    write_lake(tmp_path / "lake", {"2026-11-14": False, "2026-11-15": True})
    space = {}
    exec(AIRFLOW, space)  # noqa: S102 -- our own page
    paths = {"lake": str(tmp_path / "lake"), "store": str(tmp_path / "store")}
    first = space["watch"]("2026-11-14", **paths)
    assert first == space["watch"]("2026-11-14", **paths)
    assert first["rows"] == 2000
    with pytest.raises(RuntimeError, match="ALARM since 2026-11-15"):
        space["watch"]("2026-11-15", **paths)


@pytest.mark.parametrize("broken", [False, True])
def test_dbt_test_is_the_ece(broken):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is absent (extra: engines)")
    pytest.importorskip("pyarrow", reason="PyArrow is absent (extra: engines)")
    frame = rows(3, broken=broken)
    p, y = frame.select("p_0", "p_1", "p_2").to_numpy(), frame["label"].to_numpy()
    connection = duckdb.connect()
    table = pl.DataFrame({"confidence": p.max(axis=1), "correct": p.argmax(axis=1) == y})
    connection.register("predictions", table.to_arrow())
    found = connection.sql(DBT).fetchall()
    ece = calibrant.metric("ece", y, p)
    assert (ece > 0.05) == broken
    assert found == ([(pytest.approx(ece, abs=1e-12),)] if broken else [])


@pytest.mark.spark
def test_spark_job(tmp_path, monkeypatch, capsys):
    write_lake(tmp_path / "lake", {"2026-11-14": False, "2026-11-15": True})
    monkeypatch.chdir(tmp_path)
    program = SPARK.replace('"lake"', repr(str(tmp_path / "lake")))  # Java stays where it was started
    codes = []
    for day in ("2026-11-14", "2026-11-15"):
        monkeypatch.setattr(sys, "argv", ["night.py", day])
        try:
            exec(program, {})  # noqa: S102 -- our own page
        except SystemExit as stop:
            codes.append(stop.code)
    assert codes == [0, 3]
    assert "ALARM since 2026-11-15" in capsys.readouterr().out


def test_the_lake_of_the_spark_tutorial_on_one_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(LAKE, {})  # noqa: S102 -- our own page
    exec(ONE_MACHINE, {})  # noqa: S102 -- our own page; it asserts what the text says


@pytest.mark.spark
def test_the_night_of_the_spark_tutorial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(LAKE, {})  # noqa: S102 -- our own page
    program = NIGHT.replace('"lake"', repr(str(tmp_path / "lake")))  # Java stays where it was started
    codes = []
    for day in ("2026-11-13", "2026-11-14", "2026-11-14", "2026-11-15"):
        monkeypatch.setattr(sys, "argv", ["night.py", day])
        with pytest.raises(SystemExit) as stop:
            exec(program, {})  # noqa: S102 -- our own page
        codes.append(stop.value.code)
    assert codes == [0, 0, 0, 3]
    assert "ALARM since 2026-11-15" in capsys.readouterr().out


def test_the_gate_of_github_actions_runs(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from calibrant.cli import cli

    monkeypatch.chdir(tmp_path)
    frame = rows(5)
    y_proba = frame.select("p_0", "p_1", "p_2").to_numpy()
    np.savez("preds.npz", y_true=frame["label"].to_numpy(), y_proba=y_proba)
    toml = PAGE.split("`gate.toml`:\n\n")[1].split("\n## ")[0]
    gate = "\n".join(line.removeprefix("    ") for line in toml.splitlines())
    Path("gate.toml").write_text(gate.replace("0.9", "0.2").replace("brier = 0.2", "brier = 0.9"), encoding="utf-8")
    (line,) = re.findall(r"- run: calibrant (check .*)", PAGE)
    done = CliRunner().invoke(cli, line.split())
    assert done.exit_code in (0, 3), done.output
    assert "ks" in done.output
