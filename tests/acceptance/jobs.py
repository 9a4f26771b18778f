"""The frozen jobs: every command on rows, pairs, engines and regression, and how its answer is stored.

`python tests/acceptance/jobs.py frozen.json` runs them with whichever calibrant is on the path; `frozen.json` beside
this file was written by version 0.1.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

FEW = ("--resamples", "100")
MANY = "ece,mce,tce,ks,mmce,smece,cwce,sce,ace,tace,uce,skce,brier,nll,spherical,rps,rbs,entropy"
EVERY = f"{MANY},kde,ce-kde"

#: Name of a job -> its command line; paths are relative to the folder of inputs. A later job may use an earlier
#: one's output.
JOBS: dict[str, tuple[str, ...]] = {
    # -- rows
    "evaluate/k5": ("evaluate", "k5.csv", *FEW, "--json"),
    "evaluate/k5-by": ("evaluate", "k5.csv", "--by", "site", *FEW, "--json"),
    "evaluate/k5-all": ("evaluate", "k5.csv", "--measure", MANY, *FEW, "--json"),
    "evaluate/k5-values": ("evaluate", "k5.csv", "--measure", EVERY, "--resamples", "0", "--json"),
    "evaluate/k5-view": ("evaluate", "k5.csv", "--view", "within-2", "--measure", "ece,ks", *FEW, "--json"),
    "evaluate/k5-groups": ("evaluate", "k5.csv", "--groups", "patient", *FEW, "--json"),
    "evaluate/k5-weights": ("evaluate", "k5w.csv", *FEW, "--level", "0.9", "--json"),
    "evaluate/k5-test": ("evaluate", "k5.npz", *FEW, "--bins", "10", "--json"),
    "evaluate/k5-cal": ("evaluate", "k5.npz", "--part", "cal", *FEW, "--seed", "3", "--json"),
    "evaluate/k5-logits": ("evaluate", "k5_logits.csv", *FEW, "--json"),
    "evaluate/k2": ("evaluate", "k2.csv", *FEW, "--json"),
    "evaluate/k2-by": ("evaluate", "k2.csv", "--by", "site", *FEW, "--json"),
    "evaluate/k2-weights": ("evaluate", "k2w.parquet", *FEW, "--json"),
    "check/k5": ("check", "k5.csv", "--max", "ks=0.02", "--min", "accuracy=0.2", *FEW, "--json"),
    "check/k5-by": ("check", "k5.csv", "--max", "ece=0.5", "--min-pvalue", "0.0001", "--by", "site", *FEW, "--json"),
    "check/k5-config": ("check", "k5.csv", "--config", "gate.toml", *FEW, "--json"),
    "check/k2": ("check", "k2.csv", "--max", "brier=0.9", "--min-pvalue", "ece=0.01", *FEW, "--json"),
    "compare/k5": ("compare", "k5.csv", "k5_after.csv", "--json"),
    "compare/k5-some": ("compare", "k5.csv", "k5_after.csv", "--measure", "brier,ece", "--groups", "patient", "--json"),
    "compare/k2": ("compare", "k2.csv", "k2_after.csv", "--json"),
    "fit/temperature": ("fit", "k5.npz", "--method", "temperature", "-o", "temperature.json", "--json"),
    "fit/isotonic": ("fit", "k2.csv", "--method", "isotonic", "-o", "isotonic.json", "--json"),
    "fit/auto": (
        "fit",
        "k5.csv",
        "--fast",
        "--candidate",
        "temperature",
        "--candidate",
        "vector",
        "-o",
        "auto.json",
        "--json",
    ),
    "apply/temperature": ("apply", "temperature.json", "k5.npz", "--part", "test", "-o", "applied.npz", "--json"),
    "apply/isotonic": ("apply", "isotonic.json", "k2.csv", "-o", "applied.csv", "--json"),
    "apply/logits": ("apply", "temperature.json", "k5_logits.csv", "-o", "applied_logits.csv", "--json"),
    "compare/calibrator": ("compare", "k5.npz", "--calibrator", "temperature.json", "--json"),
    "report/k5": ("report", "k5.csv", "--by", "site", "--no-league", *FEW, "--json"),
    "report/k2": ("report", "k2.csv", "--no-league", *FEW, "--json"),
    "report/k5-calibrator": ("report", "k5.npz", "--calibrator", "temperature.json", "--no-league", *FEW, "--json"),
    "monitor/k5": ("monitor", "watch5", "k5.csv", "--name", "day1", "--json"),
    "monitor/k5-second": ("monitor", "watch5", "k5_after.csv", "--name", "day2", "--window", "1", "--json"),
    "monitor/k2": ("monitor", "watch2", "k2.csv", "--name", "day1", "--tolerance", "0.02", "--json"),
    # -- pairs
    "evaluate/pairs": ("evaluate", "pairs.csv", *FEW, "--json"),
    "evaluate/pairs-by": ("evaluate", "pairs.csv", "--by", "site", *FEW, "--json"),
    "check/pairs": ("check", "pairs.csv", "--max", "ks=0.02", "--min-pvalue", "0.01", *FEW, "--json"),
    "report/pairs": ("report", "pairs.csv", "--no-league", *FEW, "--json"),
    "monitor/pairs": ("monitor", "watchp", "pairs.csv", "--name", "day1", "--json"),
    # -- engines
    "evaluate/polars": ("evaluate", "logs/*.parquet", "--engine", "polars", *FEW, "--json"),
    "evaluate/polars-by": ("evaluate", "logs/*.parquet", "--by", "site", *FEW, "--json"),
    "evaluate/duckdb": ("evaluate", "csvlogs/*.csv", "--engine", "duckdb", *FEW, "--json"),
    "evaluate/polars-pairs": ("evaluate", "pairlogs/*.csv", "--engine", "polars", *FEW, "--json"),
    "fit/polars": (
        "fit",
        "logs/*.parquet",
        "--method",
        "temperature",
        "--engine",
        "polars",
        "-o",
        "engine.json",
        "--json",
    ),
    "fit/duckdb": ("fit", "k2w.parquet", "--method", "platt", "--engine", "duckdb", "-o", "platt.json", "--json"),
    "apply/polars": ("apply", "engine.json", "logs/*.parquet", "-o", "applied.parquet", "--json"),
    "apply/duckdb": ("apply", "platt.json", "k2w.parquet", "--engine", "duckdb", "-o", "applied_k2.parquet", "--json"),
    "monitor/polars": ("monitor", "watche", "logs/*.parquet", "--name", "day1", "--json"),
    # -- regression
    "evaluate/regression": ("evaluate", "reg.csv", *FEW, "--json"),
    "evaluate/regression-npz": ("evaluate", "reg.npz", *FEW, "--level", "0.9", "--json"),
    "fit/regression": ("fit", "reg.csv", "-o", "reg.json", "--json"),
    "apply/regression": ("apply", "reg.json", "reg.csv", "-o", "applied_reg.csv", "--json"),
    "report/regression": ("report", "reg.csv", "--no-league", *FEW, "--json"),
    # -- explain
    "explain/all": ("explain", "--json"),
    "explain/ece": ("explain", "ece", "--json"),
    "explain/brier": ("explain", "brier", "--json"),
    "explain/temperature": ("explain", "temperature", "--json"),
    "explain/taxonomy": ("explain", "taxonomy", "--json"),
}

#: Keys whose values are clock times, versions, paths or pictures.
_VOLATILE = re.compile(r"(.*_)?(date|time|seconds|versions?|path|file|output|svg|title|created)(_.*)?")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.@\-]{1,40}")
_LONG = 40


def stored(value: Any, key: str = "") -> Any:
    """Return the part of an answer that must stay: every key, every number to 12 digits, identifiers; no prose."""
    if _VOLATILE.fullmatch(key):
        return "…"
    if isinstance(value, dict):
        return {str(name): stored(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        numbers = [item for item in value if isinstance(item, int | float) and not isinstance(item, bool)]
        if len(value) > _LONG and len(numbers) == len(value):
            weights = np.cos(np.arange(len(value)))
            return {"#": len(value), "sum": stored(float(np.dot(np.array(numbers, dtype=float), weights)))}
        return [stored(item, key) for item in value]
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    if isinstance(value, str) and not _IDENTIFIER.fullmatch(value):
        return "…"
    return value


def output_table(path: Path) -> dict[str, list[Any]]:
    """Return the columns of what `apply` wrote."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name].ravel().tolist() for name in archive.files}
    table = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    if "p_ant" in table.columns:  # shards may be written in any order
        table = table.sort([name for name in ("p_ant", "p_bee") if name in table.columns])
    return {name: table[name].to_list() for name in table.columns}


Run = Callable[[tuple[str, ...], Path], tuple[int, str, str]]


def answer(argv: tuple[str, ...], folder: Path, run: Run) -> dict[str, Any]:
    """Run one job and return its exit code, its JSON and the columns it wrote."""
    code, out, err = run(argv, folder)
    try:
        document = json.loads(out)
    except ValueError:
        document = None
    result = {"exit": code, "json": stored(document)}
    if document is None and code not in (0, 3):
        result["error"] = err.strip()[-300:]
    if argv[0] in ("apply", "fit") and code == 0:
        target = folder / argv[argv.index("-o") + 1]
        written = output_table(target) if argv[0] == "apply" else json.loads(target.read_text())
        result["written"] = stored(written)
    return result


def _subprocess(argv: tuple[str, ...], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "calibrant", *argv], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def main(target: str) -> None:
    """Run every job with the calibrant on the path and write the answers."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from inputs import make_inputs

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        lines = []
        for job, argv in JOBS.items():
            result = answer(argv, folder, _subprocess)
            sys.stderr.write(f"{job} {result['exit']} {result.get('error', '')}\n")
            lines.append(f"{json.dumps(job)}: {json.dumps(result, separators=(',', ':'))}")
    Path(target).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
