"""Risk against coverage: how well uncertainty orders the rows by their chance of being wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibrant._typing import RNG, Array, ArrayLike, Floats, Space
from calibrant.core.inputs import check_forecast, check_names
from calibrant.core.options import check_count, check_rng, check_share
from calibrant.core.results import Interval, Record
from calibrant.core.weights import are_counts, observations
from calibrant.errors import input_error
from calibrant.selective.uncertainty import forecast_uncertainty

#: Resamples handled together, so that memory stays at a few million numbers.
_BLOCK = 1 << 22
#: Thresholds tested by `coverage_at_risk`, and the part of delta spent on the first start.
CANDIDATES, FIRST_SHARE = 40, 0.5


@dataclass(frozen=True)
class RiskCoverageCurve(Record):
    """Error rate of the surest rows, by fraction kept; rows of equal uncertainty enter together."""

    coverage: Floats
    risk: Floats
    threshold: Floats
    aurc: float
    excess_aurc: float
    n: int

    def __str__(self) -> str:
        return (
            f"risk–coverage: error {self.risk[-1]:.4f} at full coverage, AURC {self.aurc:.4f}, "
            f"excess over the best order {self.excess_aurc:.4f}, n = {self.n}"
        )


@dataclass(frozen=True)
class SelectivePoint(Record):
    """Where to stop: the largest coverage whose risk is within the target (`bound` with a guarantee, else None)."""

    coverage: float
    threshold: float
    risk: float
    bound: float | None
    target: float
    delta: float | None
    n: int

    def __str__(self) -> str:
        if not self.coverage:
            return f"no coverage has risk ≤ {self.target:g}"
        text = f"keep uncertainty ≤ {self.threshold:.4g}: coverage {100 * self.coverage:.1f}%, risk {self.risk:.4f}"
        if self.bound is None or self.delta is None:
            return f"{text} (target {self.target:g}, on these rows)"
        return f"{text}, true risk ≤ {self.bound:.4f} with probability {1 - self.delta:g} (target {self.target:g})"


def _blocks(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    by: Any,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    space: Space,
    caller: str,
) -> tuple[Floats, Floats, Floats, Array, Floats, Array, int]:
    """Check and sort: distinct scores ascending with Σw and Σw·wrong, each row's block, weight and wrongness, and n."""
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    score = forecast_uncertainty(forecast, by, caller)
    weight = np.ones(forecast.n) if forecast.weights is None else forecast.weights
    wrong = ~forecast.hit
    if not weight.all():
        kept = weight > 0
        score, weight, wrong = score[kept], weight[kept], wrong[kept]
    values, where = np.unique(score, return_inverse=True)
    w: Floats = np.bincount(where, weight, len(values)).astype(np.float64)
    e: Floats = np.bincount(where, weight * wrong, len(values)).astype(np.float64)
    return values, w, e, where, weight, wrong, observations(forecast)


def _area(w: Floats, e: Floats) -> Floats:
    """AURC of blocks (last axis) in order: the mean risk over the first 1, 2, …, W rows, ties in random order.

    Within a block of weight w and error sum e after B rows with E errors the expected risk at j more rows is
    ē + (E − Bē)/(B + j) with ē = e/w; its sum over j = 1 … w is w·ē + (E − Bē)(ψ(B + w + 1) − ψ(B + 1)).
    """
    from scipy.special import digamma

    rows = np.cumsum(w, axis=-1)
    before = rows - w
    errors_before = np.cumsum(e, axis=-1) - e
    rate = np.divide(e, w, out=np.zeros_like(e), where=w > 0)
    step = digamma(rows + 1) - digamma(before + 1)
    return np.asarray((e + (errors_before - before * rate) * step).sum(axis=-1) / rows[..., -1])


def _best(total: Floats, errors: Floats) -> Floats:
    """AURC of the best order: all right rows first."""
    right = total - errors
    return _area(np.stack([right, errors], axis=-1), np.stack([np.zeros_like(errors), errors], axis=-1))


