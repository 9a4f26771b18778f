"""Races of whole commands, each in a process of its own: what a person waits for, imports included."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from calibrant_benchmarks.arrays import QUICK, probabilities
from calibrant_benchmarks.frame import Entrant, Goal, Race, Used, floor, ours

#: The Python of this process starts the command, so that an environment need not be active.
_COMMAND = (sys.executable, "-m", "calibrant")


def _waiting(name: str, *words: str, n: int = 0, k: int = 0, kind: str = "npz") -> Callable[[bool], Sequence[Entrant]]:
    """Return the race of one command; FILE among its words is a file of n predictions of k classes."""

    def entrants(quick: bool) -> list[Entrant]:
        folder = tempfile.TemporaryDirectory()
        file = Path(folder.name) / f"predictions.{kind}"
        if n:
            _write(file, max(n // QUICK, 100) if quick else n, k)

        def run() -> Any:
            here = [str(file) if word == "FILE" else word for word in words]
            return _run([*_COMMAND, *here], folder.name)

        def empty() -> Any:
            return _run([sys.executable, "-c", "import numpy, polars"], folder.name)

        return [ours(name, run), floor("a new process with NumPy and Polars", empty)]

    return entrants


#: Runs the commands it reads, one at a time. The peak of a new process counts that of the process that started it, so
#: the bench with its large arrays must not start the command itself.
_LAUNCHER = """
import json, os, subprocess, sys, tempfile
for line in sys.stdin:
    words, folder, around = json.loads(line)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        started = subprocess.Popen(words, cwd=folder, env=around, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no message"])[-1]
    print(json.dumps([started.returncode, last, used.ru_maxrss, used.ru_utime + used.ru_stime]), flush=True)
"""


@cache
def _launcher() -> Any:
    words = [sys.executable, "-I", "-c", _LAUNCHER]
    found = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 -- our own text
    atexit.register(found.communicate)  # closes its input, which ends it
    return found


def _run(words: Sequence[str], folder: str) -> Used:
    """Run a command to its end and return what its process used.

    An installed package has its bytecode, so the command may write it, whatever the environment of the bench says.
    """
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    launcher = _launcher()
    launcher.stdin.write(json.dumps([list(words), folder, around]) + "\n")
    launcher.stdin.flush()
    code, last, kilobytes, cpu = json.loads(launcher.stdout.readline())
    if code:
        raise RuntimeError(last)
    return Used(kilobytes * 1024 / 1e6, cpu)


def _write(file: Path, n: int, k: int) -> None:
    p, y = probabilities(n, k)
    if file.suffix == ".npz":
        np.savez(file, probs=p, labels=y)
        return
    lines = [",".join(["label", *(f"p_{i}" for i in range(k))])]
    lines += [",".join([str(label), *(repr(float(value)) for value in row)]) for label, row in zip(y, p, strict=True)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


RACES = (
    Race(
        "wait-evaluate-small",
        "`evaluate`, a CSV of 1,000 × 5",
        _waiting("calibrant evaluate", "evaluate", "FILE", n=1_000, k=5, kind="csv"),
        (Goal("seconds", 0.7),),
    ),
    Race(
        "wait-evaluate-classes",
        "`evaluate`, 4,000 × 1000",
        _waiting("calibrant evaluate", "evaluate", "FILE", n=4_000, k=1000),
        (Goal("seconds", 5),),
    ),
    Race(
        "wait-evaluate-wide",
        "`evaluate`, 5·10⁴ × 1000",
        _waiting("calibrant evaluate", "evaluate", "FILE", n=50_000, k=1000),
        (Goal("seconds", 10),),
    ),
    Race(
        "wait-report-classes",
        "`report`, 4,000 × 1000",
        _waiting("calibrant report", "report", "FILE", "-o", "page.html", n=4_000, k=1000),
        (Goal("seconds", 5),),
    ),
    Race(
        "wait-report-long",
        "`report`, 10⁶ × 10",
        _waiting("calibrant report", "report", "FILE", "-o", "page.html", n=1_000_000, k=10),
        (Goal("seconds", 4),),
    ),
    Race("wait-demo", "`demo`", _waiting("calibrant demo", "demo"), (Goal("seconds", 6),)),
)
