"""Top-label calibration error given the predicted class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe, check_norm
from calibrant.core.inputs import Forecast, check_n_bins
from calibrant.core.tables import width_index


@dataclass(frozen=True)
class PredictedClassError(Recipe):
    """Bins inside every predicted class, weighed by their rows; all rows are kept."""

    n_bins: int = 15
    norm: float = 1.0

    def __post_init__(self) -> None:
        check_n_bins(self.n_bins, "top_label_conditional_error")
        object.__setattr__(self, "norm", check_norm(self.norm, "top_label_conditional_error"))

    def fill(self, forecast: Forecast) -> Forecast:
        """Keep all rows: the predicted class is not in the tables of a view."""
        return forecast

    def finish(self, state: Forecast) -> float:
        """Return (Σ n_{c,b}/n·abs(accuracy − confidence)^p)^(1/p)."""
        score = state.top_score.astype(np.float64)
        weight = np.ones(len(score)) if state.weights is None else state.weights
        cell = state.top.astype(np.int64) * self.n_bins + width_index(state.top_score, self.n_bins)
        used, cell = np.unique(cell, return_inverse=True)
        share = np.bincount(cell, weight, len(used))
        gap = np.abs(np.bincount(cell, weight * (state.hit - score), len(used)))
        filled = share > 0
        gap, share = gap[filled] / share[filled], share[filled] / share.sum()
        if np.isinf(self.norm):
            return float(gap.max())
        return float((share * gap**self.norm).sum() ** (1.0 / self.norm))


METRIC = Metric(
    name="tl-ece",
    title="Top-label error given the predicted class",
    plain="gap between confidence and accuracy, inside every predicted class",
    notion="top-label calibration given the predicted class",
    estimates="the top-label-conditional error TL-ECE",
    bound="lower",
    weakness="few rows per predicted class and bin bias it upwards, so read it beside its null distribution",
    paper="Gupta & Ramdas (2022), Top-label calibration and multiclass-to-binary reductions, ICLR, eq. (4)",
    cost="O(n·K)",
    state="all rows",
    since="0.2",
)


@METRIC.defines
def top_label_conditional_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, n_bins: int = 15, norm: float = 1.0, **rows: Unpack[RowOptions]
) -> Recipe:
    """Measure the gap of confidence and accuracy in bins inside every predicted class.

    Notes
    -----
    (Σ_{c,b} (n_{c,b}/n)·abs(t̄_{c,b} − s̄_{c,b})^p)^(1/p) over predicted classes c and equal-width bins b; never below
    the ECE of the same bins, because gaps of different classes do not cancel.

    Examples
    --------
    >>> from calibrant.metrics import top_label_conditional_error
    >>> top_label_conditional_error([1, 1], [0.9, 0.1])  # right at 0.9 for class 1, wrong at 0.9 for class 0
    0.5
    """
    return PredictedClassError(n_bins, norm)
