"""One changed constant in each subpackage: the frozen answers must see every one of them.

``python -m frozen --mutate`` copies the sources, changes one constant in the copy, asks the named cases in a process of
their own and prints a table. A mutation that nobody sees is a hole in the answers.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from frozen.answers import HERE, load

SOURCE = HERE.parents[1] / "src" / "calibrant"


class Mutation(NamedTuple):
    """A text of a file that stands there once, what takes its place, and the cases that should see it."""

    file: str
    old: str
    new: str
    cases: str
    family: str = "verbs"

    @property
    def subpackage(self) -> str:
        return self.file.partition("/")[0] if "/" in self.file else "(top level)"


MUTATIONS = (
    Mutation(
        "calibrators/platt.py", "(counts + 1) / (counts + 2)", "(counts + 1) / (counts + 3)", "fit/two/file/platt"
    ),
    Mutation("core/moments.py", "SMALLEST = 1e-6", "SMALLEST = 1e-5", "evaluate/classes/file"),
    Mutation("reporting/svg.py", "WIDTHS = (1032,", "WIDTHS = (1033,", "page/report/two", "commands"),
    Mutation("inference/verdict.py", "TOLERANCE = 0.02", "TOLERANCE = 0.03", "evaluate/two/file"),
    Mutation("engines/apply.py", "raw = [1.0 - raw[0]", "raw = [1.1 - raw[0]", "apply/two/[sl]*"),
    Mutation("io/layout.py", '{count(n)} rows"', '{count(n)} lines"', "text/evaluate/two", "commands"),
    Mutation(
        "metrics/regression/nulls.py", "CRPS_VARIANCE = 0.162", "CRPS_VARIANCE = 0.163", "evaluate/regression/file"
    ),
    Mutation("workflows/fit.py", '"held-out score"', '"score held out"', "text/fit/two", "commands"),
    Mutation("cli/_options.py", "may differ and still count", "may differ and yet count", "help/evaluate", "commands"),
    Mutation("monitoring/sequential.py", "STEEPEST = 8.0", "STEEPEST = 3.0", "monitor/two/file"),
    Mutation("summary/summary.py", '"label", "outside"', '"label", "beyond"', "summarize/two/file"),
    Mutation("estimators/estimator.py", "(1.0 / norm)", "(1.1 / norm)", "evaluate/classes/file"),
    Mutation("views/classes.py", 'reduce: str = "mean"', 'reduce: str = "sum"', "evaluate/classes/file/classwise"),
    Mutation("errors.py", "{self.problem}. Hint:", "{self.problem}. Tip:", "evaluate/classes/absent"),
    Mutation(
        "torch/focal.py", "        gamma: float = 2.0,", "        gamma: float = 2.1,", "rest/torch/losses", "rest"
    ),
    Mutation("plots/reliability.py", "_STRIP = 30", "_STRIP = 31", "rest/plots/*", "rest"),
    Mutation(
        "testing/assertions.py",
        "    max_error: float = 0.05,",
        "    max_error: float = 0.06,",
        "rest/testing/a*",
        "rest",
    ),
    Mutation("selective/ood.py", "0.95 * len(inside)", "0.9 * len(inside)", "rest/selective/drawn", "rest"),
    Mutation("datasets/simulations.py", "beta0: float = 0.5", "beta0: float = 0.6", "rest/datasets", "rest"),
    Mutation(
        "scores/differences.py",
        "ndtri(0.5 + 0.5 * level)",
        "ndtri(0.5 + 0.4 * level)",
        "inference/improvement/*",
        "inference",
    ),
    Mutation("regression/tables.py", "p = 1 / n_bins", "p = 1.1 / n_bins", "values/tables", "values"),
)


def mutate(pattern: str = "*") -> int:
    """Print what each mutation moved; return 1 if one was not seen."""
    print("| subpackage | change | answers | first place that moved |\n|---|---|---|---|")
    blind = 0
    for one in MUTATIONS:
        if fnmatch.fnmatchcase(one.subpackage, pattern):
            word, place = tried(one)
            blind += word != "red"
            change = f"`{one.file}`: `{one.old}` → `{one.new}`"
            print(f"| {one.subpackage} | {change} | {word} | {place} |".replace("\n", " "), flush=True)
    return 1 if blind else 0


def tried(one: Mutation) -> tuple[str, str]:
    """Return whether the cases saw the mutation, and where first."""
    if not fnmatch.filter(load(one.family, "day"), one.cases):
        return f"stale: no stored answer matches {one.cases}", ""
    with tempfile.TemporaryDirectory(prefix="mutated") as name:
        copy = Path(name) / "calibrant"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / one.file
        text = target.read_text(encoding="utf-8")
        if text.count(one.old) != 1:
            return f"stale: {one.old!r} stands there {text.count(one.old)} times", ""
        target.write_text(text.replace(one.old, one.new), encoding="utf-8")
        command = [sys.executable, "-m", "frozen", "--lane", "day", "--family", one.family, "--case", one.cases]
        where = {"PYTHONPATH": f"{name}{os.pathsep}{HERE.parent}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, env=os.environ | where, cwd=HERE.parent, capture_output=True, text=True, check=False
        )
    if done.returncode == 1 and done.stdout:
        return "red", done.stdout.splitlines()[0][:160].replace("|", "\\|")
    return "NOT SEEN" if done.returncode == 0 else f"failed: {done.stderr.strip()[-200:]}", ""
