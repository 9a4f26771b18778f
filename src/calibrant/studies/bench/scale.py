"""``calibrant bench --scale``: 10⁸ rows against the engine's own scan-and-sum, each run in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibrant.core.results import Record
from calibrant.errors import CalibrantError
from calibrant.studies.writing import stamp

__all__ = ["ScaleReport", "generate", "run_scale"]

ABOUT = (
    "Top-label pairs in Parquet; every task in a process of its own, best of three rounds (Spark: one, its start not "
    "timed). Scan and sum is the engine's own pass over the same two columns."
)
#: Rows written at once.
_BLOCK = 2_000_000


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

    def to_markdown(self) -> str:
        """Return the runs and goals as Markdown tables."""
        lines = ["# Files larger than memory", "", stamp("calibrant bench --scale", "polars", "pyspark"), "", ABOUT, ""]
        lines += ["| task | rows | seconds | processor seconds | peak MB |", "|---|---|---|---|---|"]
        lines += [
            f"| {r.task} | {_count(r.rows)} | {r.seconds:.2f} | {r.cpu_seconds:.2f} | {r.peak_mb:.0f} |"
            for r in self.runs
        ]
        lines += ["", "| goal | value | met |", "|---|---|---|"]
        lines += [f"| {g['goal']} | {g['value']:.2f} | {'yes' if g['met'] else 'no'} |" for g in self.goals]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        lines = [f"{'task':<28}{'rows':>13}{'seconds':>10}{'cpu':>9}{'peak MB':>9}"]
        lines += [
            f"{run.task:<28}{_count(run.rows):>13}{run.seconds:>10.2f}{run.cpu_seconds:>9.2f}{run.peak_mb:>9.0f}"
            for run in self.runs
        ]
        lines += [f"{goal['goal']}: {goal['value']:.2f} ({'met' if goal['met'] else 'missed'})" for goal in self.goals]
        return "\n".join(lines)


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def generate(folder: Path, rows: int, seed: int = 0) -> Path:
    """Write `rows` predictions once: confidence (float64), correct, and slice columns of 20 and 1 000 values."""
    import numpy as np
    import polars as pl

    path = folder / f"scale-{rows}"
    done = path / "_done"
    if done.exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, _BLOCK)):
        rng = np.random.default_rng([seed, number])
        n = min(_BLOCK, rows - start)
        score = 1.0 - 0.5 * rng.random(n) ** 4
        pl.DataFrame(
            {
                "confidence": score,
                "correct": rng.random(n) < score - 0.02,
                "model": rng.integers(0, 20, n).astype(np.int16),
                "day": rng.integers(0, 50, n).astype(np.int16),
            }
        ).write_parquet(path / f"part-{number:05d}.parquet")
    done.touch()
    return path


def _scan(path: Path) -> None:
    import polars as pl

    frame = pl.scan_parquet(path / "*.parquet")
    frame.select(pl.col("confidence").sum(), pl.col("correct").sum()).collect(engine="streaming")


def _bins(path: Path) -> None:
    import polars as pl

    from calibrant.engines.frames import top_bins

    top_bins(pl.scan_parquet(path / "*.parquet"), 15)


def _table(path: Path) -> None:
    import polars as pl

    from calibrant.engines.frames import top_table

    top_table(pl.scan_parquet(path / "*.parquet"))


def _sliced(*by: str, engine: str = "polars", master: str = "") -> Callable[[Path], None]:
    def run(path: Path) -> None:
        from calibrant.engines.paths import evaluate_paths

        evaluate_paths(path / "*.parquet", engine, by=by, master=master)

    return run


#: Masters of the tasks on Spark.
MASTERS = {f"summary, spark {master}": master for master in ("local[1]", "local[2]")}
TASKS: dict[str, Callable[[Path], None]] = {
    "scan and sum": _scan,
    "15-bin ECE alone": _bins,
    "top-label cell table": _table,
    "summary, 1 slice": _sliced(),
    "summary, 20 slices": _sliced("model"),
    "summary, 1000 slices": _sliced("model", "day"),
    **{name: _sliced(engine="spark", master=master) for name, master in MASTERS.items()},
}


def run_scale(
    scratch: str | Path,
    *,
    rows: int = 100_000_000,
    rounds: int = 3,
    spark: bool = False,
    progress: Callable[[str], None] | None = None,
) -> ScaleReport:
    """Measure our engines at scale.

    Parameters
    ----------
    scratch : str or Path
        Folder for the generated files (about 7 bytes a row); they are kept and used again.
    rows : int, default 10⁸
        Rows of the large file; a hundredth of it shows that memory does not grow.
    rounds : int, default 3
        Rounds; in each the tasks take turns, and the best time counts. Spark, slow to start, has one round.
    spark : bool, default False
        Also run Spark on one and two threads (needs the extra and Java).
    progress : callable, optional
        Told what runs.
    """
    folder = Path(scratch)
    sizes = [max(rows // 100, 1000), rows]
    tasks = [name for name in TASKS if name not in MASTERS or (spark and find_spec("pyspark"))]
    best: dict[tuple[str, int], ScaleRun] = {}
    for size in sizes:
        path = generate(folder, size)
        for number in range(rounds):
            for name in tasks:
                if name in MASTERS and number:
                    continue
                if progress:
                    progress(f"{name}, {size} rows")
                run = _fresh(name, path, size)
                known = best.get((name, size))
                if known is None or run.seconds < known.seconds:
                    best[name, size] = run
    return ScaleReport(tuple(best[name, size] for size in sizes for name in tasks), _goals(best, sizes))


def _fresh(task: str, path: Path, rows: int) -> ScaleRun:
    """Run one task in a process of its own and read its times and its peak memory."""
    command = [sys.executable, "-m", "calibrant.studies.bench.scale", task, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- our own module
    if done.returncode:
        why = (done.stderr.strip() or "no message").splitlines()[-1]
        raise CalibrantError(f"{task} of {rows} rows failed: {why[:300]}. Hint: run it alone with {' '.join(command)}")
    seconds, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return ScaleRun(task, rows, seconds, cpu, peak)


def _goals(best: dict[tuple[str, int], ScaleRun], sizes: list[int]) -> tuple[dict[str, Any], ...]:
    small, large = sizes
    scan = best["scan and sum", large]

    def ratio(task: str) -> float:
        return best[task, large].seconds / scan.seconds

    def goal(text: str, value: float, limit: float) -> dict[str, Any]:
        return {"goal": text, "value": value, "limit": limit, "met": value <= limit}

    growth = best["summary, 1 slice", large].peak_mb / best["summary, 1 slice", small].peak_mb
    one, two = (best.get((name, large)) for name in MASTERS)
    spark = () if one is None or two is None else (goal("Spark local[2] ÷ local[1]", two.seconds / one.seconds, 1.0),)
    return (
        goal("15-bin ECE alone ≤ 3.5 × scan and sum", ratio("15-bin ECE alone"), 3.5),
        goal("whole top-label cell table ≤ 8 × scan and sum", ratio("top-label cell table"), 8.0),
        goal("peak memory < 1000 MB", best["summary, 1 slice", large].peak_mb, 1000.0),
        goal("peak memory of 100 × the rows, as a factor", growth, 3.0),
        *spark,
    )


def _peak_mb() -> float:
    """Peak resident memory of this process and its children, such as Spark's; 0 where the system does not tell."""
    if find_spec("resource") is None:
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    lines = (line for child in _children() for line in (child / "status").read_text().splitlines())
    return peak + sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


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


def main(task: str, path: str) -> None:
    """Run one task and write seconds, processor seconds and peak megabytes as JSON."""
    import polars as pl  # noqa: F401 -- imports are not timed

    from calibrant.engines.paths import open_paths

    if task in MASTERS:  # nor is the start of Spark
        open_paths(next(Path(path).glob("*.parquet")), "spark", master=MASTERS[task])
    start, cpu = time.perf_counter(), _cpu_seconds()
    TASKS[task](Path(path))
    result = [time.perf_counter() - start, _cpu_seconds() - cpu, _peak_mb()]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
