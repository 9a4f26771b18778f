"""The campaign: seeded inputs for every public callable, command, file format and artifact; killed writers; threads.

``python fuzz/run.py --inputs 12000 --seed 0`` runs the same inputs on every machine; ``--seconds`` runs as many as fit.
It prints what it counted and fails with the findings, each reduced; ``--replay KIND:NUMBER`` runs one input again.
``--save`` keeps the counts of a part, and ``--table`` sums parts into docs/tables/fuzz.md; the page itself is a part
too, so that new ones are added to it by ``--table docs/tables/fuzz.md new.json``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

from campaign import Kind, Result, generator, run, work
from kinds import KINDS

TABLE = Path(__file__).resolve().parents[1] / "docs" / "tables" / "fuzz.md"
VERSIONS = ("calibrant", "numpy", "scipy", "sklearn", "polars", "duckdb", "pyarrow")


def versions() -> dict[str, str]:
    """Return what the inputs ran on."""
    import importlib

    found = {"Python": platform.python_version()}
    return found | {name: str(importlib.import_module(name).__version__) for name in VERSIONS}


def lines(counts: dict[str, dict[str, int]]) -> list[str]:
    """Return the counts as a table."""
    rows = [
        f"| {kind} | {outcome} | {n:,} |"
        for kind, outcomes in counts.items()
        for outcome, n in sorted(outcomes.items())
    ]
    total = sum(sum(outcomes.values()) for outcomes in counts.values())
    return ["| kind | outcome | inputs |", "|---|---|---|", *rows, f"| all | | {total:,} |"]


def part(options: argparse.Namespace, result: Result) -> dict[str, Any]:
    """Return a run as plain data."""
    budget = f"--inputs {options.inputs}" if options.inputs is not None else f"--seconds {options.seconds:g}"
    only = "".join(f" --only '{kind}'" for kind in options.only or ())
    return {
        "runs": [f"- `python fuzz/run.py {budget} --seed {options.seed}{only}` ({dt.datetime.now(dt.UTC).date()})"],
        "versions": [f"{name} {number}" for name, number in versions().items()],
        "counts": {kind: result.counts[kind] for kind in KINDS if kind in result.counts},
        "findings": len(result.findings),
    }


def read_part(path: Path) -> dict[str, Any]:
    """Return a saved part, or all parts of a page that was written before."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return dict(json.loads(text))
    counts: dict[str, dict[str, int]] = {}
    for kind, outcome, n in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d,]+) \|$", text, re.MULTILINE):
        counts.setdefault(kind, {})[outcome] = int(n.replace(",", ""))
    found, used = re.findall(r"^Findings: (\d+)\. Run on (.+)\.$", text, re.MULTILINE)[0]
    runs = re.findall(r"^- `.+$", text, re.MULTILINE)
    return {"runs": runs, "versions": used.split(", "), "counts": counts, "findings": int(found)}


def write_table(parts: list[dict[str, Any]], page: Path = TABLE) -> None:
    """Sum the parts into docs/tables/fuzz.md."""
    counts: dict[str, dict[str, int]] = {}
    for kind in KINDS:
        for one in parts:
            for outcome, n in one["counts"].get(kind, {}).items():
                of_kind = counts.setdefault(kind, {})
                of_kind[outcome] = of_kind.get(outcome, 0) + n
    runs = [run for one in parts for run in one["runs"]]
    if len(set(runs)) < len(runs):
        raise SystemExit("a part is there twice: " + next(run for run in runs if runs.count(run) > 1))
    found = sum(one["findings"] for one in parts)
    used = {version for one in parts for version in one["versions"]}
    text = [
        "# What was thrown at it",
        "",
        "Every input ends in a right number or in an error of one line. The parts that were summed:",
        "",
        *runs,
        "",
        *lines(counts),
        "",
        f"Findings: {found}. Run on {', '.join(sorted(used))}.",
    ]
    page.write_text("\n".join(text) + "\n", encoding="utf-8")


def replay(name: str, number: int, seed: int) -> str:
    """Run one input in this process."""
    with KINDS[name].open(seed) as (draw, check):
        return check(draw(generator(seed, name, number)))


def main() -> int:
    """Run the campaign, print the counts, and return 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, help="so many inputs in all, spread over the kinds by their shares")
    parser.add_argument("--seconds", type=float, default=600, help="without --inputs: stop after so long")
    parser.add_argument("--limit", type=float, default=900, help="with --inputs: taking longer is a finding")
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--jobs", type=int, default=1, help="workers side by side; the inputs stay the same")
    parser.add_argument("--only", action="append", choices=list(KINDS))
    parser.add_argument("--replay", help="KIND:NUMBER: run one input in this process")
    parser.add_argument("--save", type=Path, help="write the counts as JSON")
    parser.add_argument("--table", nargs="+", type=Path, help="sum saved parts into docs/tables/fuzz.md; runs nothing")
    parser.add_argument("--report", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        write_table([read_part(path) for path in options.table])
        return 0
    options.seed = int(time.time()) if options.seed is None else options.seed
    if options.report is not None:
        work(KINDS, options.seed, options.report)
        return 0
    if options.replay:
        name, _, number = options.replay.rpartition(":")
        sys.stdout.write(replay(name, int(number), options.seed) + "\n")
        return 0
    chosen: list[Kind] = [kind for name, kind in KINDS.items() if options.only is None or name in options.only]
    start = time.monotonic()
    result = run(chosen, seed=options.seed, inputs=options.inputs, seconds=options.seconds, jobs=options.jobs)
    spent = time.monotonic() - start
    if options.inputs is not None and spent > options.limit:
        result.findings["the campaign"] = f"took {spent:.0f} s, more than {options.limit:g}"
    done = part(options, result)
    found = result.findings
    sys.stdout.write("\n".join([*lines(done["counts"]), f"seed {options.seed}, {spent:.0f} s, {len(found)} findings"]))
    sys.stdout.write("\n" + "".join(f"{key}: {text}\n" for key, text in found.items()))
    if options.save:
        options.save.write_text(json.dumps(done), encoding="utf-8")
    return bool(found)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
