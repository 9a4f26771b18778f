"""Whole commands that are killed, alone or beside another writer: what they write is absent, old or whole.

A process that has imported everything forks a child for each command, so that a death falls into the work and not into
the imports. Half of the deaths come at a moment, a share of the time the command takes here; the other half come before
a call that touches the folder (the first to open a file there, the next to rename it, …), wherever that is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from arrays import Pair, one_of
from campaign import Case, FindingError

#: Command → its words, and what it writes.
WRITERS: dict[str, tuple[list[str], str]] = {
    "fit": (["fit", "rows.csv", "--method", "platt", "-o", "out.json"], "out.json"),
    "apply": (["apply", "map.json", "rows.csv", "-o", "out.csv"], "out.csv"),
    "apply, parquet": (["apply", "map.json", "rows.csv", "-o", "out.parquet"], "out.parquet"),
    "summarize": (["summarize", "rows.csv", "-o", "out.calsum"], "out.calsum"),
    "merge": (["merge", "day.calsum", "other.calsum", "-o", "out.calsum"], "out.calsum"),
    "report": (["report", "rows.csv", "--no-compare", "--resamples", "19", "-o", "out.html"], "out.html"),
    "monitor": (["monitor", "store", "rows.csv", "--name", "{day}", "--report", "out.html"], "out.html"),
}
OLD = b"what was there before\n"
#: Calls of Python that touch files; a death comes before one of them.
TOUCHING = ("open", "os.mkdir", "os.remove", "os.rename", "os.link", "os.truncate", "shutil.move", "fcntl.flock")
#: Seconds after which a command that was not killed must have ended.
LONG = 120.0

MOTHER = """
import json, os, signal, sys, time, traceback
import calibrant.cli, calibrant.reporting, calibrant.monitoring.days, calibrant.workflows.monitor
import calibrant.workflows.report, calibrant.workflows.fit, calibrant.workflows.apply, calibrant.workflows.summarize
import calibrant.engines.frames, calibrant.io.readers, calibrant.summary.files, calibrant.calibrators.platt, polars

def child(job):
    os.chdir(job["folder"])
    null = os.open(os.devnull, os.O_RDWR)
    errors = os.open(job["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, target in ((null, 0), (null, 1), (errors, 2)):
        os.dup2(number, target)
    left = job["call"]
    here = os.path.realpath(job["folder"]) + os.sep
    def hook(event, arguments):
        nonlocal left
        if left is None or event not in job["touching"] or not arguments:
            return
        name = arguments[0]
        named = isinstance(name, (str, os.PathLike)) and os.path.realpath(name).startswith(here)
        if named or event == "fcntl.flock":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    sys.argv = ["calibrant", *job["words"]]
    code = 0
    try:
        calibrant.cli.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except BaseException:
        traceback.print_exc()
        code = 70
    os._exit(code)

print("ready", flush=True)
for line in sys.stdin:
    jobs = json.loads(line)
    start = time.monotonic()
    running = {}
    for i, job in enumerate(jobs):
        pid = os.fork()
        if pid == 0:
            child(job)
        running[pid] = (i, start + job["seconds"])
    codes = [None] * len(jobs)
    took = 0.0
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            codes[running.pop(pid)[0]] = os.waitstatus_to_exitcode(status)
            took = time.monotonic() - start
            continue
        for pid, (i, until) in running.items():
            if time.monotonic() >= until:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)
    print(json.dumps([codes, took]), flush=True)
"""


class Mother:
    """The process that forks commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", MOTHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads,
        )
        self.told: Any = self.process.stdout
        self.orders: Any = self.process.stdin
        self.told.readline()

    def run(self, *jobs: Case) -> tuple[list[int], float]:
        """Run commands at once; return their exit codes (−9: killed) and the seconds all took."""
        full = [
            {
                "folder": str(self.folder),
                "errors": str(self.folder.parent / f"errors-{i}"),
                "touching": TOUCHING,
                "call": job.get("call"),
                "words": job["words"],
                "seconds": job.get("seconds", LONG),
            }
            for i, job in enumerate(jobs)
        ]
        self.orders.write(json.dumps(full) + "\n")
        self.orders.flush()
        codes, took = json.loads(self.told.readline())
        return codes, took

    def said(self, i: int = 0) -> str:
        """What a command wrote to standard error."""
        return (self.folder.parent / f"errors-{i}").read_text(encoding="utf-8")[-300:]

    def close(self) -> None:
        """Let the process end."""
        self.orders.close()
        self.process.wait()
        self.told.close()


