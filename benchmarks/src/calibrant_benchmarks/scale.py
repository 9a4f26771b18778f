"""``calibrant bench --scale``: large files against queries written by hand, each run in a fresh process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibrant.core.results import Record
from calibrant.core.text import count, table
from calibrant.errors import CalibrantError
from calibrant_papers.studies.writing import markdown, stamp

__all__ = ["ScaleReport", "generate", "run_scale"]

ABOUT = (
    "Predictions of three classes (float32) in Parquet; every task in a process of its own, the best of its rounds, "
    "start and imports not timed. Beside each task stands the same engine's own query, written by hand: the group-by "
    "of a 15-bin top-label ECE (with the columns of the slices), one pass of the expression that a temperature is "
    "fitted by, a scan that adds up two columns. A ratio of clock time is judged; the ratio of CPU time tells more on "
    "a busy machine. What takes more than ten times the query runs once: {once}. Growth: a fiftieth and a fifth of the "
    "rows, and the same parts several times. Spark takes a tenth of the rows, in a session of ours and in one of "
    "the user's own with default settings. A process imports what its task needs."
)
#: Rows written at once.
_BLOCK = 2_000_000
K = 3


@dataclass(frozen=True)
class ScaleRun(Record):
    """One task on one file: best wall time, processor time of that round and peak memory, child processes included."""

    task: str
    rows: int
    seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass(frozen=True)
class ScaleReport(Record):
    """All runs, and what they say about the goals."""

    runs: tuple[ScaleRun, ...]
    goals: tuple[dict[str, Any], ...]
    #: What ended with an error, and why.
    failed: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """Return the goals and runs as Markdown tables."""
        packages = ("polars", "duckdb", "pyarrow", "pyspark")
        lines = [
            "# Files larger than memory",
            "",
            stamp("calibrant bench --scale", *packages),
            "",
            ABOUT.format(once=", ".join(ONCE)),
            "",
        ]
        lines += [line for why in self.failed for line in (f"Failed: {why}", "")]
        goals = [("goal", "clock", "CPU", "met")]
        for goal in self.goals:
            cpu = "" if goal["cpu"] is None else f"{goal['cpu']:.2f}"
            goals.append((goal["goal"], f"{goal['value']:.2f}", cpu, "yes" if goal["met"] else "no"))
        return "\n".join([*lines, *markdown(goals), "", *markdown(self._cells(), right_from=1)]) + "\n"

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            ("task", "rows", "seconds", "CPU seconds", "peak MB"),
            *(
                (r.task, count(r.rows), f"{r.seconds:.2f}", f"{r.cpu_seconds:.2f}", f"{r.peak_mb:.0f}")
                for r in self.runs
            ),
        ]

    def __str__(self) -> str:
        lines = table(self._cells(), right_from=1)
        lines += [f"{goal['goal']}: {goal['value']:.2f} ({'met' if goal['met'] else 'missed'})" for goal in self.goals]
        lines += [f"failed: {why}" for why in self.failed]
        return "\n".join(lines)


def generate(folder: Path, rows: int, seed: int = 0, *, parts: int | None = None) -> Path:
    """Write `rows` predictions once: p_0 … p_2, label, slice columns of 20 and 50 values, confidence and correct.

    They are overconfident by a temperature of 1.25. `parts` is the number of files, by default one for two million
    rows.
    """
    import numpy as np
    import polars as pl

    size = _BLOCK if parts is None else -(-rows // parts)
    path = folder / f"scale-{rows}{'' if parts is None else f'-{parts}'}"
    if (path / "_done").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, size)):
        rng = np.random.default_rng([seed, number])
        n = min(size, rows - start)
        z = 2.0 * rng.normal(size=(n, K))
        p, true = (np.exp(b * z) / np.exp(b * z).sum(axis=1, keepdims=True) for b in (1.0, 0.8))
        label = np.minimum((true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), K - 1)
        columns = {f"p_{k}": p[:, k].astype(np.float32) for k in range(K)}
        columns |= {"label": label.astype(np.int32)}
        columns |= {"model": rng.integers(0, 20, n).astype(np.int16), "day": rng.integers(0, 50, n).astype(np.int16)}
        pl.DataFrame(columns).write_parquet(path / f"part-{number:05d}.parquet")
    (path / "_done").touch()
    return path


def _pairs(folder: Path, rows: int, seed: int = 0) -> Path:
    """Write `rows` top-label pairs once."""
    import numpy as np
    import polars as pl

    path = folder / f"pairs-{rows}"
    if (path / "_done").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, _BLOCK)):
        rng = np.random.default_rng([seed, number])
        n = min(_BLOCK, rows - start)
        score = 1.0 - 0.5 * rng.random(n) ** 4
        frame = pl.DataFrame({"confidence": score, "correct": rng.random(n) < score - 0.02})
        frame.write_parquet(path / f"part-{number:05d}.parquet")
    (path / "_done").touch()
    return path


def repeated(path: Path, times: int) -> Path:
    """Return a folder that holds every part of another one several times, without a copy."""
    target = path.with_name(f"{path.name}-times-{times}")
    target.mkdir(exist_ok=True)
    for part in path.glob("*.parquet"):
        for turn in range(times):
            link = target / f"{turn:03d}-{part.name}"
            if not link.exists():
                link.symlink_to(part.resolve())
    return target


# -- by hand ---------------------------------------------------------------------------------------


def _polars_ece(path: Path, by: tuple[str, ...] = ()) -> Any:
    import polars as pl

    p = [pl.col(f"p_{k}") for k in range(K)]
    frame = pl.scan_parquet(path / "*.parquet").with_columns(c=pl.max_horizontal(*p))
    top = pl.when(p[0] == pl.col("c")).then(0).when(p[1] == pl.col("c")).then(1).otherwise(2)
    frame = frame.with_columns(hit=top == pl.col("label"), bin=(pl.col("c") * 15).ceil().cast(pl.Int32))
    sums = pl.len(), pl.col("c").sum(), pl.col("hit").sum()
    return frame.group_by(*by, "bin").agg(*sums).collect(engine="streaming")


def _sql_ece(source: str, by: tuple[str, ...] = ()) -> str:
    names = "".join(f"{name}, " for name in by)
    keys = ", ".join(str(i + 1) for i in range(len(by) + 1))
    inner = f"SELECT {names}label, p_0, p_1, greatest(p_0, p_1, p_2) AS c FROM {source}"  # noqa: S608 -- our own names
    top = "CASE WHEN p_0 = c THEN 0 WHEN p_1 = c THEN 1 ELSE 2 END"
    sums = f"count(*), sum(c), sum(CASE WHEN {top} = label THEN 1 ELSE 0 END)"
    return f"SELECT {names}CAST(ceil(c * 15) AS INT) AS bin, {sums} FROM ({inner}) AS t GROUP BY {keys}"  # noqa: S608


def _duckdb_ece(path: Path, by: tuple[str, ...] = ()) -> Any:
    import duckdb

    return duckdb.connect().execute(_sql_ece(f"read_parquet('{path}/*.parquet')", by)).fetchall()


def _polars_temperature(path: Path, beta: float = 0.9) -> Any:
    """Return loss, slope and curvature of temperature scaling by one expression."""
    import polars as pl

    logs = [pl.col(f"p_{k}").cast(pl.Float64).log().alias(f"l{k}") for k in range(K)]
    frame = pl.scan_parquet(path / "*.parquet").select(*logs, "label")
    z = [pl.col(f"l{k}") for k in range(K)]
    e = [(beta * x).exp() for x in z]
    truth = pl.when(pl.col("label") == 0).then(z[0]).when(pl.col("label") == 1).then(z[1]).otherwise(z[2])
    frame = frame.with_columns(
        mass=sum(e, start=pl.lit(0.0)),
        first=sum((a * b for a, b in zip(e, z, strict=True)), start=pl.lit(0.0)),
        second=sum((a * b * b for a, b in zip(e, z, strict=True)), start=pl.lit(0.0)),
        truth=truth,
    )
    mean = pl.col("first") / pl.col("mass")
    return frame.select(
        loss=(pl.col("mass").log() - beta * pl.col("truth")).sum(),
        slope=(mean - pl.col("truth")).sum(),
        curve=(pl.col("second") / pl.col("mass") - mean * mean).sum(),
    ).collect(engine="streaming")


def _scan(path: Path) -> Any:
    import polars as pl

    frame = pl.scan_parquet(path / "*.parquet")
    return frame.select(pl.col("confidence").sum(), pl.col("correct").sum()).collect(engine="streaming")


def _spark_sql(path: Path) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    session.read.parquet(str(path)).createOrReplaceTempView("predictions")
    return session.sql(_spark_cells("predictions")).collect()


def _spark_cells(source: str) -> str:
    """Return the cells of the top label and of every class, and the sums of Brier and log score, in Spark SQL."""
    top = "CASE WHEN p_0 = c THEN 0 WHEN p_1 = c THEN 1 ELSE 2 END"
    base = f"SELECT *, greatest(p_0, p_1, p_2) AS c FROM {source}"  # noqa: S608 -- our own names
    form = "named_struct('g', {}, 's', {}, 't', CAST({} AS DOUBLE), 'm', {})".format
    pairs = ", ".join(form(k, f"p_{k}", f"label = {k}", 1200) for k in range(K))
    truth = "CASE label WHEN 0 THEN p_0 WHEN 1 THEN p_1 ELSE p_2 END"
    wide = form(3, "c", f"{top} = label", 76800)
    brier = f"1 - 2 * {truth} + p_0 * p_0 + p_1 * p_1 + p_2 * p_2"
    sums = f"SELECT 4 AS g, 0 AS cell, count(*), sum(-ln({truth})), sum({brier}) FROM {source}"  # noqa: S608
    lateral = f"LATERAL VIEW inline(array({wide}, {pairs})) AS g, s, t, m"
    cells = f"SELECT g, CAST(ceil(s * m) AS INT) AS cell, count(*), sum(s), sum(t) FROM ({base}) AS b {lateral}"  # noqa: S608
    return f"{cells} GROUP BY 1, 2 UNION ALL {sums}"


# -- by calibrant ----------------------------------------------------------------------------------


def _own(command: str, *before: Any, **options: Any) -> Callable[[Path], Any]:
    """Return a command of ours on a DataFrame of the user's own Spark session."""

    def run(path: Path) -> Any:
        from pyspark.sql import SparkSession

        import calibrant

        frame = SparkSession.getActiveSession().read.parquet(str(path))
        return getattr(calibrant, command)(*before, frame, **options)

    return run


