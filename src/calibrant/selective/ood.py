"""Foreign data: whether uncertainty tells it apart, and rises as foreign rows are swapped in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Space
from calibrant.core.inputs import check_rng
from calibrant.core.results import Interval, Record
from calibrant.errors import input_error
from calibrant.selective.rejection import check_level
from calibrant.selective.uncertainty import check_scores, uncertainty


@dataclass(frozen=True)
class OodDetection(Record):
    """How well uncertainty separates known from foreign rows."""

    auroc: Interval
    fpr95: Interval
    threshold: float
    n_known: int
    n_foreign: int

    def __str__(self) -> str:
        return (
            f"AUROC {self.auroc.value:.4f} [{self.auroc.low:.4f}, {self.auroc.high:.4f}], FPR at 95 % TPR "
            f"{self.fpr95.value:.4f} [{self.fpr95.low:.4f}, {self.fpr95.high:.4f}] "
            f"({self.n_known} known, {self.n_foreign} foreign rows)"
        )


@dataclass(frozen=True)
class SwapIn(Record):
    """Mean uncertainty of a batch by its share of foreign rows; `low`, `high` are quantiles over repeats."""

    share: Floats
    uncertainty: Floats
    low: Floats
    high: Floats
    level: float
    batch_size: int
    repeats: int

    @property
    def rises(self) -> bool:
        """Whether the mean uncertainty rises with every tenth of foreign rows."""
        tenths = np.interp(np.arange(11) / 10, self.share, self.uncertainty)
        return bool((np.diff(tenths) > 0).all())

    def __str__(self) -> str:
        return (
            f"mean uncertainty {self.uncertainty[0]:.4f} → {self.uncertainty[-1]:.4f} as {self.batch_size} rows become "
            f"foreign ({'rises' if self.rises else 'does not rise'} throughout)"
        )


def _scores(value: ArrayLike, argument: str, by: str, space: Space, caller: str) -> Floats:
    return check_scores(value, argument, caller) if by == "score" else uncertainty(value, by=by, space=space)


def ood_detection(
    known: ArrayLike, foreign: ArrayLike, *, by: str = "entropy", space: Space = "proba", level: float = 0.95,
    n_resamples: int = 1000, rng: RNG = None,
) -> OodDetection:
    """Measure how well uncertainty tells foreign rows from known ones.

    Parameters
    ----------
    known, foreign : array-like of shape (n, K)
        Forecasts on data like the training data and on foreign data; uncertainty scores with ``by="score"``.
    by : {"entropy", "confidence", "score"}, default="entropy"
        Normalised entropy, 1 − confidence, or the values themselves (larger = less sure).
    space : {"proba", "logit"}, default="proba"
        What the forecasts hold.
    level : float, default=0.95
        Of the intervals.
    n_resamples : int, default=1000
        Bootstrap samples for the interval of FPR95.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    OodDetection
        AUROC (0.5: no help, 1: perfect) with DeLong's interval, and FPR95 with a percentile interval.

    Notes
    -----
    AUROC = P(u_foreign > u_known) + ½ P(equal). FPR95: the share of foreign rows at or below the smallest
    threshold that keeps at least 95 % of known rows. O(n log n).

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
    check_level(level, caller)
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
        threshold, len(inside), len(outside),
    )


def _delong(inside: Floats, outside: Floats, level: float) -> Interval:
    """AUROC of sorted scores with the normal interval of [1], kept in [0, 1]."""
    from scipy.special import ndtri

    def share_below(these: Floats, others: Floats) -> Floats:
        left, right = (np.searchsorted(others, these, side=side) for side in ("left", "right"))
        return np.asarray((left + right) / (2 * len(others)))  # ties count half

    seen_outside, seen_inside = share_below(outside, inside), 1 - share_below(inside, outside)
    area = float(seen_outside.mean())
    parts = [x.var(ddof=1) / len(x) for x in (seen_outside, seen_inside) if len(x) > 1]
    half = float(ndtri(0.5 + level / 2)) * float(np.sqrt(sum(parts)))
    n = len(inside) + len(outside)
    return Interval(area, max(area - half, 0.0), min(area + half, 1.0), level, "DeLong", n)


def swap_in(
    known: ArrayLike, foreign: ArrayLike, *, by: str = "entropy", space: Space = "proba", batch_size: int = 100,
    repeats: int = 20, level: float = 0.95, rng: RNG = None,
) -> SwapIn:
    """Swap foreign rows into a batch of known ones step by step and follow the mean uncertainty.

    Parameters
    ----------
    known, foreign, by, space
        As in `ood_detection`.
    batch_size : int, default=100
        Rows in the batch; the UCE paper's.
    repeats : int, default=20
        Random batches; the curve is their mean.
    level : float, default=0.95
        Of the band over repeats.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    SwapIn
        Shares 0, 1/batch_size, …, 1 and the mean uncertainty at each; `rises` says whether it does.

    Notes
    -----
    Rows are drawn without replacement (with it when a side has fewer than `batch_size`). After j swaps the mean is
    (Σ_{i≤j} u_foreign + Σ_{i>j} u_known)/batch_size. O(repeats·batch_size).

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), section 5, figure 2.

    Examples
    --------
    >>> curve = swap_in([0.1, 0.2], [0.8, 0.9], by="score", batch_size=2, repeats=1, rng=0)
    >>> curve.share, curve.uncertainty.round(2)[[0, -1]], curve.rises
    (array([0. , 0.5, 1. ]), array([0.15, 0.85]), True)
    """
    caller = "swap_in"
    check_level(level, caller)
    for name, number in (("batch_size", batch_size), ("repeats", repeats)):
        if isinstance(number, bool) or int(number) != number or number < 1:
            raise input_error(name, caller, "be a whole number of at least 1", repr(number), "use the default")
    generator = check_rng(rng, caller)
    inside, outside = (_scores(v, name, by, space, caller) for v, name in ((known, "known"), (foreign, "foreign")))

    def draw(values: Floats) -> Floats:
        short = len(values) < batch_size
        rows = [generator.choice(len(values), batch_size, replace=short) for _ in range(repeats)]
        return np.asarray(values[np.stack(rows)])

    before, after = draw(inside), draw(outside)
    zero = np.zeros((repeats, 1))
    swapped = np.concatenate([zero, np.cumsum(after - before, axis=1)], axis=1)
    means: Any = (before.sum(axis=1, keepdims=True) + swapped) / batch_size
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    share = np.arange(batch_size + 1) / batch_size
    return SwapIn(share, means.mean(axis=0), low, high, level, batch_size, repeats)