def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    by: str | ArrayLike = "entropy",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> RiskCoverageCurve:
    """Compute the error rate of the surest rows against the fraction of rows kept.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or logits with ``space="logit"``.
    by : {"entropy", "confidence"} or array of shape (n,), default="entropy"
        Normalized entropy, 1 − confidence, or any score that is larger for less sure rows.
    sample_weight : array-like of shape (n,), optional
        Frequencies: an integer weight equals repeated rows.
    classes, space
        As everywhere.

    Returns
    -------
    RiskCoverageCurve
        One point per distinct uncertainty, from surest to least sure, with AURC and its excess.

    Notes
    -----
    AURC = (1/n) Σ_i risk(i surest rows) [1]; rows of equal uncertainty count by their expectation over random
    order, so the row order never matters. The excess subtracts the AURC of the best order (all right rows
    first), which the error rate alone determines. O(n·K + n log n).

    References
    ----------
    .. [1] Geifman, Uziel and El-Yaniv (2019), "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers",
       ICLR, section 3.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> curve = risk_coverage_curve([0, 0, 0, 1], p)  # only the least sure row is wrong: the best order
    >>> curve.risk, curve.aurc, curve.excess_aurc
    (array([0.  , 0.  , 0.  , 0.25]), 0.0625, 0.0)
    """
    values, w, e, *_, n = _blocks(y_true, y_proba, by, sample_weight, classes, space, "risk_coverage_curve")
    total = w.sum()
    area = float(_area(w, e))
    best = float(_best(np.asarray(total), np.asarray(e.sum())))
    excess = max(area - best, 0.0) if area - best > 1e-15 else 0.0
    return RiskCoverageCurve(np.cumsum(w) / total, np.cumsum(e) / np.cumsum(w), values, area, excess, n)


def risk_coverage_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    what: Literal["aurc", "excess_aurc"] = "aurc",
    by: str | ArrayLike = "entropy",
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: RNG = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> Interval:
    """Bound the area under the risk–coverage curve by the bootstrap of rows.

    Parameters
    ----------
    y_true, y_proba, by, sample_weight, classes, space
        As in `risk_coverage_curve`; weights must be whole numbers, because rows are resampled.
    what : {"aurc", "excess_aurc"}, default="aurc"
        Which area.
    level : float, default=0.95
        Nominal coverage.
    n_resamples : int, default=1000
        Bootstrap samples.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    Interval
        Percentile interval.

    Notes
    -----
    Multinomial counts on the sorted rows; repeated rows tie and count by expectation. O(n_resamples·n).

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> p = draw.uniform(0.5, 1, 400)
    >>> y = (draw.random(400) < p).astype(int)  # calibrated, two classes
    >>> found = risk_coverage_interval(y, np.stack([1 - p, p], axis=1), rng=0)
    >>> found.low < found.value < found.high
    True
    """
    caller = "risk_coverage_interval"
    check_names(what, ("aurc", "excess_aurc"), "what", caller)
    check_share(level, "level", caller)
    check_count(n_resamples, "n_resamples", caller, 1)
    generator = check_rng(rng, caller)
    _, w, e, where, weight, wrong, total = _blocks(y_true, y_proba, by, sample_weight, classes, space, caller)
    if not are_counts(weight):
        raise input_error("sample_weight", caller, "be whole numbers", "fractions", "weights are frequencies here")

    def value(w: Floats, e: Floats) -> Floats:
        area = _area(w, e)
        return area if what == "aurc" else area - _best(w.sum(axis=-1), e.sum(axis=-1))

    # a row is its block and whether it is wrong: 2 cells per distinct uncertainty
    cells = np.bincount(2 * where + wrong, weight, 2 * len(w)) / total
    draws: list[Floats] = []
    step = max(1, _BLOCK // len(cells))
    for start in range(0, n_resamples, step):
        counts = generator.multinomial(total, cells, size=min(step, n_resamples - start)).astype(np.float64)
        wrongs = counts[:, 1::2]
        draws.append(value(counts[:, 0::2] + wrongs, wrongs))
    low, high = np.quantile(np.concatenate(draws), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value(w, e)), float(low), float(high), level, "percentile", total)