def words_of(name: str, day: str) -> list[str]:
    return [word.format(day=day) for word in WRITERS[name][0]]


def days_in(store: Path) -> set[str]:
    """Return the names of the days of a store, which must open."""
    from calibrant.monitoring import Store

    return {day.name for day in Store(store).days()}


def whole(path: Path) -> bool:
    """Whether a file that a command wrote can be read to its end."""
    import polars as pl

    import calibrant

    if path.suffix == ".json":
        return bool(calibrant.load(path).n_classes_ == 2)
    if path.suffix == ".csv":
        return pl.read_csv(path).height == ROWS
    if path.suffix == ".parquet":
        return pl.read_parquet(path).height == ROWS
    if path.suffix == ".calsum":
        from calibrant.summary.files import load_summaries

        return bool(load_summaries(path))
    return path.read_text(encoding="utf-8").rstrip().endswith("</html>")


ROWS = 400


class Bench:
    """A folder with everything commands need, and the state before each round."""

    def __init__(self, root: Path, seed: int) -> None:
        import polars as pl

        self.folder, self.kept = root / "work", root / "kept"
        self.folder.mkdir()
        rng = np.random.default_rng(seed)
        p = rng.dirichlet([2, 2], ROWS)
        y = (rng.random(ROWS) < p[:, 1]).astype(int)
        rows = pl.DataFrame({"p_0": p[:, 0], "p_1": p[:, 1], "label": y})
        rows.write_csv(self.folder / "rows.csv")
        rows.head(ROWS // 2).write_csv(self.folder / "other.csv")
        self.mother = Mother(self.folder)
        first = (
            ["fit", "rows.csv", "--method", "temperature", "-o", "map.json"],
            ["summarize", "rows.csv", "-o", "day.calsum"],
            ["summarize", "other.csv", "-o", "other.calsum"],
            ["monitor", "store", "rows.csv", "--name", "day0"],
        )
        for words in first:
            (code,), _ = self.mother.run({"words": words})
            if code not in (0, 3):
                raise FindingError(f"{words[0]} ends with {code}: {self.mother.said()}")
        shutil.copytree(self.folder, self.kept)
        self.took = {name: self._time(name) for name in WRITERS}

    def _time(self, name: str) -> float:
        self.reset(old=False)
        (code,), took = self.mother.run({"words": words_of(name, "day1")})
        if code not in (0, 3) or not whole(self.folder / WRITERS[name][1]):
            raise FindingError(f"{name} ends with {code}: {self.mother.said()}")
        return took

    def reset(self, *, old: bool, goal: str = "") -> None:
        """Put everything back; with `old`, something lies where a command will write."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.kept, self.folder, dirs_exist_ok=True)
        if old:
            (self.folder / goal).write_bytes(OLD)

    def check(self, goal: str, *, old: bool, days: set[str]) -> str:
        """Check that nothing is lost; return what lies there."""
        path = self.folder / goal
        if not {"day0"} <= days_in(self.folder / "store") <= days | {"day0"}:
            raise FindingError(f"a store with the days {days_in(self.folder / 'store')}")
        if not path.exists():
            if old:
                raise FindingError("what was there before is gone")
            return "absent"
        if path.read_bytes() == OLD:
            return "old"
        if not whole(path):
            raise FindingError(f"{goal} is not whole")
        return "whole"

    def finish(self, name: str, day: str) -> None:
        """Run the command to its end: it succeeds, and nothing of the dead is left."""
        goal = WRITERS[name][1]
        (code,), _ = self.mother.run({"words": words_of(name, day)})
        if code not in (0, 3):
            raise FindingError(f"after a death {name} ends with {code}: {self.mother.said()}")
        if not whole(self.folder / goal):
            raise FindingError(f"after a death {goal} is not whole")
        extra = {path.name for path in self.folder.rglob("*")} - {path.name for path in self.kept.rglob("*")}
        left = {one for one in extra - {goal} if one.startswith(".") or one.endswith((".tmp", ".part"))}
        if left:
            raise FindingError(f"{name} leaves {sorted(left)}")


@contextmanager
def bench(seed: int) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as name:
        made = Bench(Path(name), seed)
        try:
            yield made
        finally:
            made.mother.close()


def death(rng: np.random.Generator) -> dict[str, Any]:
    """Draw how a command dies: at a share of its time, or before a call that touches the folder."""
    if rng.random() < 0.5:
        return {"share": float(rng.uniform(0, 1))}
    return {"call": int(rng.integers(0, 12))}


def job(made: Bench, name: str, day: str, how: dict[str, Any]) -> Case:
    timed = {"seconds": how["share"] * made.took[name]} if "share" in how else {}
    return {"words": words_of(name, day), "call": how.get("call"), **timed}


@contextmanager
def killed_commands(seed: int) -> Iterator[Pair]:
    with bench(seed) as made:

        def draw(rng: np.random.Generator) -> Case:
            return {"command": one_of(rng, list(WRITERS)), "old": bool(rng.random() < 0.5), "death": death(rng)}

        def check(case: Case) -> str:
            name, goal = case["command"], WRITERS[case["command"]][1]
            made.reset(old=case["old"], goal=goal)
            (code,), _ = made.mother.run(job(made, name, "day1", case["death"]))
            if code not in (0, 3, -signal.SIGKILL):
                raise FindingError(f"{name} ends with {code}: {made.mother.said()}")
            made.check(goal, old=case["old"], days={"day1"})
            made.finish(name, "day1")
            return "nothing lost, killed" if code == -signal.SIGKILL else "nothing lost, had ended"

        yield draw, check


@contextmanager
def two_commands(seed: int) -> Iterator[Pair]:
    """Two commands write at once; in half of the rounds one of them dies."""
    with bench(seed) as made:

        def draw(rng: np.random.Generator) -> Case:
            how = death(rng) if rng.random() < 0.5 else {}
            return {"command": one_of(rng, list(WRITERS)), "old": bool(rng.random() < 0.5), "death": how}

        def check(case: Case) -> str:
            name, goal = case["command"], WRITERS[case["command"]][1]
            made.reset(old=case["old"], goal=goal)
            codes, _ = made.mother.run(job(made, name, "day1", {}), job(made, name, "day2", case["death"]))
            if codes[0] not in (0, 3) or codes[1] not in (0, 3, *([-signal.SIGKILL] if case["death"] else [])):
                raise FindingError(f"{name} twice ends with {codes}: {made.mother.said(0)} {made.mother.said(1)}")
            if made.check(goal, old=case["old"], days={"day1", "day2"}) != "whole":
                raise FindingError(f"{name} has ended, but {goal} is not there")
            added = {f"day{i + 1}" for i, code in enumerate(codes) if code >= 0}
            if name == "monitor" and not added <= days_in(made.folder / "store"):
                raise FindingError(f"days {added} were added, the store has {days_in(made.folder / 'store')}")
            made.finish(name, "day2")
            return "nothing lost, one killed" if codes[1] == -signal.SIGKILL else "nothing lost, both ended"

        yield draw, check
