"""Out-of-distribution data: how well uncertainty separates it from known data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Space
from calibrant.core.options import check_count, check_rng, check_share
from calibrant.core.results import Interval, Record
from calibrant.selective.uncertainty import check_scores, uncertainty


@dataclass(frozen=True)
class OodDetection(Record):
    """How well uncertainty separates known from out-of-distribution rows."""

    auroc: Interval
    fpr95: Interval
    threshold: float
    n_known: int
    n_foreign: int

    def __str__(self) -> str:
        ends = "" if np.isnan(self.fpr95.low) else f" [{self.fpr95.low:.4f}, {self.fpr95.high:.4f}]"
        return (
            f"AUROC {self.auroc.value:.4f} [{self.auroc.low:.4f}, {self.auroc.high:.4f}], FPR at 95% TPR "
            f"{self.fpr95.value:.4f}{ends} ({self.n_known} known, {self.n_foreign} out-of-distribution rows)"
        )


def _scores(value: ArrayLike, argument: str, by: str, space: Space, caller: str) -> Floats:
    own = isinstance(by, str) and by == "score"
    return check_scores(value, argument, caller) if own else uncertainty(value, by=by, space=space)


def ood_detection(
    known: ArrayLike,
    foreign: ArrayLike,
    *,
    by: str = "entropy",
    space: Space = "proba",
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: RNG = None,
) -> OodDetection:
    """Measure how well uncertainty separates out-of-distribution rows from known ones.

    Parameters
    ----------
    known, foreign : array-like of shape (n, K)
        Forecasts on data like the training data and on out-of-distribution data; uncertainty scores with
        ``by="score"``.
    by : {"entropy", "confidence", "score"}, default="entropy"
        Normalized entropy, 1 − confidence, or the values themselves (larger = less sure).
    space : {"proba", "logit"}, default="proba"
        What the forecasts hold.
    level : float, default=0.95
        Of the intervals.
    n_resamples : int, default=1000
        Bootstrap samples for the interval of FPR95; 0: none.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    OodDetection
        AUROC (0.5: no help, 1: perfect) with DeLong's interval on the logit scale, FPR95 with a percentile interval.

    Notes
    -----
    AUROC = P(u_foreign > u_known) + ½ P(equal). FPR95: the fraction of out-of-distribution rows at or below the
    smallest threshold that keeps at least 95% of known rows. Where known and out-of-distribution rows do not overlap,
    DeLong's variance is 0; the interval is exact (and wide) instead: min(n₁, n₂) disjoint pairs are all in order, so
    AUROC ≥ (α/2)^(1/min(n₁, n₂)). O(n log n).

    References
    ----------
    .. [1] DeLong, DeLong and Clarke-Pearson (1988), "Comparing the Areas under Two or More Correlated Receiver
       Operating Characteristic Curves", Biometrics.
    .. [2] Hendrycks and Gimpel (2017), "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in
       Neural Networks", ICLR.

    Examples
    --------
    >>> found = ood_detection([0.1, 0.2, 0.3, 0.4], [0.35, 0.6, 0.7, 0.8], by="score", rng=0)
    >>> found.auroc.value, found.fpr95.value, found.threshold
    (0.9375, 0.25, 0.4)
    """
    caller = "ood_detection"
    check_share(level, "level", caller)
    check_count(n_resamples, "n_resamples", caller)
    generator = check_rng(rng, caller)
    inside, outside = (_scores(v, name, by, space, caller) for v, name in ((known, "known"), (foreign, "foreign")))
    inside, outside = np.sort(inside), np.sort(outside)
    at = int(np.ceil(0.95 * len(inside) - 1e-9)) - 1
    threshold = float(inside[at])
    fpr = float(np.searchsorted(outside, threshold, side="right") / len(outside))
    draws = np.empty(n_resamples)
    for i in range(n_resamples):
        cut = np.sort(generator.integers(0, len(inside), len(inside)))[at]
        share = np.searchsorted(outside, inside[cut], side="right") / len(outside)
        draws[i] = generator.binomial(len(outside), share) / len(outside)
    edges = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2]) if n_resamples else (np.nan, np.nan)
    n = len(inside) + len(outside)
    return OodDetection(
        _delong(inside, outside, level),
        Interval(fpr, float(edges[0]), float(edges[1]), level, "percentile", n),
        threshold,
        len(inside),
        len(outside),
    )


def _delong(inside: Floats, outside: Floats, level: float) -> Interval:
    """AUROC of sorted scores with the logit interval of [1], or the exact one where nothing varies."""
    from scipy.special import expit, logit, ndtri

    def share_below(these: Floats, others: Floats) -> Floats:
        left, right = (np.searchsorted(others, these, side=side) for side in ("left", "right"))
        return np.asarray((left + right) / (2 * len(others)))  # ties count half

    seen_outside, seen_inside = share_below(outside, inside), 1 - share_below(inside, outside)
    area = float(seen_outside.mean())
    n = len(inside) + len(outside)
    if area in (0.0, 1.0):
        # perfect separation puts min(n₁, n₂) disjoint pairs in order: at most AUROC^min of the samples do so
        edge = float(((1 - level) / 2) ** (1 / min(len(inside), len(outside))))
        low, high = (edge, 1.0) if area else (0.0, 1.0 - edge)
        return Interval(area, low, high, level, "exact", n)
    parts = [x.var(ddof=1) / len(x) for x in (seen_outside, seen_inside) if len(x) > 1]
    spread = float(np.sqrt(sum(parts))) / (area * (1 - area))  # of logit AUROC, by the delta method
    half = float(ndtri(0.5 + level / 2)) * spread
    low, high = (float(expit(logit(area) + side * half)) for side in (-1, 1))
    return Interval(area, low, high, level, "DeLong, logit", n)
