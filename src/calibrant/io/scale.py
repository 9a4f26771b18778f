"""Percentages and rounding: scores of a file on the scale of probabilities, or one line that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._typing import Array
from calibrant.core.inputs import TOLERANCE
from calibrant.core.refusals import looks_percent
from calibrant.errors import input_error
from calibrant.io.layout import note

__all__ = ["scaled", "tolerance_of", "unrounded"]

#: Decimals at which a file may have been rounded.
DECIMALS = (2, 3, 4, 5, 6)


def scaled(scores: Array, *, percent: bool, argument: str = "y_proba", caller: str = "read") -> Array:
    """Return probabilities: percentages divided by 100 where they are announced, refused where they are not."""
    high = float(np.fmax.reduce(scores, axis=None)) if scores.size and scores.dtype.kind in "fiu" else 0.0
    if percent:
        if not high > 1:
            rule = "be given for percentages alone"
            raise input_error("percent", caller, rule, f"scores up to {high:g}", "leave it out")
        return np.asarray(scores, dtype=np.float64) / 100.0
    if high > 1 and looks_percent(scores):
        what = "rows that sum to 100" if scores.ndim == 2 else f"numbers from 0 to 100 (largest {high:g})"
        raise input_error(argument, caller, "be probabilities between 0 and 1", what, "percentages: {percent=True}")
    return scores


def unrounded(scores: Array) -> Array:
    """Return rows rescaled to sum 1 where rounding to a few decimals explains that they do not; else as they are.

    Examples
    --------
    >>> unrounded(np.array([[0.33, 0.33, 0.33]])).sum()
    np.float64(1.0)
    >>> unrounded(np.array([[0.3, 0.3, 0.3]])).sum().round(1)
    np.float64(0.9)
    """
    if scores.ndim != 2 or scores.dtype.kind != "f" or scores.shape[1] < 2 or not len(scores):
        return scores
    sums = scores.sum(axis=1, dtype=np.float64)
    off = float(np.abs(sums - 1).max())
    if not 1e-7 < off < 0.005 * scores.shape[1] + 1e-9 or not np.isfinite(sums).all() or float(scores.min()) < 0:
        return scores
    for digits in DECIMALS if scores.dtype == np.float64 else DECIMALS[:4]:
        grid = 10.0**-digits
        if off > 0.5 * grid * scores.shape[1] + 1e-9:
            return scores
        wide = scores.astype(np.float64)
        slack = 1e-9 if scores.dtype == np.float64 else 6e-8
        if float(np.abs(wide - np.round(wide, digits)).max()) <= slack:
            note(f"rows rounded to {digits} decimals miss 1 by up to {off:.2g}, as rounding does: rescaled to sum 1")
            return np.asarray(wide / sums[:, None])
    return scores


def tolerance_of(dtypes: Sequence[Any]) -> float:
    """Return how far probabilities of these declared types may miss 0, 1 and a sum of 1.

    Examples
    --------
    >>> import polars as pl
    >>> tolerance_of([pl.Float32()] * 3), tolerance_of([pl.Decimal(3, 2)] * 3), tolerance_of([pl.Float64()])
    (0.0001, 0.015, 1e-06)
    """
    most = TOLERANCE["float64"]
    steps = 0.0
    for dtype in dtypes:
        inner = getattr(dtype, "inner", dtype)
        name = type(inner).__name__.lower()
        if name in TOLERANCE:
            most = max(most, TOLERANCE[name])
        scale = getattr(inner, "scale", None)
        if name == "decimal" and scale is not None:
            steps += 0.5 * 10.0**-scale  # half a unit of the last digit, for each of them
    return max(most, steps)
