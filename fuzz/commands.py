"""Every option of every command, with words that make sense and words that do not; threads and forks."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from arrays import EVERY, Pair, one_of, probabilities
from campaign import Case, FindingError

import calibrant
from calibrant.cli import cli, main

HOSTILE = (
    *(
        "",
        " ",
        "x",
        "-1",
        "0",
        "1",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "9" * 30,
        "true",
        "a,b",
        "ece,ece",
        "ece=",
        "=1",
    ),
    *(
        "<script>alert(1)</script>",
        "'; DROP TABLE t; --",
        '"',
        "`n`",
        "é",
        "\U0001f600",
        "__key",
        "../up",
        "no/such/folder/x",
    ),
    *("*", "[", "{}", "null", "0.5", "label", "p_1", "/dev/null", ".", "folder"),
)
#: Words before the options, by command; commands that take minutes or start other machines are left out.
BASE: dict[str, list[str]] = {
    "evaluate": ["{file}", "--resamples", "19"],
    "fit": ["{file}", "--method", "{method}", "-o", "out.json"],
    "apply": ["{calibrator}", "{file}", "-o", "out.csv"],
    "compare": ["{file}", "{file}"],
    "check": ["{file}", "--max", "{metric}=0.9", "--resamples", "19"],
    "monitor": ["store", "{file}", "--name", "day"],
    "summarize": ["{file}", "-o", "out.calsum"],
    "merge": ["day.calsum", "later.calsum", "-o", "out.calsum"],
    "explain": ["{metric}"],
    "report": ["{file}", "--no-compare", "--resamples", "19", "-o", "out.html"],
}
#: Commands that are not walked, with the reason.
LEFT_OUT = {"demo": "takes minutes"}
#: Options that would start something slow.
SKIPPED = {"--master", "--help", "--jobs"}
TASKS = {
    "classes": {"file": "classes.csv", "method": "temperature", "calibrator": "classes.json", "metric": "ece"},
    "arrays": {"file": "arrays.npz", "method": "platt", "calibrator": "classes.json", "metric": "ks"},
    "regression": {
        "file": "regression.csv",
        "method": "std-scaling",
        "calibrator": "regression.json",
        "metric": "crps",
    },
}


def options() -> dict[str, list[click.Option]]:
    """Return the options of every command that is walked."""
    context = click.Context(cli)
    found = {}
    for name in BASE:
        command = cli.get_command(context, name)
        found[name] = [
            p for p in getattr(command, "params", ()) if isinstance(p, click.Option) and not SKIPPED & set(p.opts)
        ]
    return found


def make_files(folder: Path, seed: int) -> None:
    import polars as pl

    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2, 2], 60)
    y = (rng.random(60) < p[:, 1]).astype(int)
    w, site = rng.integers(1, 4, 60), rng.integers(2, size=60)
    frame = pl.DataFrame({"p_0": p[:, 0], "p_1": p[:, 1], "label": y, "w": w, "site": site})
    frame.write_csv(folder / "classes.csv")
    np.savez(folder / "arrays.npz", probs=p, labels=y)
    mean, variance = rng.normal(size=60), rng.uniform(0.5, 2, 60)
    truth = mean + rng.normal(size=60)
    pl.DataFrame({"mean": mean, "variance": variance, "y": truth}).write_csv(folder / "regression.csv")
    calibrant.calibrators.TemperatureScaling().fit(p, y).save(folder / "classes.json")
    calibrant.calibrators.StdScaling().fit(mean, variance, truth).save(folder / "regression.json")
    (folder / "folder").mkdir()
    frame.head(40).write_csv(folder / "later.csv")
    for name, out in (("classes.csv", "day.calsum"), ("later.csv", "later.calsum")):
        run(["summarize", name, "-o", out], folder)


def run(words: list[str], folder: Path) -> tuple[int, str, str]:
    """Run the command line in this process; return exit code, output and errors."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    here, saved = Path.cwd(), sys.argv
    os.chdir(folder)
    sys.argv = ["calibrant", *words]
    code: Any = 0
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("default")
            main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = saved
        os.chdir(here)
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]  # type: ignore[attr-defined]
    return code if isinstance(code, int) else 0, texts[0], texts[1]


def draw_command(rng: np.random.Generator, every: dict[str, list[click.Option]]) -> Case:
    name = one_of(rng, list(every))
    if name == "report" and rng.random() < 0.9:
        name = "evaluate"
    words = []
    for _ in range(int(rng.integers(0, 4))):
        option = one_of(rng, every[name])
        flag = one_of(rng, [*option.opts, *option.secondary_opts])
        value = one_of(rng, option.type.choices) if isinstance(option.type, click.Choice) else one_of(rng, HOSTILE)
        if isinstance(option.type, click.Choice) and rng.random() < 0.2:
            value = one_of(rng, HOSTILE)
        words.append((flag,) if option.is_flag else (flag, "polars" if value == "spark" else str(value)))
    if rng.random() < 0.1:
        words.append((one_of(rng, HOSTILE),))
    return {"command": name, "task": one_of(rng, list(TASKS)), "words": words}


def check_command(case: Case, folder: Path) -> str:
    base = [word.format(**TASKS[case["task"]]) for word in BASE[case["command"]]]
    code, _, err = run([case["command"], *base, *(word for pair in case["words"] for word in pair)], folder)
    for leftover in ("store", "out.json", "out.csv", "out.calsum", "out.html"):
        path = folder / leftover
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if code not in (0, 1, 2, 3):
        raise FindingError(f"{case['command']}: exit code {code}: {err[-200:]}")
    for bad in ("Traceback", "calibrant failed (", "RuntimeWarning", "DeprecationWarning", "FutureWarning"):
        if bad in err:
            raise FindingError(f"{case['command']}: {err[err.index(bad) :][:150]}")
    if code == 1 and len([line for line in err.splitlines() if line.startswith("error:")]) != 1:
        raise FindingError(f"{case['command']}: exit code 1 without one line of error: {err[-200:]}")
    return f"exit code {code}"


@contextmanager
def commands(seed: int) -> Iterator[Pair]:
    every = options()
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name), seed)
        yield lambda rng: draw_command(rng, every), lambda case: check_command(case, Path(name))


def draw_rows(rng: np.random.Generator) -> Case:
    n = int(rng.integers(2, 30))
    names = [one_of(rng, EVERY["classes"]) for _ in range(3)]
    return {"rows": {"y": rng.integers(3, size=n), "p": probabilities(rng, n, 3)}, "metrics": names}


def values(case: Case) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [calibrant.metric(name, case["rows"]["y"], case["rows"]["p"]) for name in case["metrics"]]


def check_threads(case: Case) -> str:
    expected = values(case)
    found: list[Any] = [None] * 4

    def job(i: int) -> None:
        found[i] = [calibrant.metric(name, case["rows"]["y"], case["rows"]["p"]) for name in case["metrics"]]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=job, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if not all(np.array_equal(one, expected, equal_nan=True) for one in found):
        raise FindingError(f"threads give {found}, one gives {expected}")
    return "the same in four threads"


def check_fork(case: Case) -> str:
    expected = values(case)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(write, np.array(values(case)).tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = np.frombuffer(pipe.read())
    os.waitpid(child, 0)
    if not np.array_equal(found, expected, equal_nan=True):
        raise FindingError(f"a fork gives {found}, its parent {expected}")
    return "the same in a fork"


@contextmanager
def threads_and_forks(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    def draw(rng: np.random.Generator) -> Case:
        return draw_rows(rng) | {"fork": bool(rng.random() < 0.5)}

    yield draw, lambda case: check_fork(case) if case["fork"] else check_threads(case)
