"""Equal-mass bins, as many as keep the frequencies increasing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats
from calibrant.core.tables import Table
from calibrant.estimators.estimator import Estimator, over_replicates

__all__ = ["Sweep"]

#: Most bins that are tried: beyond it the sweep would cost the square of the rows.
MOST_BINS = 2000


@dataclass(frozen=True)
class Sweep(Estimator):
    """Monotonic sweep (Roelofs et al. 2022): the largest number of equal-mass bins whose frequencies do not decrease.

    Rows of one score stay in one bin: that of the first of them in the order of scores.
    """

    def table_power(self, table: Table, norm: float) -> Floats:
        """Return Σ_b (n_b/n)·abs(frequency − score)^p over the bins found."""
        before = np.cumsum(table.w) - table.w
        return over_replicates(lambda wt: _power(before / table.total, table.w, table.ws, wt, norm), table.wt)


def _power(place: Floats, w: Floats, ws: Floats, wt: Floats, norm: float) -> float:
    found = np.zeros(len(w), dtype=np.int64)
    for bins in range(2, min(len(w), MOST_BINS) + 1):
        index = np.minimum((place * bins + 1e-9).astype(np.int64), bins - 1)
        weight = np.bincount(index, w, bins)
        filled = weight > 0
        if (np.diff(np.bincount(index, wt, bins)[filled] / weight[filled]) < 0).any():
            break
        found = index
    weight = np.bincount(found, w)
    kept = weight > 0
    gap = np.abs(np.bincount(found, wt - ws)[kept] / weight[kept])
    if np.isinf(norm):
        return float(gap.max())
    return float((weight[kept] * gap**norm).sum() / weight.sum())
