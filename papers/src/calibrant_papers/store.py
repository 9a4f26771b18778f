"""Finished targets on disk, quick and full apart: a run that was stopped goes on, shards meet in one book."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from calibrant.core.atomic import write_text
from calibrant.core.jsonable import dumps
from calibrant_papers.targets.result import Outcome, TargetResult

__all__ = ["keep", "kept", "kept_all", "shard_of"]

SCHEMA = 1
#: Said of a kept result whose program or version has changed: the next run makes it again.
EARLIER = ", by an earlier program"


def _digest(run: Callable[..., TargetResult]) -> str:
    """Return what decides whether a kept result still stands: the source of the target's module, and the version."""
    source = inspect.getsource(sys.modules[getattr(run, "func", run).__module__])
    return hashlib.sha256((source + version("calibrant")).encode()).hexdigest()[:16]


def _place(folder: Path, name: str, quick: bool) -> Path:
    return folder / "results" / ("quick" if quick else "full") / f"{name}.json"


def keep(outcome: Outcome, run: Callable[..., TargetResult], folder: Path, seed: int) -> None:
    """Write a target that has run; one that could not is tried again next time."""
    if outcome.result is None:
        return
    packages = ("calibrant", "numpy", "scipy", "scikit-learn", *(("torch",) if "torch" in sys.modules else ()))
    document = {
        "schema": SCHEMA,
        "name": outcome.name,
        "seed": seed,
        "source": _digest(run),
        "seconds": outcome.seconds,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in packages} | {"python": sys.version.partition(" ")[0]},
        "result": _short(outcome.result.to_dict()),
    }
    path = _place(folder, outcome.name, outcome.quick)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, dumps(document, indent=1) + "\n")


def _short(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose curves have six digits: they are drawn, not computed with."""
    curves = result["curves"].items()
    return result | {
        "curves": {panel: {k: [float(f"{v:.6g}") for v in row] for k, row in rows.items()} for panel, rows in curves}
    }


def _read(path: Path) -> tuple[Outcome, dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    known = {field.name for field in fields(TargetResult)}
    result = TargetResult.from_dict({key: value for key, value in document["result"].items() if key in known})
    seconds, date, versions = document["seconds"], document["date"], document["versions"]
    return Outcome(document["name"], result, "", result.quick, seconds, date, versions), document


def kept(name: str, run: Callable[..., TargetResult], folder: Path, *, quick: bool, seed: int) -> Outcome | None:
    """Return a finished target; None if there is none, or if its program, the version or the seed has changed."""
    path = _place(folder, name, quick)
    if not path.exists():
        return None
    outcome, document = _read(path)
    same = document["source"] == _digest(run) and document["seed"] == seed
    return outcome if same and document["schema"] == SCHEMA else None


def kept_all(folder: Path, targets: Mapping[str, Any]) -> list[Outcome]:
    """Return the finished ones of some targets, quick and full; the date says where the program has changed since."""
    found = []
    for name, target in targets.items():
        for quick in (True, False):
            path = _place(folder, name, quick)
            if path.exists():
                outcome, document = _read(path)
                earlier = "" if document["source"] == _digest(target.run) else EARLIER
                found.append(replace(outcome, date=outcome.date + earlier))
    return found


def shard_of(names: list[str], shard: tuple[int, int]) -> list[str]:
    """Return the part (i, n) of the targets, i from 1 to n; the n parts hold every target once.

    Examples
    --------
    >>> shard_of(["a", "b", "c", "d", "e"], (2, 3))
    ['b', 'e']
    """
    i, n = shard
    return names[i - 1 :: n]
