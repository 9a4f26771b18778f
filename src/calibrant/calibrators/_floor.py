"""The floor under exact zeros as a fitted parameter: a uniform weight mixed in before the logarithm."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.calibrators._scores import Scores, folds, pool_rows
from calibrant.errors import ConvergenceWarning

if TYPE_CHECKING:
    from calibrant.calibrators._base import Calibrator

#: log10 of the uniform weights tried first; the best bracket is then refined.
GRID = np.array([-9.0, -7.0, -5.5, -4.5, -3.5, -2.5, -1.5, -0.7, -0.05])
#: Up to this many free numbers the loss on the calibration rows themselves is compared; richer maps would use
#: the floor to overfit (an exact zero marks a row), so they are compared on held-out halves.
FEW = 3


def search_floor(calibrator: Calibrator, scores: Scores, codes: Ints, weights: Floats) -> float:
    """Return the uniform weight w with the least calibration loss of the whole fitted map.

    p ↦ (1 − w)·p + w/K keeps the order of the classes and is one-to-one. The profile loss over w
    (two-fold cross-validated for maps of more than three numbers) is searched on a grid in log10 w and
    refined by golden section in the best bracket.
    """
    seen: dict[float, float] = {}
    splits: list[tuple[Any, Any]] = [(slice(None), slice(None))]
    if calibrator.n_parameters(scores.n_classes) > FEW:
        scores, codes, weights = pool_rows(scores, codes, weights)
        if scores.n > 1:
            splits = list(folds(codes, 2, 0, type(calibrator).__name__))

    def loss(exponent: float) -> float:
        key = round(float(exponent), 6)
        if key not in seen:
            calibrator.floor_ = 10.0**key
            lifted = scores.with_floor(calibrator.floor_, calibrator.smallest_)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit speaks
                seen[key] = 0.0
                for fit, held in splits:
                    calibrator._fit_at_floor(lifted.rows(fit), codes[fit], weights[fit])
                    seen[key] += calibration_loss(calibrator, lifted.rows(held), codes[held], weights[held])
        return seen[key]

    best = int(np.argmin([loss(exponent) for exponent in GRID]))
    low, high = GRID[max(best - 1, 0)], GRID[min(best + 1, len(GRID) - 1)]
    ratio = (np.sqrt(5.0) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    while high - low > 0.1:
        if loss(left) <= loss(right):
            high, right = right, left
            left = high - ratio * (high - low)
        else:
            low, left = left, right
            right = low + ratio * (high - low)
    return float(10.0 ** min(seen, key=seen.__getitem__))


def calibration_loss(calibrator: Calibrator, scores: Scores, codes: Ints, weights: Floats) -> float:
    """Return the weighted sum of losses of a fitted map on scores in its view, by its `loss` option or default."""
    squared = getattr(calibrator, "loss", calibrator.default_loss) == "brier"
    total = 0.0
    for rows in scores.chunks():
        p = calibrator._predict(scores.block(rows))
        p = p / p.sum(axis=1, keepdims=True)
        truth = p[np.arange(len(p)), codes[rows]]
        if squared:
            row_loss = np.einsum("ij,ij->i", p, p) - 2 * truth + 1
        else:
            with np.errstate(divide="ignore"):
                row_loss = -np.log(truth)
        total += float(weights[rows] @ row_loss)
    return total
