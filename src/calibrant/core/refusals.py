"""What is said about rows that fail a check: found and worded only then, so that the checks read as rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._typing import Array, Bools, Floats, Space
from calibrant.core.parallel import row_chunks
from calibrant.errors import InputError, input_error

__all__ = [
    "bad_column", "bad_confidence", "bad_label", "bad_row", "bad_rows", "counted_from_one", "first_true",
    "looks_percent", "need_numbers", "not_whole", "unknown_label"
]  # fmt: skip

_FIX = "drop or fix the row"
#: A row that is normalized sums to at least this: the inverse of less is no number.
LEAST_SUM = 1e-300
#: Larger logits are no scores: squares and sums of some are no numbers, and no map fitted to them could be stored.
LARGEST_LOGIT = 1e50
LOGITS = "hold finite logits of at most 1e50"
_NAMES = "drop rows without a label, or give the names of the classes (one column each, or an array classes)"
_IN_ORDER = "give the names of the classes in the order of the columns (in a file: p_1 is the column of class 1)"
#: Bad rows that an error lists at most.
MOST_ROWS = 4
#: A fraction of rows up to which bad ones are slips, and do not speak of the scale of all.
FEW = 0.05


def first_true(bad: Any) -> int:
    """Return the index of the first true entry."""
    return int(np.flatnonzero(bad)[0])


def bad_rows(bad: Any) -> dict[str, Any]:
    """Return the first bad rows and how many there are, as `input_error` takes them."""
    rows = np.flatnonzero(bad)
    return {"rows": rows[:MOST_ROWS].tolist(), "n_rows": len(rows)}


def no_logit(z: Array) -> Bools:
    """Return where no finite logit is, or one so large that differences or sums of some would not be finite."""
    return ~(np.abs(z.astype(np.float64)) <= LARGEST_LOGIT)


def bad_column(p: Array, tolerance: float, space: Space, caller: str) -> InputError:
    """Return the error of the values of a column that are no probabilities, or no finite log-odds."""
    if space == "logit":
        bad = no_logit(p)
        return input_error("y_proba", caller, LOGITS, f"{p[first_true(bad)]}", _FIX, **bad_rows(bad))
    bad = ~((p >= -tolerance) & (p <= 1 + tolerance))
    return _outside(p, bad, caller)


def _outside(values: Array, bad: Bools, caller: str) -> InputError:
    """Return the error of values outside [0, 1]: missing ones, percentages, or something else."""
    by_row: Bools = bad if bad.ndim == 1 else np.asarray(bad.any(axis=1))
    row = first_true(by_row)
    value = values[row] if bad.ndim == 1 else values[row][bad[row]][0]
    where = bad_rows(by_row)
    if np.isnan(value):
        return input_error("y_proba", caller, "be finite", "nan", _FIX, **where)
    return input_error("y_proba", caller, "lie in [0, 1]", f"{value:.6g}", _scale_hint(values, by_row), **where)


def bad_confidence(scores: Array, bad: Bools, caller: str) -> InputError:
    """Return the error of confidences outside [0, 1]."""
    return _outside(scores, bad, caller).renamed(argument="confidence")


def looks_percent(scores: Array) -> bool:
    """Whether numbers from 0 to 100 are percentages: rows that sum to 100, or a column with some far above 1.

    Examples
    --------
    >>> [looks_percent(np.array(x)) for x in ([[90.0, 10.0], [25.0, 75.0]], [90.0, 0.5, 25.0], [0.9, 1.7, 0.2])]
    [True, True, False]
    """
    if scores.dtype.kind not in "fiu" or not scores.size or not np.fmin.reduce(scores, axis=None) >= 0:
        return False
    high = float(np.fmax.reduce(scores, axis=None))
    if scores.ndim == 1:
        return 10 < high <= 100.0001 and bool(np.mean(scores > 1) > FEW)
    sums = np.asarray(scores, dtype=np.float64).sum(axis=1) if 1.5 < high <= 100.0001 else np.zeros(1)
    return bool(np.mean(np.abs(sums - 100) <= 0.5 * scores.shape[1] + 1e-6) > 0.9)


def _scale_hint(values: Array, bad: Bools) -> str:
    """Return what to do about values outside [0, 1] in bad rows: percentages are no logits, and a slip is neither."""
    if looks_percent(values):
        return "percentages: {percent=True}"
    if np.mean(bad) <= FEW:
        return _FIX
    if np.fmin.reduce(values, axis=None) < 0:
        return "if these are logits, say so with {space=logit}"
    if values.ndim == 1 or np.fmax.reduce(values, axis=None) > 100:
        return "turn these scores into probabilities first"
    return "these are no probabilities, and of several models name one with {proba}"


def bad_row(matrix: Array, tolerance: float, space: Space, *, normalized: bool, caller: str) -> InputError:
    """Return the error of the rows of a matrix that hold no probabilities, or no finite logits."""
    wrong: list[Bools] = []
    error: dict[str, Any] | None = None
    for rows in row_chunks(len(matrix), matrix.shape[1] * 8):
        block = matrix[rows].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = block.sum(axis=1)
        if space == "logit":
            bad, rule, hint = no_logit(block), LOGITS, _FIX
        elif normalized:
            bad = ~(np.isfinite(block) & (block >= 0)) | ~((sums >= LEAST_SUM) & np.isfinite(sums))[:, None]
            rule, hint = "be finite, not negative and of a positive, finite sum in every row", _FIX
        else:
            bad = ~((block >= -tolerance) & (block <= 1 + tolerance))
            if bad.any() and error is None:
                outside = ~((matrix >= -tolerance) & (matrix <= 1 + tolerance))
                return _outside(np.asarray(matrix, dtype=np.float64), outside, caller)
            bad = ~(np.abs(sums - 1) <= tolerance)[:, None]
            rule = f"have rows that sum to 1 within {tolerance:g}"
            hint = "decimals rounded in a file: {normalize=True}; several models in it: name one with {proba}"
        failed: Bools = np.asarray(bad.any(axis=1))
        wrong.append(failed)
        if failed.any() and error is None:
            row = first_true(failed)
            value = sums[row] if rule.startswith("have rows") else block[row][bad[row]][0]
            error = {"rule": rule, "got": f"{value:.6g}", "hint": hint}
    if error is None:
        raise ValueError("no row of this matrix fails the check")
    return InputError(argument="y_proba", caller=caller, **error, **bad_rows(np.concatenate(wrong)))


def not_whole(labels: Floats, bad: Bools, caller: str) -> InputError:
    """Return the error of the labels that are no whole numbers."""
    if np.isnan(labels[first_true(bad)]):
        return unknown_label(labels, np.isnan(labels), caller)
    return input_error(
        "y_true", caller, "hold whole class indices", f"{labels[first_true(bad)]}", _NAMES, **bad_rows(bad)
    )


def need_numbers(labels: Array, caller: str) -> None:
    """Refuse objects that are no numbers: None is a missing label, and '1' is not 1."""
    values = labels.tolist()
    bad = np.array([not isinstance(value, int | float | np.number | np.bool_) for value in values], dtype=bool)
    if bad.any():
        value = values[first_true(bad)]
        raise input_error(
            "y_true",
            caller,
            "hold whole class indices",
            "no label" if value is None else repr(value),
            _NAMES,
            **bad_rows(bad),
        )


def bad_label(labels: Array, n_classes: int, caller: str) -> InputError:
    """Return the error of the labels that are no class indices."""
    rule, hint = f"hold class indices 0 … {n_classes - 1}", _IN_ORDER
    if labels.dtype.kind not in "iubf":
        return input_error("y_true", caller, rule, f"{labels.tolist()[0]!r}", hint, rows=[0])
    bad = (labels < 0) | (labels >= n_classes)
    value = labels[first_true(bad)]
    shown = f"{value}" if labels.dtype.kind == "b" else f"{value.item():g}"
    return input_error("y_true", caller, rule, shown, f"count classes from 0, or {hint}", **bad_rows(bad))


def counted_from_one(n_classes: int, caller: str) -> InputError:
    """Return the error of labels that an engine saw to be 1 … K."""
    rule, got = f"hold class indices 0 … {n_classes - 1}", f"1 … {n_classes}"
    return input_error("y_true", caller, rule, got, f"count classes from 0, or {_IN_ORDER}")


def unknown_label(labels: Array, bad: Bools, caller: str) -> InputError:
    """Return the error of the labels that are missing or not listed in classes."""
    value = labels[first_true(bad)]
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value != value:  # noqa: PLR0124 -- nan is no label either
        return input_error("y_true", caller, "have a label in every row", "none", "drop the rows", **bad_rows(bad))
    rule, hint = "hold only labels listed in classes", "add the label to classes (one column each) or drop the row"
    return input_error("y_true", caller, rule, f"{value!r}", hint, **bad_rows(bad))
