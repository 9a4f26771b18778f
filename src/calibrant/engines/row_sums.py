"""Sums of row scores a `Summary` keeps: Σw, Σw·x, Σw·x², and what a calibrated model expects of them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from calibrant._typing import Floats
from calibrant.core.declare import Recipe, lookup
from calibrant.core.inputs import Forecast
from calibrant.core.parallel import map_chunks
from calibrant.metrics.recipes import MeanScore, ScoreSums

RowSums: TypeAlias = dict[str, ScoreSums]

#: Scores kept of top-label pairs, and those that need the vector.
PAIR_SCORES = ("accuracy", "confidence", "brier@top-1")
VECTOR_SCORES = ("brier", "nll", "spherical", "rps", "entropy")
#: Moments of the scores if labels came from the forecasts: mean and variance of Brier, variance of the log score
#: (its mean is the entropy).
MOMENTS = ("brier.mean", "brier.var", "nll.var")


def recipe_of(name: str) -> MeanScore:
    """Return the recipe of a kept score."""
    short, _, view = name.partition("@")
    recipe = lookup(short).build(view=view) if view else lookup(short).build()
    if not isinstance(recipe, MeanScore):
        raise TypeError(f"{name} is not a mean of row scores")
    return recipe


def score_name(recipe: MeanScore) -> str | None:
    """Return the name under which the sums of a recipe are kept, by its row function."""
    for name in (*PAIR_SCORES, *VECTOR_SCORES):
        if _rows_id(recipe) == _rows_id(recipe_of(name)):
            return name
    return None


def _rows_id(recipe: Recipe) -> tuple[str, str]:
    rows = recipe.rows  # type: ignore[attr-defined]  # only MeanScore comes here
    return rows.__module__, rows.__name__


def row_sums(forecast: Forecast) -> RowSums:
    """Return the sums of every score these predictions allow."""
    names = PAIR_SCORES + (VECTOR_SCORES if forecast.has_vectors else ())
    sums = {name: recipe_of(name).fill(forecast) for name in names}
    if forecast.has_vectors:
        sums |= moment_sums(forecast)
    return sums


def moment_sums(forecast: Forecast) -> RowSums:
    """Sum the mean and variance each row's scores have when its label is drawn from the forecast itself."""
    weights = forecast.weights

    def visit(rows: slice) -> Floats:
        p = forecast.block(rows).astype(np.float64)
        square = np.einsum("ij,ij->i", p, p)
        brier_mean = p.sum(axis=1) * (1 + square) - 2 * square  # Σ_k p_k·‖p − e_k‖², ‖p − e_k‖² = 1 + ‖p‖² − 2p_k
        brier_var = np.einsum("ij,ij->i", p, (1 + square[:, None] - 2 * p) ** 2) - brier_mean**2
        log_p = np.log(np.maximum(p, 1e-300))
        entropy = np.einsum("ij,ij->i", p, log_p)
        nll_var = np.einsum("ij,ij->i", p * log_p, log_p) - entropy**2
        weight = np.ones(len(p)) if weights is None else weights[rows]
        return np.array([weight @ brier_mean, weight @ brier_var, weight @ nll_var])

    total = np.zeros(3)
    for part in map_chunks(visit, forecast.chunks()):
        total += part
    return {name: ScoreSums(forecast.total, float(x), 0.0) for name, x in zip(MOMENTS, total, strict=True)}