def _own_apply(path: Path) -> Any:
    """Apply a temperature to all rows and write them; what is written is removed."""
    import numpy as np

    from calibrant.calibrators import TemperatureScaling

    p = np.random.default_rng(0).dirichlet(np.ones(K), 1000)
    out = path.with_name("applied-spark")
    try:
        _own("apply", TemperatureScaling().fit(p, p.argmax(axis=1)))(path).write.parquet(str(out))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _own_monitor(path: Path) -> Any:
    with tempfile.TemporaryDirectory() as store:
        return _own("monitor", store, name="2026-11-15")(path)


def _evaluate(**options: Any) -> Callable[[Path], Any]:
    def run(path: Path) -> Any:
        import calibrant

        return calibrant.evaluate(f"{path}/*.parquet", **options)

    return run


def _fit(path: Path) -> Any:
    from calibrant.workflows.fit import fit

    return fit(f"{path}/*.parquet", method="temperature", engine="polars")


def _apply(path: Path) -> Any:
    """Apply an isotonic map on DuckDB; what it writes is removed."""
    import numpy as np
    import polars as pl

    from calibrant.calibrators import IsotonicOneVsRest
    from calibrant.workflows.apply import apply

    head = pl.read_parquet(next(iter(sorted(path.glob("*.parquet")))), n_rows=20_000)
    p = head.select(f"p_{k}" for k in range(K)).to_numpy()
    fitted = IsotonicOneVsRest().fit(p, np.asarray(head["label"]))
    out = path.with_name("applied.parquet")
    try:
        return apply(fitted, f"{path}/*.parquet", out, engine="duckdb")
    finally:
        out.unlink(missing_ok=True)


