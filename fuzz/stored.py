"""What lies on a disk: damaged artifacts and files, writers that are killed."""

from __future__ import annotations

import copy
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from arrays import Pair, check_map, fitted, one_of, probabilities
from campaign import Case, FindingError

import calibrant
from calibrant.calibrators import _artifact
from calibrant.core.atomic import write_text
from calibrant.errors import CalibrantError, FileError

WRONG: tuple[Any, ...] = (None, -1, 0, 1e308, -2.0, "x", [], {}, True, {"float": "nan"}, {"list": []}, 10**30)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 6)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def edited(payload: dict[str, Any], edits: list[Any]) -> dict[str, Any]:
    """Return a payload with some places deleted or overwritten, and a checksum that fits."""
    payload = copy.deepcopy(payload)
    for path, delete, value in edits:
        *above, last = path
        target: Any = payload
        try:
            for key in above:
                target = target[key]
            if isinstance(target, dict) and not isinstance(last, str):  # an edit before put it there
                continue
            if delete and isinstance(target, dict):
                del target[last]
            else:
                target[last] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):  # an edit before removed it
            continue
    payload["checksum"] = _artifact.checksum(payload)
    return payload


@contextmanager
def artifacts(seed: int) -> Iterator[Pair]:
    payloads = {name: calibrator.to_payload() for name, calibrator in fitted(seed).items()}
    where = {
        name: [path for path in places(payload) if path[0] in ("state", "params", "classes", "kind", "task")]
        for name, payload in payloads.items()
    }

    def draw(rng: np.random.Generator) -> Case:
        name = one_of(rng, list(payloads))
        edits = [
            (one_of(rng, where[name]), bool(rng.random() < 0.3), one_of(rng, WRONG))
            for _ in range(int(rng.integers(1, 3)))
        ]
        return {"method": name, "edits": edits, "rows": {"p": probabilities(rng, int(rng.integers(1, 6)), 3)}}

    with tempfile.TemporaryDirectory() as folder:

        def check(case: Case) -> str:
            path = Path(folder) / "cal.json"
            path.write_text(json.dumps(edited(payloads[case["method"]], case["edits"])), encoding="utf-8")
            try:
                loaded = calibrant.load(path)
            except FileError as error:
                if len(str(error).splitlines()) > 1:
                    raise FindingError("an error of several lines") from error
                return "refused"
            return "loaded" if not loaded.__sklearn_is_fitted__() else check_map(loaded, case["rows"]["p"])

        yield draw, check


def damaged(data: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """Return bytes overwritten, cut off or pushed apart at a share of their length."""
    out = bytearray(data)
    for kind, share, new in edits:
        at = int(share * len(out))
        if kind == "overwrite":
            out[at : at + len(new)] = new
        elif kind == "cut":
            out[at:] = b"\0"
        else:
            out[at:at] = new
    return bytes(out)


def draw_damage(rng: np.random.Generator) -> list[tuple[str, float, bytes]]:
    sizes = {"overwrite": 1, "cut": 0, "insert": 4}
    made = []
    for _ in range(int(rng.integers(1, 4))):
        kind = one_of(rng, list(sizes))
        made.append((kind, float(rng.random()), bytes(rng.integers(0, 256, sizes[kind]).tolist())))
    return made


def accuracy_of(path: Path | str, options: dict[str, Any]) -> tuple[float | None, str | None]:
    """Return the accuracy of a file, or why it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = calibrant.evaluate(str(path), n_resamples=0, metrics=["accuracy"], **options)
        except CalibrantError as error:
            return None, str(error)
    return getattr(found, "whole", found)["accuracy"].value, None


#: `accuracy_of` in a process of its own.
READER = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from stored import accuracy_of
print(json.dumps(accuracy_of(sys.argv[1], json.loads(sys.argv[2]))))
"""


@contextmanager
def files(seed: int) -> Iterator[Pair]:
    import polars as pl

    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1, 1], 20)
    y = rng.integers(2, size=20)
    frame = pl.DataFrame({"p_0": p[:, 0], "p_1": p[:, 1], "label": y, "g": y % 2})
    accuracy = float(((p[:, 1] > p[:, 0]) == y).mean())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "a.npz", probs=p, labels=y)
        frame.write_csv(folder / "a.csv")
        frame.write_parquet(folder / "a.parquet")
        frame.write_ipc(folder / "a.arrow")
        frame.write_ndjson(folder / "a.jsonl")
        (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
        good = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

        def draw(rng: np.random.Generator) -> Case:
            engine = {"engine": one_of(rng, ("polars", "polars", "duckdb"))} if rng.random() < 0.5 else {}
            return {
                "file": one_of(rng, list(good)),
                "edits": draw_damage(rng) if rng.random() < 0.95 else [],
                "options": engine | ({"by": "g"} if rng.random() < 0.2 else {}),
            }

        def check(case: Case) -> str:
            path = folder / case["file"]
            path.write_bytes(damaged(good[case["file"]], case["edits"]))
            if path.suffix in (".arrow", ".parquet"):  # a library that trusts a damaged file may end its process
                command = [sys.executable, "-c", READER, str(path), json.dumps(case["options"])]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if case["edits"] and done.returncode < 0:
                    return "the library aborted"
                if done.returncode:
                    raise FindingError(f"exit code {done.returncode}: {done.stderr[-1000:]}")
                value, error = json.loads(done.stdout)
            else:
                value, error = accuracy_of(path, case["options"])
            if error is not None:
                if len(error.splitlines()) > 1:
                    raise FindingError("an error of several lines")
                if not case["edits"] and not (case["options"] and case["file"].endswith((".npz", ".gz"))):
                    raise FindingError(f"a good file is refused: {error}")
                return "refused"
            if not case["edits"] and abs(value - accuracy) > 1e-12:
                raise FindingError(f"a good file with another accuracy: {value}")
            return "read"

        yield draw, check


WRITER = """
import sys
from calibrant.core.atomic import write_text
write_text(sys.argv[1], sys.argv[2] * 20000)
print(flush=True)
for i in range(10**9):
    write_text(sys.argv[1], sys.argv[2] * 20000)
"""


def draw_kill(rng: np.random.Generator) -> Case:
    return {"moments": rng.uniform(0.0, 0.05, 2).tolist()}


@contextmanager
def kills(seed: int) -> Iterator[Pair]:  # noqa: ARG001 -- one signature
    """Two writers of one file, each killed at a random moment: the file is whole, and leftovers are swept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        goal = folder / "whole.txt"

        def check(case: Case) -> str:
            goal.write_text("x" * 20000, encoding="utf-8")
            commands = [[sys.executable, "-c", WRITER, str(goal), letter] for letter in "ab"]
            both = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
            try:
                for writer in both:
                    writer.stdout.read(1)  # type: ignore[union-attr]  # it has written once, and goes on
                for writer, moment in zip(both, case["moments"], strict=True):
                    time.sleep(moment)
                    for _ in range(3):
                        text = goal.read_text(encoding="utf-8")
                        if len(text) != 20000 or len(set(text)) != 1:
                            raise FindingError("a file that is not whole")
                    os.kill(writer.pid, signal.SIGKILL)
                    writer.wait()
            finally:
                for writer in both:
                    writer.kill()
                    writer.communicate()
            write_text(goal, "c" * 20000)
            if [path.name for path in folder.iterdir()] != [goal.name]:
                raise FindingError("a leftover of a killed writer")
            return "whole"

        yield draw_kill, check
