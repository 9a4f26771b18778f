"""The one door for input: containers in by protocol, one checked `Forecast` out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Ints, Space
from calibrant.core.forecast import TOLERANCE as TOLERANCE  # noqa: PLC0414 -- part of the door
from calibrant.core.forecast import Forecast as Forecast  # noqa: PLC0414 -- part of the door
from calibrant.core.forecast import first_true
from calibrant.errors import InputError, input_error


def to_array(value: ArrayLike, argument: str, caller: str) -> Array:
    """Turn any supported container into a NumPy array without importing its library.

    Tensors on a device come over by ``.detach().cpu()``; lists of equal-length rows are stacked.
    """
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if "bfloat16" in str(getattr(value, "dtype", "")):
            value = value.float()
    try:
        array = np.asarray(value)
        nested = array.dtype == object and array.ndim == 1 and array.size and hasattr(array[0], "__len__")
        if nested and not isinstance(array[0], str | bytes):
            array = np.stack([np.asarray(row) for row in array])
    except (ValueError, TypeError) as error:
        raise input_error(
            argument,
            caller,
            "be a rectangular array",
            f"{type(value).__name__} ({error})",
            "give every row the same length",
        ) from error
    if array.ndim == 0:
        raise input_error(
            argument,
            caller,
            "be an array with one entry per row",
            f"a single {type(value).__name__}",
            "pass a list, array, tensor or column",
        )
    return array


def _to_float(array: Array, argument: str, caller: str) -> Array:
    """Keep float16/32/64, widen everything else to float64."""
    if array.dtype.kind == "f" and array.dtype.itemsize in (2, 4, 8):
        return array
    if array.dtype.kind == "c":
        raise input_error(argument, caller, "be real", "complex numbers", "take the real part")
    try:
        return array.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise input_error(
            argument,
            caller,
            "be numeric",
            f"dtype {array.dtype} ({error})",
            "drop or convert the non-numeric entries",
        ) from error


def check_weights(sample_weight: ArrayLike | None, n: int, caller: str) -> Floats | None:
    """Return finite, non-negative float64 weights of length `n`, or None."""
    if sample_weight is None:
        return None
    array = to_array(sample_weight, "sample_weight", caller)
    if array.shape != (n,):
        raise input_error(
            "sample_weight",
            caller,
            f"have one weight per row, shape ({n},)",
            f"shape {array.shape}",
            "pass one number per row",
        )
    weights = np.asarray(_to_float(array, "sample_weight", caller), dtype=np.float64)
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        row = first_true(bad)
        raise input_error(
            "sample_weight",
            caller,
            "be finite and not negative",
            f"{weights[row]} at row {row}",
            "drop the row or give it weight 0",
        )
    if not weights.any():
        raise input_error("sample_weight", caller, "have a positive sum", "all zeros", "keep at least one row")
    return weights


def check_classes(classes: ArrayLike | None, n_classes: int, caller: str) -> tuple[Any, ...] | None:
    """Return the class names as a tuple of distinct plain values, or None."""
    if classes is None:
        return None
    names = tuple(to_array(classes, "classes", caller).tolist())
    if len(names) != n_classes:
        raise input_error(
            "classes",
            caller,
            f"name each of the {n_classes} columns once",
            f"{len(names)} names",
            "list the classes in the order of the columns",
        )
    if len(set(names)) != len(names):
        repeated = next(name for i, name in enumerate(names) if name in names[:i])
        raise input_error("classes", caller, "be distinct", f"{repeated!r} twice", "rename one of them")
    return names


def check_labels(
    y_true: ArrayLike, n: int | None, n_classes: int, classes: tuple[Any, ...] | None, caller: str
) -> Ints:
    """Return class codes 0 … K−1, from indices or (with `classes`) from any labels."""
    array = to_array(y_true, "y_true", caller)
    if array.ndim != 1:
        raise input_error(
            "y_true",
            caller,
            "be one label per row, shape (n,)",
            f"shape {array.shape}",
            "turn one-hot rows into indices with argmax(axis=1)" if array.ndim == 2 else "flatten it yourself",
        )
    if n is not None and len(array) != n:
        raise input_error(
            "y_true",
            caller,
            f"be as long as y_proba ({n} rows)",
            f"{len(array)} rows",
            "check that both come from the same split",
        )
    if classes is not None:
        return _encode(array, classes, caller)
    if array.dtype.kind in "fO":
        as_float = np.asarray(_to_float(array, "y_true", caller), dtype=np.float64)
        bad = ~np.isfinite(as_float) | (as_float != np.floor(as_float))
        if bad.any():
            row = first_true(bad)
            raise input_error(
                "y_true",
                caller,
                "hold whole class indices",
                f"{as_float[row]} at row {row}",
                "drop rows without a label, or pass classes= for named labels",
            )
        array = as_float
    elif array.dtype.kind not in "iub":
        raise input_error(
            "y_true",
            caller,
            f"hold class indices 0 … {n_classes - 1}",
            f"{array.tolist()[0]!r} at row 0",
            "pass classes= in the order of the columns",
        )
    if len(array):
        low, high = array.min(), array.max()
        if low < 0 or high >= n_classes:
            row = first_true((array < 0) | (array >= n_classes))
            raise input_error(
                "y_true",
                caller,
                f"hold class indices 0 … {n_classes - 1}",
                f"{array[row].item():g} at row {row}" if array.dtype.kind != "b" else f"{array[row]} at row {row}",
                "count classes from 0, or pass classes= in the order of the columns",
            )
    return array.astype(np.int64, copy=False)


def _encode(array: Array, classes: tuple[Any, ...], caller: str) -> Ints:
    position = {name: code for code, name in enumerate(classes)}
    values, inverse = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    if array.dtype == object:
        position = {str(name): code for name, code in position.items()}
    codes = np.array([position.get(value, -1) for value in values.tolist()], dtype=np.int64)
    if len(codes) and codes.min() < 0:
        row = first_true(codes[inverse] < 0)
        raise input_error(
            "y_true",
            caller,
            "hold only labels listed in classes",
            f"{array[row]!r} at row {row}",
            "add the label to classes (one column each) or drop the row",
        )
    return np.asarray(codes[inverse], dtype=np.int64)


def check_matrix(y_proba: ArrayLike, argument: str, caller: str) -> Array:
    """Return the score matrix (n, K) or column (n,) in its own float dtype; shape rules only."""
    array = _to_float(to_array(y_proba, argument, caller), argument, caller)
    if array.ndim > 2:
        raise input_error(
            argument, caller, "have shape (n, K) or (n,)", f"shape {array.shape}", "flatten the leading axes yourself"
        )
    if array.shape[0] == 0:
        raise input_error(argument, caller, "hold at least one row", "no rows", "check the filter before this call")
    if array.ndim == 2 and array.shape[1] < 2:
        raise input_error(
            argument,
            caller,
            "have at least two columns, or be one column (n,) for class 1",
            f"shape {array.shape}",
            "pass y_proba[:, 0] if it is the probability of class 1",
        )
    return array


def check_forecast(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    caller: str,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> Forecast:
    """Check truth, forecast and weights together and return one `Forecast`."""
    if space not in ("proba", "logit"):
        raise input_error("space", caller, "be 'proba' or 'logit'", repr(space), "say what y_proba holds")
    if normalize and space == "logit":
        raise input_error("normalize", caller, "be False for logits", "True", "softmax normalises by itself")
    matrix = check_matrix(y_proba, "y_proba", caller)
    n_classes = 2 if matrix.ndim == 1 else matrix.shape[1]
    names = check_classes(classes, n_classes, caller)
    codes = check_labels(y_true, len(matrix), n_classes, names, caller)
    forecast = Forecast(
        codes, matrix, check_weights(sample_weight, len(codes), caller), names, n_classes, space, caller
    )
    if normalize and matrix.ndim == 2:
        forecast._scale = np.empty(len(matrix))
    forecast._pass()
    return forecast


def check_pairs(
    correct: ArrayLike, confidence: ArrayLike, *, caller: str, sample_weight: ArrayLike | None = None
) -> Forecast:
    """Check top-label pairs (was it right, how confident) and return a `Forecast` without vectors."""
    scores = _to_float(to_array(confidence, "confidence", caller), "confidence", caller)
    if scores.ndim != 1:
        raise input_error("confidence", caller, "have shape (n,)", f"shape {scores.shape}", "pass one score per row")
    if not len(scores):
        raise input_error("confidence", caller, "hold at least one row", "no rows", "check the filter before this call")
    try:
        hits = check_labels(correct, len(scores), 2, None, caller)
    except InputError as error:
        raise InputError(str(error).replace("y_true", "correct").replace("y_proba", "confidence")) from error
    forecast = Forecast(hits, None, check_weights(sample_weight, len(hits), caller), None, 0, "proba", caller)
    tolerance = TOLERANCE[scores.dtype.name]
    bad = ~((scores >= -tolerance) & (scores <= 1 + tolerance))
    if bad.any():
        row = first_true(bad)
        raise input_error(
            "confidence", caller, "lie in [0, 1]", f"{scores[row]:.6g} at row {row}", "pass probabilities, not logits"
        )
    forecast._top_score = np.clip(scores, 0, 1)
    forecast._hit = hits.astype(bool)
    return forecast


def check_names(value: str, allowed: Sequence[str], argument: str, caller: str) -> str:
    """Return `value` if it is one of the allowed words."""
    if value not in allowed:
        import difflib

        near = difflib.get_close_matches(str(value), list(allowed), 1)
        hint = f"did you mean {near[0]!r}" if near else "choose one of them"
        raise input_error(argument, caller, "be one of " + ", ".join(allowed), repr(value), hint)
    return value


def check_rng(rng: Any, caller: str) -> np.random.Generator:
    """Turn None, an int or a Generator into a Generator (SPEC 7)."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise input_error("rng", caller, "be None, an integer or a Generator", repr(rng), "pass a seed") from error