def _cells(path: Path) -> Any:
    from calibrant.workflows.summarize import summarize

    return summarize(f"{path}/*.parquet", engine="polars").slices


BY = ("model", "day")
_ECE: dict[str, Any] = {"metrics": ["ece"], "n_resamples": 0}
#: Tasks on the large file, those on top-label pairs, on many small files, and on Spark.
LARGE: dict[str, Callable[[Path], Any]] = {
    "group-by by hand, Polars": _polars_ece,
    "group-by by hand, DuckDB": _duckdb_ece,
    "evaluate, Polars": _evaluate(engine="polars"),
    "evaluate, DuckDB": _evaluate(engine="duckdb"),
    "evaluate -m ece --resamples 0, Polars": _evaluate(engine="polars", **_ECE),
    "evaluate -m ece --resamples 0, DuckDB": _evaluate(engine="duckdb", **_ECE),
    "group-by of 1,000 slices by hand, Polars": lambda path: _polars_ece(path, BY),
    "evaluate --by 1,000 slices, Polars": _evaluate(engine="polars", by=BY),
    "one pass of a temperature by hand, Polars": _polars_temperature,
    "fit temperature, Polars": _fit,
    "apply isotonic, DuckDB": _apply,
}
PAIRS: dict[str, Callable[[Path], Any]] = {
    "scan and sum of pairs, Polars": _scan,
    "evaluate -m ece --resamples 0 of pairs, Polars": _evaluate(engine="polars", metrics=["ece"], n_resamples=0),
    "summarize pairs, Polars": _cells,
}
SMALL: dict[str, Callable[[Path], Any]] = {
    "group-by of small files by hand, Polars": _polars_ece,
    "evaluate of small files, Polars": _evaluate(engine="polars"),
}
SPARK: dict[str, Callable[[Path], Any]] = {
    "same aggregation in SQL, Spark": _spark_sql,
    "evaluate, Spark": _evaluate(engine="spark"),
}
#: Tasks on Spark in a session that the user made, with default settings.
OWN: dict[str, Callable[[Path], Any]] = {
    "same aggregation in SQL, own Spark session": _spark_sql,
    "evaluate, own Spark session": _evaluate(engine="spark"),
    "evaluate a DataFrame, own Spark session": _own("evaluate"),
    "fit temperature, own Spark session": _own("fit", method="temperature"),
    "apply temperature, own Spark session": _own_apply,
    "check, own Spark session": _own("check", max_values={"ece": 0.5}),
    "monitor, own Spark session": _own_monitor,
}
TASKS = {**LARGE, **PAIRS, **SMALL, **SPARK, **OWN}
#: Tasks whose memory must not grow, and whose time must grow as rows do.
GROWING = ("evaluate, Polars", "evaluate --by 1,000 slices, Polars", "apply isotonic, DuckDB")
#: Tasks that run in the first round only.
ONCE = (*GROWING[1:], "fit temperature, Polars", "evaluate, DuckDB", *SPARK, *OWN)
#: (task, by hand, largest ratio).
RATIOS = (
    ("evaluate, Polars", "group-by by hand, Polars", 6.0),
    ("evaluate, DuckDB", "group-by by hand, DuckDB", 5.0),
    ("evaluate -m ece --resamples 0, Polars", "group-by by hand, Polars", 2.5),
    ("evaluate -m ece --resamples 0, DuckDB", "group-by by hand, DuckDB", 2.5),
    ("evaluate --by 1,000 slices, Polars", "group-by of 1,000 slices by hand, Polars", 8.0),
    ("fit temperature, Polars", "one pass of a temperature by hand, Polars", 8.0),
    ("evaluate of small files, Polars", "group-by of small files by hand, Polars", 6.0),
    ("evaluate, Spark", "same aggregation in SQL, Spark", 2.0),
    ("evaluate, own Spark session", "same aggregation in SQL, own Spark session", 2.0),
    ("evaluate a DataFrame, own Spark session", "same aggregation in SQL, own Spark session", 2.0),
    ("evaluate -m ece --resamples 0 of pairs, Polars", "scan and sum of pairs, Polars", 3.5),
    ("summarize pairs, Polars", "scan and sum of pairs, Polars", 8.0),
)
#: (task, most megabytes).
PEAKS = (
    ("evaluate, Polars", 1000.0),
    ("evaluate --by 1,000 slices, Polars", 600.0),
    ("apply isotonic, DuckDB", 700.0),
)


