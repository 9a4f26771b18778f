"""The bootstrap of a mean; its moments and its interval by theory are in `calibrant.core.moments`."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.moments import Moments, mean_ends, mean_moments

__all__ = ["Moments", "bca_ends", "mean_ends", "mean_moments"]


def bca_ends(
    x: Floats,
    weights: Floats | None,
    clusters: Ints | None,
    level: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap of a mean (Efron 1987), whole clusters at a time."""
    from scipy.special import ndtr, ndtri

    w = np.ones(len(x)) if weights is None else weights
    groups = np.arange(len(x)) if clusters is None else clusters
    sums, sizes = np.bincount(groups, w * x), np.bincount(groups, w)
    keep = sizes > 0
    sums, sizes = sums[keep], sizes[keep]
    value = sums.sum() / sizes.sum()
    replicates = []
    for _ in range(n_resamples):
        drawn = rng.integers(0, len(sums), len(sums))
        replicates.append(sums[drawn].sum() / sizes[drawn].sum())
    values = np.sort(replicates)
    z0 = ndtri(np.clip((values < value).mean(), 1 / (n_resamples + 1), n_resamples / (n_resamples + 1)))
    influence = (sums - value * sizes) / sizes.mean()
    scale = 6.0 * float((influence**2).sum()) ** 1.5
    a = (influence**3).sum() / scale if scale > 0 else 0.0  # nothing varies where all differences are equal
    ends = []
    for q in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + ndtri(q)
        ends.append(float(np.quantile(values, ndtr(z0 + z / (1 - a * z)))))
    return ends[0], ends[1]
