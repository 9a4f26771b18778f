"""The papers' data: real logits and scores from the data folder, read once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibrant._typing import Array, Ints, Space
from calibrant.errors import FileError

__all__ = ["Rows", "Split", "all_rows", "load", "published", "rows_of", "split_of", "top_pairs"]


class Rows(NamedTuple):
    """Labeled predictions."""

    labels: Ints
    scores: Array
    space: Space

    def take(self, chosen: Array) -> Rows:
        """Return some of the rows."""
        return Rows(self.labels[chosen], self.scores[chosen], self.space)


class Split(NamedTuple):
    """Calibration and test rows; `note` says how they were split."""

    cal: Rows
    test: Rows
    note: str


@lru_cache(maxsize=8)
def _load(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def load(data: Path | None, name: str) -> dict[str, Array]:
    """Return the arrays of one file of the data folder, or say that it is missing."""
    if data is None:
        raise FileError(f"this target needs {name}.npz. Hint: pass --data DIR, or set CALIBRANT_DATA.")
    path = Path(data) / f"{name}.npz"
    if not path.exists():
        raise FileError(f"{name}.npz is not in the data folder. Hint: pass --data DIR with the file in it.")
    return _load(path)


def rows_of(data: Path | None, name: str, part: str = "test") -> Rows:
    """Return one part of a file with full vectors."""
    arrays = load(data, name)
    kind = "logits" if f"logits_{part}" in arrays else "probs"
    return Rows(
        arrays[f"labels_{part}"].astype(np.int64), arrays[f"{kind}_{part}"], "logit" if kind == "logits" else "proba"
    )


def all_rows(data: Path | None, name: str) -> Rows:
    """Return calibration and test rows of a file as one set."""
    test = rows_of(data, name)
    if "labels_cal" not in load(data, name):
        return test
    cal = rows_of(data, name, "cal")
    return Rows(np.concatenate([cal.labels, test.labels]), np.concatenate([cal.scores, test.scores]), test.space)


def split_of(data: Path | None, name: str, seed: int = 0) -> Split:
    """Return calibration and test rows: as in the file, else by the permutation the data's README gives (seed 0)."""
    if published(data, name):
        return Split(rows_of(data, name, "cal"), rows_of(data, name, "test"), "split as published")
    rows = rows_of(data, name)
    n = len(rows.labels)
    order = np.random.default_rng(seed).permutation(n)
    size = 5000 if n >= 10_000 else n // 2
    return Split(rows.take(order[:size]), rows.take(order[size:]), f"{size} random calibration rows of {n}")


def published(data: Path | None, name: str) -> bool:
    """Whether a file comes with a split into calibration and test rows."""
    return "labels_cal" in load(data, name)


def top_pairs(data: Path | None, name: str) -> tuple[Ints, Array]:
    """Return (correct, confidence) of a file that holds the top label only."""
    arrays = load(data, name)
    return (arrays["pred_test"] == arrays["labels_test"]).astype(np.int64), arrays["conf_test"].astype(np.float64)