def run_scale(
    scratch: str | Path,
    *,
    rows: int = 50_000_000,
    rounds: int = 3,
    spark: bool = False,
    files: int = 3_000,
    repeat: int = 2,
    progress: Callable[[str], None] | None = None,
) -> ScaleReport:
    """Measure our engines at scale.

    Parameters
    ----------
    scratch : str or Path
        Folder for the generated files (about 25 bytes a row); they are kept and used again.
    rows : int, default 5·10⁷
        Rows of the large file; a fiftieth, a fifth and twice as many show the growth. Spark takes a tenth.
    rounds : int, default 3
        Rounds of queries by hand and of what takes less than ten times as long; in each the tasks take turns, and the
        best time counts. The others run once.
    spark : bool, default False
        Also run Spark (needs the extra and Java).
    files : int, default 3,000
        Number of small files, of a thousand rows each or fewer.
    repeat : int, default 2
        How often the parts of the large file are read in the last step of growth: 20 makes 10⁹ rows of 5·10⁷.
    progress : callable, optional
        Called with what runs.
    """
    folder = Path(scratch)
    large, tenth = generate(folder, rows), generate(folder, max(rows // 10, 1000))
    few = min(1000 * files, rows)
    pairs, small = _pairs(folder, rows), generate(folder, few, parts=files)
    todo: list[tuple[str, Path, int, int]] = []
    for turn in range(rounds):
        todo += [(name, large, rows, turn) for name in LARGE]
        todo += [(name, pairs, rows, turn) for name in PAIRS]
        todo += [(name, small, few, turn) for name in SMALL]
        if spark and find_spec("pyspark"):
            todo += [(name, tenth, max(rows // 10, 1000), turn) for name in (*SPARK, *OWN)]
        for size in _smaller(rows):  # the best of as many rounds as of the large file: growth compares like with like
            part = generate(folder, size)
            todo += [(name, part, size, turn) for name in GROWING]
        for times in sorted({2, repeat} - {1}):
            if times == 2 or not turn:  # many times the rows take minutes
                todo += [(name, repeated(large, times), times * rows, turn) for name in GROWING[:1]]
    best: dict[tuple[str, int], ScaleRun] = {}
    failed: dict[str, None] = {}
    for name, path, size, turn in todo:
        if turn and name in ONCE:
            continue
        if progress:
            progress(f"{name}, {size} rows")
        try:
            run = _fresh(name, path, size)
        except CalibrantError as error:  # the others are worth their time
            failed[str(error)] = None
            continue
        known = best.get((name, size))
        if known is None or run.seconds < known.seconds:
            best[name, size] = run
    return ScaleReport(tuple(best.values()), _goals(best, rows), tuple(failed))


def _smaller(rows: int) -> tuple[int, int]:
    return max(rows // 50, 500), max(rows // 5, 700)


def _fresh(task: str, path: Path, rows: int) -> ScaleRun:
    """Run one task in a process of its own and read its times and its peak memory."""
    command = [sys.executable, "-m", "calibrant_benchmarks.scale", task, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- our own module
    if done.returncode:
        lines = (done.stderr.strip() or "no message").splitlines()
        why = next((line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])
        raise CalibrantError(f"{task} of {rows} rows failed: {why[:300]}. Hint: run it alone with {' '.join(command)}")
    seconds, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return ScaleRun(task, rows, seconds, cpu, peak)


def _goals(best: dict[tuple[str, int], ScaleRun], rows: int) -> tuple[dict[str, Any], ...]:
    found: list[dict[str, Any]] = []

    def goal(text: str, value: float, limit: float, cpu: float | None = None) -> None:
        found.append({"goal": text, "value": value, "cpu": cpu, "limit": limit, "met": value <= limit})

    def ratio(text: str, one: ScaleRun, other: ScaleRun, limit: float) -> None:
        cpu = one.cpu_seconds / max(other.cpu_seconds, 1e-9)
        goal(text, one.seconds / max(other.seconds, 1e-9), limit, cpu)

    largest = {name: max(size for task, size in best if task == name and size <= rows) for name, _ in best}
    for task, hand, limit in RATIOS:
        if task in largest and hand in largest:
            text = f"{task} ≤ {limit:g} × {hand}"
            ratio(text, best[task, largest[task]], best[hand, largest[hand]], limit)
    for task, most in PEAKS:
        if (task, rows) in best:
            goal(f"peak MB of {task} ≤ {most:g}", best[task, rows].peak_mb, most)
    least, fifth = _smaller(rows)
    for task in GROWING:
        first, middle, last = (best.get((task, size)) for size in (least, fifth, rows))
        if first and last:
            growth = last.peak_mb / max(first.peak_mb, 1e-9)
            goal(f"peak MB of {task}: fifty times the rows ≤ 1.5 ×", growth, 1.5)
        if middle and last:
            ratio(f"time of {task}: five times the rows ≤ 5.5 ×", last, middle, 5.5)
    task = GROWING[0]
    one = best.get((task, rows))
    for times in sorted({size // rows for name, size in best if name == task and size > rows}):
        more = best[task, times * rows]
        if one is None:
            break
        word = "twice" if times == 2 else f"{times} times"
        ratio(f"time of {task}: {word} the rows ≤ {1.1 * times:g} ×", more, one, 1.1 * times)
        goal(f"peak MB of {task}: {word} the rows ≤ 1.2 ×", more.peak_mb / one.peak_mb, 1.2)
    return tuple(found)


def _peak_mb() -> float:
    """Peak resident memory of this process and its children, such as Spark's; 0 where the system does not tell."""
    own = Path("/proc/self")
    if not own.exists():  # elsewhere this may be the peak of the process that started this one
        if find_spec("resource") is None:
            return 0.0
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    lines = (line for place in (own, *_children()) for line in (place / "status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _cpu_seconds() -> float:
    """Processor time of this process and its living children."""
    stats = [(child / "stat").read_text().rpartition(")")[2].split() for child in _children()]  # after the name
    ticks = sum(int(user) + int(system) for *_, user, system in (fields[:13] for fields in stats))
    return time.process_time() + (ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0)


def _children(parent: str = "self") -> Iterator[Path]:
    """Yield the processes below this one, where the system lists them."""
    for listing in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in listing.read_text().split():
            yield Path("/proc", child)
            yield from _children(child)


def _imports(task: str) -> list[str]:
    """Return the modules a task needs: what others bring counts neither as time nor as memory."""
    own = {name: [f"calibrant.workflows.{name}"] for name in ("fit", "apply", "check", "monitor")}
    engine = ["polars", "duckdb"] if "DuckDB" in task else ["polars"]
    more = own.get(task.partition(" ")[0], [])
    return [*engine, "calibrant.engines.frames", "calibrant.workflows.evaluate", *more]


def main(task: str, path: str) -> None:
    """Run one task and write seconds, processor seconds and peak megabytes as JSON."""
    for name in _imports(task):
        import_module(name)  # imports are not timed
    from calibrant.engines.registry import open_paths

    if task in OWN:
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # as in an environment that is activated
        SparkSession.builder.getOrCreate()
    if task in (*SPARK, *OWN):  # nor is the start of Spark, nor its first job
        open_paths(next(Path(path).glob("*.parquet")), "spark", master="local[*]").count()
    start, cpu = time.perf_counter(), _cpu_seconds()
    TASKS[task](Path(path))
    result = [time.perf_counter() - start, _cpu_seconds() - cpu, _peak_mb()]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
