"""Real Spark, local[2]: the same cells bit for bit, list columns by mapInArrow, a worker killed in the middle."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest
from tests.engines.agreement import assert_same, check_engine, hostile_predictions, spellings

from calibrant.engines import batches
from calibrant.engines.frames import collect, summarize
from calibrant.summary.summary import Summary
from calibrant.workflows.sources import Reading, summarize_data

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def compiled(spark):
    """The same session, with queries compiled as they are outside of tests."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = {name: spark.conf.get(name) for name in names}
    for name, value in zip(names, ("true", "FALLBACK"), strict=True):
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def to_spark(spark, folder, columns):
    """Through Parquet, as tables arrive: two files, so two partitions at least."""
    frame = pl.DataFrame(columns)
    half = len(frame) // 2
    folder.mkdir(exist_ok=True)
    frame[:half].write_parquet(folder / "a.parquet")
    frame[half:].write_parquet(folder / "b.parquet")
    return spark.read.parquet(str(folder))


def test_spark_keeps_the_contract(compiled, tmp_path):
    count = iter(range(10))
    check_engine(lambda columns: to_spark(compiled, tmp_path / f"t{next(count)}", columns))


def test_list_columns_and_slices_by_map_in_arrow(spark, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), 1000)
    y = rng.integers(0, 5, 1000)
    columns = {"probs": [*p.tolist(), None, [0.2, 0.8]], "label": [*y.tolist(), 0, 0], "day": ["a", "b"] * 501}
    found = summarize(to_spark(spark, tmp_path / "lists", columns), by=["day"])
    assert_same(Summary(5).update(y, p), found.whole)
    assert found.rejected["missing"] == 2
    assert sorted(found.parts) == [("a",), ("b",)]


@pytest.mark.parametrize("values", [[None, float("nan"), 1.0, 2.0], [0.0, -0.0, 1.0, 2.0]], ids=["missing", "zero"])
def test_one_slice_in_two_spellings_loses_no_row(spark, tmp_path, values):
    p, y, columns = spellings(values)
    found = summarize(to_spark(spark, tmp_path / "keys", columns), by=["site"], views=["top-1"], n_bins=[7])
    assert_same(Summary(3, views=["top-1"], n_bins=[7]).update(y[:198], p[:198]), found.whole)
    assert sorted((part.n, sum(part.rejected.values())) for part in found.parts.values()) == [
        (49, 1),
        (49, 1),
        (100, 0),
    ]


@pytest.mark.parametrize("partitions", [9, 20])
def test_states_of_partitions_are_joined_by_one_job(spark, monkeypatch, partitions):
    monkeypatch.setattr(batches, "_MANY_STATES", 16)  # twenty are joined in two steps
    values = np.arange(partitions, dtype=np.float64) + 0.1
    frame = spark.createDataFrame(pl.DataFrame({"x": values}).to_pandas()).repartitionByRange(partitions, "x").cache()
    assert frame.count() == partitions
    spark.sparkContext.setJobGroup(f"states {partitions}", "")
    try:
        found = [batches.reduce_raw(nw.from_native(frame), ["x"], _total) for _ in range(2)]
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        frame.unpersist()
    assert found[0].tobytes() == found[1].tobytes()  # in one order
    assert found[0][0] == pytest.approx(values.sum(), rel=1e-12)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"states {partitions}")) <= 2 * 3


def _total(stream):
    return np.array([sum((np.asarray(raw["x"].to_numpy()).sum() for raw in stream), 0.0)])


