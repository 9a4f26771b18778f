"""Real Spark, local[2]: the same cells bit for bit, list columns by mapInArrow, a worker killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibrant.engines.frames import summarize
from calibrant.engines.summary import Summary
from calibrant.testing.engines import assert_same, check_engine, hostile_predictions

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the same Python
SRC = Path(__file__).resolve().parents[2] / "src"


def session(master):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is absent (make test-spark installs it)")
    builder = sql.SparkSession.builder.master(master).appName("calibrant tests").config("spark.ui.enabled", "false")
    made = (
        builder.config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


@pytest.fixture(scope="module")
def spark():
    made = session("local[2]")
    yield made
    made.stop()


def to_spark(spark, folder, columns):
    """Through Parquet, as tables arrive: two files, so two partitions at least."""
    frame = pl.DataFrame(columns)
    half = len(frame) // 2
    folder.mkdir(exist_ok=True)
    frame[:half].write_parquet(folder / "a.parquet")
    frame[half:].write_parquet(folder / "b.parquet")
    return spark.read.parquet(str(folder))


def test_spark_keeps_the_contract(spark, tmp_path):
    count = iter(range(10))
    check_engine(lambda columns: to_spark(spark, tmp_path / f"t{next(count)}", columns))


def test_list_columns_and_slices_by_map_in_arrow(spark, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), 1000)
    y = rng.integers(0, 5, 1000)
    columns = {"probs": [*p.tolist(), None, [0.2, 0.8]], "label": [*y.tolist(), 0, 0], "day": ["a", "b"] * 501}
    found = summarize(to_spark(spark, tmp_path / "lists", columns), by=["day"])
    assert_same(Summary(5).update(y, p), found.whole)
    assert found.rejected["missing"] == 2
    assert sorted(found.parts) == [("a",), ("b",)]


def test_fit_and_apply_on_spark(spark, tmp_path):
    from calibrant.calibrators import IsotonicOneVsRest, TemperatureScaling, VectorScaling
    from calibrant.engines.applying import apply_frame
    from calibrant.engines.fitting import fit_frame

    rng = np.random.default_rng(1)
    z = rng.normal(size=(1500, 3)) * 2
    y = (np.exp(z / 2).cumsum(1) / np.exp(z / 2).sum(1, keepdims=True) > rng.random((1500, 1))).argmax(1)
    frame = to_spark(
        spark, tmp_path / "fit", {**{f"logit_{k}": z[:, k] for k in range(3)}, "label": y, "id": np.arange(1500)}
    )
    found = fit_frame(TemperatureScaling(), frame)
    assert found.temperature_ == pytest.approx(TemperatureScaling(space="logit").fit(z, y).temperature_, rel=1e-8)
    vector = fit_frame(VectorScaling(), frame)
    np.testing.assert_allclose(vector.scale_, VectorScaling(space="logit").fit(z, y).scale_, atol=1e-6)
    isotonic = IsotonicOneVsRest(space="logit").fit(z, y)
    for method in (found, isotonic):
        rows = apply_frame(method, frame).orderBy("id").collect()
        got = np.array([[row[f"p_{k}"] for k in range(3)] for row in rows])
        np.testing.assert_allclose(got, method.predict_proba(z), atol=1e-12)


def test_fit_on_files_by_spark_takes_all_rows_or_a_repeatable_sample(spark, tmp_path, monkeypatch):
    from calibrant.calibrators import TemperatureScaling
    from calibrant.engines import sampling
    from calibrant.engines.repairing import fit_paths

    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 2000)
    y = (np.sqrt(p).cumsum(1) / np.sqrt(p).sum(1, keepdims=True) > rng.random((2000, 1))).argmax(1)
    rows = {f"p_{k}": [*p[:, k].tolist(), None] for k in range(3)} | {"label": [*y.tolist(), 0]}
    to_spark(spark, tmp_path / "logs", rows)
    repair = fit_paths(tmp_path / "logs" / "*.parquet", method="temperature", engine="spark")
    expected = TemperatureScaling().fit(p, y)
    assert repair.calibrator.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)
    assert (repair.n, repair.n_league, repair.rejected["missing"]) == (2000, 300, 1)
    frames = [spark.read.parquet(str(tmp_path / "logs")) for _ in range(2)]
    first, again = (sampling.draw(frame, seed=5).predictions.scores for frame in frames)
    np.testing.assert_array_equal(first, again)
    assert len(first) == 300


KILLED = """
import os, sys, signal, pathlib
import numpy as np
from pyspark.sql import SparkSession
import calibrant.engines.batches as batches
from calibrant.engines.frames import summarize

spark = (SparkSession.builder.master(sys.argv[3]).config("spark.ui.enabled", "false")
         .config("spark.ui.showConsoleProgress", "false").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
frame = spark.read.parquet(sys.argv[1]).repartition(4)
marker = sys.argv[2]
genuine = batches.clean

def dies_once(*args):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return genuine(*args)
    os.kill(os.getpid(), signal.SIGKILL)

batches.clean = dies_once
found = summarize(frame)
print("rows", found.whole.n, found.whole.measure("ece").hex())
"""


@pytest.mark.parametrize(("master", "survives"), [("local[2,4]", True), ("local[2]", False)])
def test_a_killed_worker_changes_nothing_or_fails_clearly(tmp_path, master, survives):
    pytest.importorskip("pyspark", reason="pyspark is absent (make test-spark installs it)")
    columns = hostile_predictions(2000)
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    (tmp_path / "data").mkdir()
    pl.DataFrame({"probs": p.tolist(), "label": columns["label"]}).write_parquet(tmp_path / "data" / "a.parquet")
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "data"), str(tmp_path / "marker"), master],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        timeout=300,
        check=False,
    )
    assert (tmp_path / "marker").exists()
    if not survives:
        assert run.returncode != 0
        assert "rows" not in run.stdout
        return
    assert run.returncode == 0, run.stderr[-2000:]
    word, n, ece = run.stdout.split()[-3:]
    assert (word, n) == ("rows", "2000")
    assert float.fromhex(ece) == pytest.approx(Summary(3).update(columns["label"], p).measure("ece"), abs=1e-12)


OWN = """
import sys, threading
from pyspark.sql import SparkSession
from calibrant.engines.paths import evaluate_paths

def told(name):
    return SparkSession.getActiveSession().conf.get(name)

if sys.argv[2] == "theirs":
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
evaluate_paths(sys.argv[1], "spark", master="local[1]")
worker = threading.Thread(target=evaluate_paths, args=(sys.argv[1], "spark"), kwargs={"master": "local[1]"})
worker.start()
worker.join()
print(told("spark.sql.shuffle.partitions"), told("spark.master"))
"""


@pytest.mark.parametrize(("whose", "settings"), [("ours", ["1", "local[1]"]), ("theirs", ["200", "local[2]"])])
def test_only_a_session_of_our_own_is_set_up(tmp_path, whose, settings):
    pytest.importorskip("pyspark", reason="pyspark is absent (make test-spark installs it)")
    pl.DataFrame({"confidence": [0.9, 0.6], "correct": [True, False]}).write_parquet(tmp_path / "a.parquet")
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OWN), str(tmp_path / "a.parquet"), whose],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split()[-2:] == settings
