"""A second forecast of the same rows: what a calibrator makes of them, or other files in the order of the first.

Rows of two patterns, directories or tables pair where there are as many files, with as many rows each, by their names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators.application import calibrate, check_applicable, class_order, is_regression, softmax_note
from calibrant.core.text import count
from calibrant.engines.polars import open_files
from calibrant.engines.scans import read_scan
from calibrant.errors import FileError, input_error
from calibrant.io.layout import listed
from calibrant.io.paths import is_many, is_path, plain_errors
from calibrant.io.predictions import PAIR_CLASSES, Predictions, frame_predictions, refuse_normalize, score_matrix
from calibrant.workflows.sources import LARGE, SAME_COLUMNS, Reading, open_rows

__all__ = ["aligned", "calibrated_rows", "check_files", "maps_pairs", "open_all_rows", "recalibrated"]

_PART = "name the columns that tell rows apart with {key}, or compare one day or part at a time"


def maps_pairs(fitted: Any) -> bool:
    """Whether a calibrator was fitted on top-label pairs: it maps a confidence."""
    return tuple(getattr(fitted, "classes_", ())) == PAIR_CLASSES


def calibrated_rows(
    fitted: Any, rows: Predictions, *, normalize: bool = False, ordered: bool = False
) -> tuple[Floats, str | None]:
    """Return the calibrated probabilities of rows in memory, and what the user should know.

    `ordered`: the caller named the columns one by one, so that their order counts where the calibrator has no names.
    """
    if is_regression(fitted):
        raise input_error("calibrator", "apply", "map class probabilities", "one of variances", "use another")
    if maps_pairs(fitted):
        refuse_normalize(normalize, "apply", "top-label pairs")
        if rows.kind != "pairs" and rows.classes != PAIR_CLASSES:
            rule, hint = "hold a confidence in the top label, which this calibrator maps", "name it with {confidence}"
            raise input_error("data", "apply", rule, "probabilities of classes", hint)
        rows = rows.right_or_wrong()
    scores = score_matrix(rows)
    if rows.space == "logit":
        refuse_normalize(normalize, "apply", "logits")
    check_applicable(fitted, rows.space)
    order = class_order(fitted, rows.classes, ordered=ordered, columns=rows.source)
    if scores.ndim == 1 and order is not None:  # one score of two: the other class has the rest
        if order == [0, 1]:
            order = None
        else:
            scores = np.stack([np.zeros_like(scores) if rows.space == "logit" else 1 - scores, scores], axis=1)
    if order is None:
        q = calibrate(fitted, scores, rows.space, normalize=normalize)
    else:  # classes meet by name, and leave in the order of the data
        q = np.empty(scores.shape)
        q[:, order] = calibrate(fitted, scores[:, order], rows.space, normalize=normalize)
    return q, softmax_note(fitted, rows.space)


def recalibrated(fitted: Any, rows: Predictions, *, normalize: bool, ordered: bool) -> Predictions:
    """Return rows in memory with what a calibrator makes of them: pairs stay pairs, means and variances stay so."""
    if is_regression(fitted) and rows.kind == "regression":
        mean, variance = fitted.predict(rows.scores, rows.variance)
        return replace(rows, scores=mean, variance=variance)
    q, _ = calibrated_rows(fitted, rows, normalize=normalize, ordered=ordered)
    return replace(rows, scores=q[:, 1] if rows.kind == "pairs" else q, space="proba")


def aligned(other: Predictions, rows: Predictions, how: Reading) -> Predictions:
    """Return the second forecast with its classes in the order of the first; names that do not match are refused.

    Numbered columns of more than two classes have no names, and meet none unless the caller said their order.
    """
    if other.classes == rows.classes:
        return other
    sides = [list(map(str, one.classes)) if one.classes else None for one in (rows, other)]
    if None in sides:
        numbered = (other if sides[1] is None else rows).source
        if len(numbered) < 3 or len(how.layout.patterns) > 1:
            return other
        shown = [f"no names in {listed(numbered, 12)}" if side is None else listed(side, 12) for side in sides]
        hint = "call the columns of both alike"
        raise input_error("after", how.caller, f"have the classes of the first ({shown[0]})", shown[1], hint)
    mine, others = (side or [] for side in sides)
    if set(mine) != set(others):
        shown = [listed(names, 12) for names in (mine, others)]
        raise input_error("after", how.caller, f"have the classes {shown[0]}", shown[1], "compare one problem")
    order = [others.index(name) for name in mine]
    if other.scores.ndim < 2:
        flipped = other.scores if order == [0, 1] else -other.scores if other.space == "logit" else 1 - other.scores
        return replace(other, scores=flipped, classes=rows.classes)
    return replace(other, scores=other.scores[:, order], classes=rows.classes)


def open_all_rows(data: Any, how: Reading) -> tuple[Predictions, list[tuple[str, int]]]:
    """Return the rows of a file or frame, or of many files one after the other, with the files and their rows."""
    if not (is_path(data) and is_many(data)):
        return open_rows(data, how), []
    import polars as pl

    how.refuse(("input_format",), "for many files: their suffix says the format")
    scan = read_scan(data)
    scan.check(how.layout)
    size = sum(Path(name).stat().st_size for name in scan.files)
    if size > LARGE:
        held = f"{size / 1e9:.1f} GB where compare pairs at most {LARGE / 1e9:.1f} GB of rows in memory"
        raise FileError(f"{data} holds {held}", hint=_PART)
    types = {name: group.schema for group in scan.groups for name in group.files}
    with plain_errors(data, SAME_COLUMNS):
        frames = [
            open_files([name], scan.kind, types=types[name], partitions=scan.partitions).collect()
            for name in sorted(scan.files)
        ]
    files = [(name, frame.height) for name, frame in zip(sorted(scan.files), frames, strict=True)]
    return frame_predictions(pl.concat(frames, how="diagonal_relaxed"), how.layout), files


def check_files(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> None:
    """Refuse files that do not pair: another number of them, or another number of rows in one."""
    if not first or not second:
        return  # one of them is a single table: its rows are counted as a whole
    if len(first) != len(second):
        raise FileError(
            f"compare pairs files in the order of their names, and there are {count(len(first))} and "
            f"{count(len(second))} of them",
            hint="name the same parts of both forecasts",
        )
    for (one, n), (two, m) in zip(first, second, strict=True):
        if n != m:
            raise FileError(f"{one} has {count(n)} rows and {two} {count(m)}", hint="write the same rows in one order")