def coverage_at_risk(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    risk: float,
    delta: float | None = None,
    by: str | ArrayLike = "entropy",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> SelectivePoint:
    """Find the largest fraction of rows that can be kept at a given error rate, and the threshold for it.

    Parameters
    ----------
    y_true, y_proba, by, sample_weight, classes, space
        As in `risk_coverage_curve`.
    risk : float
        Error rate that may not be exceeded.
    delta : float, optional
        Ask for a guarantee: the true error rate of kept rows is within `risk` with probability 1 − delta.

    Returns
    -------
    SelectivePoint
        Keep rows with uncertainty ≤ `threshold`. Coverage 0 and threshold −inf when nothing qualifies.

    Notes
    -----
    Without `delta` the largest block of surest rows whose error on these rows is within the target. With it up to 40
    thresholds are tested by the exact binomial bound, from few rows to all. Three of them are starts: the fewest rows
    that could pass without an error (half of `delta`), all rows, and the geometric middle (a quarter each). A threshold
    that passes hands its share of `delta` on to the next, so a walk from any start goes on until it fails [1], [2]; all
    that passed hold together with probability 1 − delta, and the largest is returned. (The bisection of [3]
    divides `delta` by ⌈log₂ n⌉ and answers less often.)

    References
    ----------
    .. [1] Wiens (2003), "A fixed sequence Bonferroni procedure for testing multiple endpoints", Pharmaceutical
       Statistics.
    .. [2] Angelopoulos et al. (2021), "Learn then Test: Calibrating Predictive Algorithms to Achieve Risk Control".
    .. [3] Geifman and El-Yaniv (2017), "Selective Classification for Deep Neural Networks", NeurIPS, algorithm 1.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> print(coverage_at_risk([0, 0, 1, 0], p, risk=0.3, by="confidence"))
    keep uncertainty ≤ 0.4: coverage 100.0%, risk 0.2500 (target 0.3, on these rows)
    """
    caller = "coverage_at_risk"
    check_share(risk, "risk", caller, "0.05")
    if delta is not None:
        check_share(delta, "delta", caller, "0.05")
    values, w, e, _, weight, _, n = _blocks(y_true, y_proba, by, sample_weight, classes, space, caller)
    kept, errors = np.cumsum(w), np.cumsum(e)
    if delta is None:
        good = np.flatnonzero(errors <= risk * kept * (1 + 1e-12))
        best, bound = (int(good[-1]), None) if len(good) else (-1, None)
    else:
        if not are_counts(weight):
            raise input_error("sample_weight", caller, "be whole numbers", "fractions", "delta needs counts")
        best, bound = _guaranteed(kept, errors, risk, delta)
    if best < 0:
        return SelectivePoint(0.0, -np.inf, np.nan, None, risk, delta, n)
    here = float(errors[best] / kept[best])
    return SelectivePoint(float(kept[best] / kept[-1]), float(values[best]), here, bound, risk, delta, n)


def _guaranteed(kept: Floats, errors: Floats, risk: float, delta: float) -> tuple[int, float | None]:
    """Walk over thresholds from three starts; return the largest that passed and its bound.

    Which thresholds are looked at depends on the counts of rows alone, never on the errors, so the levels are fixed
    before the tests.
    """
    from scipy.special import betaincinv

    fewest = np.log(FIRST_SHARE * delta) / np.log1p(-risk)  # rows without an error that pass at the first start
    first = min(int(np.searchsorted(kept, fewest)), len(kept) - 1)
    looked = np.unique(np.linspace(first, len(kept) - 1, CANDIDATES).round().astype(int))
    rows = kept[looked]
    shares = np.zeros(len(looked))
    shares[0] += FIRST_SHARE * delta
    for goal in (np.sqrt(rows[0] * rows[-1]), rows[-1]):
        shares[int(np.searchsorted(rows, goal * (1 - 1e-9)))] += (1 - FIRST_SHARE) / 2 * delta
    best, bound, carried = -1, None, 0.0
    for place, share in zip(looked.tolist(), shares.tolist(), strict=True):
        level = carried + share  # [1]: a threshold that passed hands its level on
        carried = 0.0
        n, k = kept[place], errors[place]
        if level and k < n:
            upper = float(betaincinv(k + 1, n - k, 1 - level))  # exact binomial bound
            if upper <= risk:
                best, bound, carried = place, upper, level
    return best, bound
