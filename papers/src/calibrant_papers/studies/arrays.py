"""Predictions as plain arrays, so that a study can hand them to processes, and back into checked forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import calibrant.metrics  # noqa: F401  # declares the metrics
from calibrant._typing import Array, ArrayLike, Space
from calibrant.core.declare import Recipe, lookup
from calibrant.core.inputs import Forecast, check_flag, check_forecast, check_pairs, to_array
from calibrant.core.options import check_type
from calibrant.errors import input_error

__all__ = ["build", "forecast_of", "log_sizes", "pack", "repeats_for"]


def pack(
    y_true: ArrayLike, y_proba: ArrayLike, caller: str, *, space: Space = "proba", pairs: bool = False, name: str = ""
) -> dict[str, Array]:
    """Check predictions once and return them as named arrays; `name` tells several forecasts apart."""
    scores = to_array(y_proba, "y_proba", caller)
    truth = to_array(y_true, "y_true", caller)
    if check_flag(pairs, "pairs", caller):
        check_pairs(truth, scores, caller=caller)
        return {f"{name}correct": truth, f"{name}confidence": scores}
    check_forecast(truth, scores, caller=caller, space=space)
    return {f"{name}labels": truth, f"{name}{'logits' if space == 'logit' else 'probs'}": scores}


def forecast_of(arrays: Mapping[str, Array], caller: str, name: str = "") -> Forecast:
    """Return packed predictions as a checked forecast."""
    if f"{name}confidence" in arrays:
        return check_pairs(arrays[f"{name}correct"], arrays[f"{name}confidence"], caller=caller)
    space: Space = "logit" if f"{name}logits" in arrays else "proba"
    scores = arrays[f"{name}logits" if space == "logit" else f"{name}probs"]
    return check_forecast(arrays[f"{name}labels"], scores, caller=caller, space=space)


def build(spec: str) -> Recipe:
    """Return the recipe of a metric written as ``name`` or ``name:key=value,key=value``.

    Examples
    --------
    >>> build("tce:n_bins=100,norm=2").estimator.n_bins
    100
    """
    short, _, rest = check_type(spec, str, "metrics", "study", "be names", "pass for example ['ece']").partition(":")
    params: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, _, text = item.partition("=")
        params[key] = _value(text)
    return lookup(short, "study", "classes").build(**params)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)


def log_sizes(n: int, low: int = 100, count: int = 10) -> list[int]:
    """Return `count` sizes equally spaced in logarithms from `low` to `n`, as Gruber & Buettner (2022) choose them.

    Examples
    --------
    >>> log_sizes(10_000)
    [100, 167, 278, 464, 774, 1292, 2154, 3594, 5995, 10000]
    """
    if n < 2:
        raise input_error("n", "log_sizes", "be at least 2", repr(n), "a study needs rows")
    sizes = np.rint(2 ** np.linspace(np.log2(min(low, n)), np.log2(n), count)).astype(int)
    return sorted(set(sizes.tolist()))


def repeats_for(count: int, most: int) -> list[int]:
    """Return how often each size is drawn, smallest size first: squares from `most` down to 1 (as published).

    Examples
    --------
    >>> repeats_for(10, 10_000)
    [10000, 7921, 6084, 4489, 3136, 2025, 1156, 529, 144, 1]
    """
    return np.rint(np.linspace(np.sqrt(most), 1, count) ** 2).astype(int).tolist()