def test_fit_and_apply_on_spark(spark, tmp_path):
    from calibrant.calibrators import IsotonicOneVsRest, TemperatureScaling, VectorScaling
    from calibrant.engines.apply import apply_frame
    from calibrant.engines.fit import fit_frame

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


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_map_as_sql(spark, tmp_path, ansi):
    """The query that `tests/calibrators/test_sql.py` runs on DuckDB."""
    from calibrant.calibrators import IsotonicOneVsRest, PlattScaling

    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(2), 300)
    p[:2] = np.eye(2)
    y = (rng.random(300) < p[:, 1] ** 2).astype(int)
    first = [None, float("nan"), 2.0, -0.5, *p[4:, 0].tolist()]
    to_spark(spark, tmp_path / "in", {"p_0": first, "p_1": p[:, 1], "id": np.arange(300)}).createOrReplaceTempView("t")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for method in (PlattScaling, IsotonicOneVsRest):
            fitted = method().fit(p, y)
            rows = sorted(
                spark.sql(fitted.to_sql("spark", table="t", keep=["id"])).collect(), key=lambda row: row["id"]
            )
            assert [(row["p_0"], row["p_1"]) for row in rows[:4]] == [(None, None)] * 4
            got = np.array([[row["p_0"], row["p_1"]] for row in rows[4:]])
            np.testing.assert_allclose(got, fitted.predict_proba(p[4:]), atol=1e-12)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_fit_on_files_by_spark_takes_all_rows_or_a_repeatable_sample(spark, tmp_path, monkeypatch):
    from calibrant.calibrators import TemperatureScaling
    from calibrant.engines import sample as sampling
    from calibrant.workflows.fit import fit

    monkeypatch.setattr(sampling, "MOST_ROWS", 300)
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 2000)
    y = (np.sqrt(p).cumsum(1) / np.sqrt(p).sum(1, keepdims=True) > rng.random((2000, 1))).argmax(1)
    rows = {f"p_{k}": [*p[:, k].tolist(), None] for k in range(3)} | {"label": [*y.tolist(), 0]}
    to_spark(spark, tmp_path / "logs", rows)
    repair = fit(tmp_path / "logs" / "*.parquet", method="temperature", engine="spark")
    expected = TemperatureScaling().fit(p, y)
    assert repair.calibrator.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)
    assert (repair.n, repair.n_compared, repair.rejected["missing"]) == (2000, 300, 1)
    frames = [spark.read.parquet(str(tmp_path / "logs")) for _ in range(2)]
    first, again = (sampling.draw(frame, seed=5).predictions.scores for frame in frames)
    np.testing.assert_array_equal(first, again)
    assert len(first) == 300


#: Sessions one after the other in a process of its own: ours, the user's, and two whose worker is killed in the middle.
ALONE = """
import os, signal, sys, threading
from pyspark.sql import SparkSession
import calibrant.engines.batches as batches
from calibrant.engines import batches
from calibrant.engines.frames import collect, summarize
from calibrant.workflows.sources import Reading, summarize_data

pairs, lists, marker = sys.argv[1:]


def started(master):
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    return SparkSession.builder.master(master).config(map=quiet).getOrCreate()


def evaluate():
    return summarize_data(pairs, Reading("evaluate", engine="spark", master="local[1]"), views=["top-1"])


def told(who, *calls):
    for call in calls:
        call()
    session = SparkSession.getActiveSession()
    print(who, session.conf.get("spark.sql.shuffle.partitions"), session.conf.get("spark.master"), flush=True)
    session.stop()


def elsewhere():
    worker = threading.Thread(target=evaluate)
    worker.start()
    worker.join()


started("local[2]")
told("theirs", elsewhere)
told("ours", evaluate, elsewhere)
genuine = batches.clean


def dies_once(*args):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return genuine(*args)
    os.kill(os.getpid(), signal.SIGKILL)


batches.clean = dies_once
for master in ("local[2]", "local[2,4]"):
    session = started(master)
    try:
        found = summarize(session.read.parquet(lists).repartition(4), views=["top-1"]).whole
        print("killed", master, found.n, found.metric("ece").hex(), flush=True)
    except Exception as error:
        print("killed", master, "failed", type(error).__name__, flush=True)
    session.stop()
    os.remove(marker)
"""


def test_sessions_of_ones_own_and_killed_workers(tmp_path):
    """Only a session of our own is set up; a killed worker changes nothing, or fails clearly."""
    pairs, lists = tmp_path / "pairs.parquet", tmp_path / "lists.parquet"
    pl.DataFrame({"confidence": [0.9, 0.6], "correct": [True, False]}).write_parquet(pairs)
    columns = hostile_predictions(2000)
    p = np.stack([columns[f"p_{k}"] for k in range(3)], axis=1)
    pl.DataFrame({"probs": p.tolist(), "label": columns["label"]}).write_parquet(lists)
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ALONE), str(pairs), str(lists), str(tmp_path / "marker")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC), "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    lines = [line.split() for line in run.stdout.splitlines()]
    said = {tuple(words[:2]) if words[0] == "killed" else words[0]: words for words in lines if words}
    assert said["ours"][1:] == ["1", "local[1]"]
    assert said["theirs"][1:] == ["200", "local[2]"]
    assert said["killed", "local[2]"][2] == "failed"
    n, ece = said["killed", "local[2,4]"][2:]
    assert n == "2000"
    assert float.fromhex(ece) == pytest.approx(Summary(3).update(columns["label"], p).metric("ece"), abs=1e-12)


