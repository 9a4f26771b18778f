"""Checks of regression input: columns of truth, mean and variance in, checked float64 columns out."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, ArrayLike, Bools, Floats
from calibrant.core.inputs import to_array
from calibrant.core.options import check_count
from calibrant.core.refusals import bad_rows
from calibrant.errors import input_error

__all__ = ["check_column", "check_distance", "check_levels", "check_table", "check_variance"]

#: Numbers beyond this size lose their squares' squares; no unit of measurement needs them.
LARGEST = 1e75
#: Variances between these have standard deviations, squares and logarithms.
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-150, 1e150
_UNIT = "change the unit of measurement"
VARIANCE_HINT = "pass variances (std**2), and give certain rows a smallest variance of your own choice"


def _refuse(bad: Bools, values: Array, argument: str, caller: str, rule: str, hint: str) -> None:
    """Raise for the first row that breaks the rule, if any."""
    if bad.any():
        by_row = bad if bad.ndim == 1 else bad.any(axis=1)
        row = int(np.flatnonzero(by_row)[0])
        value = values[row] if bad.ndim == 1 else values[row][bad[row]][0]
        raise input_error(argument, caller, rule, f"{value:.6g}", hint, **bad_rows(by_row))


def _numbers(value: ArrayLike, argument: str, caller: str) -> Floats:
    """Return the input as float64 with at least one row."""
    array = to_array(value, argument, caller)
    if array.dtype.kind == "c":
        raise input_error(argument, caller, "be real", "complex numbers", "take the real part")
    try:
        numbers = np.asarray(array, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise input_error(argument, caller, "be numeric", f"dtype {array.dtype}", "convert or drop it") from error
    if not len(numbers):
        raise input_error(argument, caller, "hold at least one row", "no rows", "check the filter before this call")
    return numbers


def check_column(value: ArrayLike, argument: str, caller: str, n: int | None = None) -> Floats:
    """Return one finite float64 number per row; `n` is the length the other columns have."""
    column = _numbers(value, argument, caller)
    if column.ndim != 1:
        hint = "flatten it yourself, or use Samples or Quantiles for several numbers per row"
        raise input_error(argument, caller, "have one number per row, shape (n,)", f"shape {column.shape}", hint)
    if n is not None and len(column) != n:
        hint = "check that all columns come from the same split"
        raise input_error(argument, caller, f"have {n} rows like the other columns", f"{len(column)} rows", hint)
    _refuse(~np.isfinite(column), column, argument, caller, "be finite", "drop or fix the row")
    if argument != "variance":
        _refuse(np.abs(column) > LARGEST, column, argument, caller, f"be at most {LARGEST:g} in size", _UNIT)
    return column


def check_table(value: ArrayLike, argument: str, caller: str) -> Floats:
    """Return a finite float64 table (n, m), m ≥ 1."""
    table = _numbers(value, argument, caller)
    if table.ndim != 2 or table.shape[1] < 1:
        raise input_error(argument, caller, "have shape (n, m)", f"shape {table.shape}", "one row per forecast")
    _refuse(~np.isfinite(table), table, argument, caller, "be finite", "drop or fix the row")
    _refuse(np.abs(table) > LARGEST, table, argument, caller, f"be at most {LARGEST:g} in size", _UNIT)
    return table


def check_variance(value: ArrayLike, caller: str, n: int | None = None) -> Floats:
    """Return positive, finite variances."""
    variance = check_column(value, "variance", caller, n)
    _refuse(~(variance > 0), variance, "variance", caller, "be positive", VARIANCE_HINT)
    outside = (variance < SMALLEST_VARIANCE) | (variance > LARGEST_VARIANCE)
    rule = f"lie between {SMALLEST_VARIANCE:g} and {LARGEST_VARIANCE:g}"
    _refuse(outside, variance, "variance", caller, rule, _UNIT)
    return variance


def check_distance(y: Floats, mean: Floats, variance: Floats, caller: str) -> None:
    """Refuse a truth so many standard deviations away that the square of the square is no number."""
    far = np.abs(y - mean) / np.sqrt(variance) > LARGEST
    rule = f"lie within {LARGEST:g} standard deviations of the mean"
    _refuse(far, y, "y_true", caller, rule, "check the unit of the variance")


#: More levels than this are no request that could be met.
MOST_LEVELS = 100_000


def check_levels(levels: int | ArrayLike, caller: str) -> Floats:
    """Return increasing levels in (0, 1); a whole number m stands for j/(m + 1), j = 1 … m."""
    if isinstance(levels, int | np.integer) and not isinstance(levels, bool):
        m = check_count(int(levels), "levels", caller, 1, "99 for the percentiles", MOST_LEVELS)
        return np.arange(1, m + 1) / (m + 1)
    single = isinstance(levels, float | np.floating)
    array = _numbers([levels] if single else levels, "levels", caller)
    ok = array.ndim == 1 and array.size > 0 and bool(((array > 0) & (array < 1)).all() and (np.diff(array) > 0).all())
    if not ok:
        rule = "increase strictly inside (0, 1)"
        hint = "pass for example [0.1, 0.5, 0.9], or the number of equally spaced levels"
        raise input_error("levels", caller, rule, np.array2string(array, threshold=6), hint)
    return array
