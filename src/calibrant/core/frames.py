"""Frames of probabilities: their columns name the classes, alike for metrics, calibrators and verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._typing import Array

__all__ = ["class_names", "column_names", "is_frame", "is_lazy", "named_columns"]

#: What may stand before the name of a class in the name of a column, and after it.
HEADS = ("probability_", "proba_", "probs_", "prob_", "p_", "logits_", "logit_", "score_", ".pred_", "p.", "prob.")
TAILS = ("_probability", "_proba", "_prob", "_logit", "_score")


def is_frame(data: Any) -> bool:
    """Whether data have named columns; the class is asked, because a lazy frame may work to answer."""
    return hasattr(type(data), "columns") or hasattr(type(data), "column_names")


def is_lazy(data: Any) -> bool:
    """Whether a frame is lazy: Polars lazy frames, DuckDB relations, Spark, Dask and Ibis frames."""
    module = type(data).__module__.partition(".")[0]
    return module in ("duckdb", "_duckdb", "pyspark", "dask", "dask_expr", "ibis") or (
        module == "polars" and not hasattr(data, "to_numpy")
    )


def column_names(frame: Any) -> list[str] | None:
    """Return the names of the columns of a frame; None for arrays, and where the columns have no names."""
    if not is_frame(frame):
        return None
    found: Any = getattr(frame, "column_names", None)
    names = list(frame.columns if found is None else found)
    return names if len(names) > 1 and all(isinstance(name, str) for name in names) else None


def class_names(names: Sequence[str]) -> list[str]:
    """Return the names of the classes inside the names of columns: what the known words around them leave.

    Examples
    --------
    >>> class_names(["p_cat", "p_dog"]), class_names(["cat_prob", "dog_prob"]), class_names(["cat", "dog"])
    (['cat', 'dog'], ['cat', 'dog'], ['cat', 'dog'])
    """
    for head in HEADS:
        if all(name.lower().startswith(head) and len(name) > len(head) for name in names):
            return [name[len(head) :] for name in names]
    for tail in TAILS:
        if all(name.lower().endswith(tail) and len(name) > len(tail) for name in names):
            return [name[: -len(tail)] for name in names]
    return list(names)


def named_columns(frame: Any, labels: Array) -> tuple[tuple[Any, ...] | None, Array]:
    """Return the classes that the columns of a frame name, and the labels in their words.

    Labels are the names themselves or what stands inside them (``p_cat``), or they count the columns from 0. Arrays
    and frames without names give no classes.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"p_dog": [0.2, 0.6], "p_cat": [0.8, 0.4]})
    >>> named_columns(frame, np.array(["cat", "dog"]))[0]
    ('dog', 'cat')
    >>> named_columns(frame, np.array([1, 0]))[1].tolist()
    ['cat', 'dog']
    """
    names = column_names(frame)
    if names is None or labels.ndim != 1 or labels.dtype.kind == "b":
        return None, labels
    inside = class_names(names)
    if labels.dtype.kind in "OUS":
        held = {str(value) for value in labels.tolist() if value is not None}
        return tuple(names if held <= set(names) else inside), labels
    if all(name.lstrip("-").isdigit() for name in inside):
        numbers = tuple(int(name) for name in inside)
        return (None if numbers == tuple(range(len(numbers))) else numbers), labels
    if labels.dtype.kind not in "iu" or not len(labels) or labels.min() < 0 or labels.max() >= len(names):
        return None, labels
    return tuple(inside), np.asarray(inside, dtype=object)[labels.astype(np.int64)]