def test_a_session_of_ones_own_stays_as_it_is(spark, tmp_path):
    """No command changes a setting or ends the session; what it ignores elsewhere is not ignored here."""
    import calibrant
    from calibrant.errors import FileError
    from calibrant.workflows.apply import apply
    from calibrant.workflows.fit import fit

    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.ones(3), 600)
    y = (p.cumsum(1) > rng.random((600, 1))).argmax(1)
    frame = pl.DataFrame({f"p_{k}": p[:, k] for k in range(3)} | {"label": y})
    for part in ("01", "02"):
        (tmp_path / "lake" / f"part={part}").mkdir(parents=True)
        frame.write_parquet(tmp_path / "lake" / f"part={part}" / "a.parquet", compression="snappy")

    def settings():
        return dict(spark.conf.getAll), {row[0]: row[1] for row in spark.sql("SET").collect()}

    before, lake = settings(), str(tmp_path / "lake")
    parts = summarize_data(lake, Reading("evaluate", engine="spark"), by=["part"], views=["top-1"]).parts
    assert {key: part.n for key, part in parts.items()} == {("01",): 600, ("02",): 600}
    own = spark.read.parquet(lake)
    repair = fit(own, method="temperature").calibrator
    assert apply(repair, own).count() == 1200
    written = apply(repair, lake, tmp_path / "out", engine="spark", partition_by=["part"])
    assert written.in_sample.share == 1
    assert "In-sample" in calibrant.evaluate(tmp_path / "out", n_resamples=20).verdict
    for _ in range(2):
        assert calibrant.monitor(tmp_path / "store", own, name="2026-11-01").n == 1200
    assert settings() == before
    damaged = tmp_path / "lake" / "part=02" / "a.parquet"
    data = damaged.read_bytes()
    damaged.write_bytes(data[:8] + b"\xff" * 200 + data[208:])
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(FileError, match="cannot be read"):
            summarize_data(lake, Reading("evaluate", engine="spark"), views=["top-1"])
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert spark.range(3).count() == 3


def test_long_queries_of_a_users_session_are_compiled(spark, monkeypatch):
    """Java interprets methods above 8,000 bytes; while our query runs Spark makes shorter ones, then all is as before."""
    name, seen = "spark.sql.codegen.hugeMethodLimit", []
    monkeypatch.setattr(nw.LazyFrame, "collect", lambda self: seen.append(spark.conf.get(name, None)))
    queries = [nw.from_native(spark.range(3))]
    monkeypatch.setattr("calibrant.engines.spark._COMPILE", "an option that this session does not have")
    collect(queries)
    assert spark.conf.get(name, None) is None
    spark.conf.set(name, "500")
    collect(queries)
    spark.conf.unset(name)
    monkeypatch.undo()
    assert seen == ["8000", "500"]


def test_a_hidden_checksum_of_another_time_is_no_data(spark, tmp_path):
    columns = {"confidence": [0.9, 0.6], "correct": [True, False]}
    (tmp_path / "day=2026-11-15").mkdir()
    pl.DataFrame(columns).write_parquet(tmp_path / "day=2026-11-15" / "a.parquet")
    (tmp_path / "day=2026-11-15" / ".a.parquet.crc").write_bytes(b"of another time")
    found = summarize_data(str(tmp_path), Reading("evaluate", engine="spark"), by=["day"], views=["top-1"])
    assert {key: part.n for key, part in found.parts.items()} == {(dt.date(2026, 11, 15),): 2}


def test_queries_note_no_lines_of_code(spark, monkeypatch):
    """PySpark asks Java half a dozen things for each; whether it does is asked again afterwards."""
    from pyspark.errors import utils

    noted = []
    monkeypatch.setattr(utils, "_capture_call_site", lambda depth: noted.append(depth) or "")
    monkeypatch.setattr(utils, "_enable_debugging_cache", True)
    frame = spark.createDataFrame([(0.9, True), (0.6, False)], "confidence double, correct boolean")
    noted.clear()
    assert summarize(frame).whole.n == 2
    assert not noted
    assert utils._enable_debugging_cache is None
