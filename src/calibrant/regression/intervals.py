"""Intervals for mean scores and for their paired differences: normal theory, BCa bootstrap, clusters of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.inputs import check_names, check_rng, to_array
from calibrant.core.results import Difference, Interval, Record
from calibrant.errors import CoverageWarning, input_error
from calibrant.regression._inputs import check_share
from calibrant.regression.predictions import Prediction
from calibrant.regression.rows import Rows, check_rows
from calibrant.regression.scores import crps_rows, dss_rows, nll_rows

__all__ = ["ROW_SCORES", "Comparison", "compare", "interval", "mean_interval"]

Method = Literal["auto", "normal", "bca"]
Forecast = Prediction | tuple[ArrayLike, ArrayLike]

#: Measures that are means over rows, so that honest intervals exist: name -> value per row.
ROW_SCORES: dict[str, Callable[[Rows], Floats]] = {
    "mse": lambda rows: rows.squared_error,
    "dss": dss_rows,
    "nll": nll_rows,
    "crps": crps_rows,
    "ratio": lambda rows: rows.ratio,
    "bias": lambda rows: (rows.y - rows.mean) / np.sqrt(rows.variance),
}
#: Share of the variance one unit may have before an interval is withheld, and from how many units on this is asked.
DOMINANCE = 0.2
DOMINANCE_ROWS = 30
#: Those that are proper scores, for comparisons.
PROPER = ("dss", "nll", "crps", "mse")


def cluster(values: Floats, weights: Floats | None, groups: ArrayLike | None, caller: str) -> tuple[Floats, Floats]:
    """Return weighted sums and weights of independent units: rows (repeated by weight), or clusters."""
    if groups is None:
        return (values, np.ones(len(values))) if weights is None else (values, weights)
    labels = to_array(groups, "groups", caller)
    if labels.shape != values.shape:
        raise input_error(
            "groups", caller, f"have one label per row, shape {values.shape}", f"shape {labels.shape}", "pass a column"
        )
    index = np.unique(labels, return_inverse=True)[1]
    w = np.ones(len(values)) if weights is None else weights
    mass = np.bincount(index, w).astype(np.float64)
    sums = np.bincount(index, w * values)
    used = mass > 0
    return sums[used] / mass[used], mass[used]


def standard_error(
    values: Floats, weights: Floats | None, groups: ArrayLike | None, caller: str
) -> tuple[float, float]:
    """Weighted mean and its standard error; weights repeat rows, clusters are the units of chance."""
    unit, mass = cluster(values, weights, groups, caller)
    total = float(mass.sum())
    average = float(mass @ unit) / total
    if groups is None:
        spread = float(mass @ (unit - average) ** 2)
        return average, float(np.sqrt(spread / total / max(total - 1, 1)))
    units = len(unit)
    spread = float(((mass * (unit - average)) ** 2).sum())
    return average, float(np.sqrt(spread * units / max(units - 1, 1))) / total


def is_dominated(values: Floats, weights: Floats | None, groups: ArrayLike | None, caller: str) -> bool:
    """Whether one row (or cluster) makes more than a fifth of the variance, so that no interval can be trusted."""
    unit, mass = cluster(values, weights, groups, caller)
    average = float(mass @ unit) / float(mass.sum())
    pull = (unit - average) ** 2 * (mass if groups is None else mass**2)
    return len(unit) > DOMINANCE_ROWS and float(((unit - average) ** 2).max()) > DOMINANCE * float(pull.sum())


def bca_bounds(
    values: Floats, weights: Floats | None, groups: ArrayLike | None, level: float, n_resamples: int,
    rng: np.random.Generator, caller: str,
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap bounds of a weighted mean (Efron 1987)."""
    unit, mass = cluster(values, weights, groups, caller)
    if groups is None and weights is not None:
        unit, mass = np.repeat(unit, mass.astype(np.int64)), np.ones(int(mass.sum()))
    weighted, n = mass * unit, len(unit)
    draws = np.empty(n_resamples)
    for b in range(n_resamples):
        pick = rng.integers(0, n, n)
        draws[b] = weighted[pick].sum() / mass[pick].sum()
    average = weighted.sum() / mass.sum()
    below = np.clip((draws < average).mean() + 0.5 * (draws == average).mean(), 1e-6, 1 - 1e-6)
    bias = float(ndtri(below))
    pull = mass * (unit - average)  # influence of each unit on a ratio of sums
    scale = float((pull**2).sum()) ** 1.5
    acceleration = float((pull**3).sum()) / (6 * scale) if scale > 0 else 0.0
    ends = ndtri(np.array([(1 - level) / 2, (1 + level) / 2])) + bias
    share = ndtr(bias + ends / (1 - acceleration * ends))
    low, high = np.quantile(draws, share)
    return float(low), float(high)


def mean_interval(
    values: Floats, weights: Floats | None, *, level: float, method: str, groups: ArrayLike | None, n_resamples: int,
    rng: np.random.Generator, caller: str,
) -> Interval:
    """Interval for a weighted mean of row values."""
    average, error = standard_error(values, weights, groups, caller)
    n = len(values) if weights is None else round(float(weights.sum()))
    if method == "bca":
        low, high = bca_bounds(values, weights, groups, level, n_resamples, rng, caller)
        return Interval(average, low, high, level, "bca", n)
    reach = float(ndtri((1 + level) / 2)) * error
    return Interval(average, average - reach, average + reach, level, "normal", n)


def interval(
    measure: str, y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    level: float = 0.95, method: Method = "auto", n_resamples: int = 1000, groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> Interval:
    """Interval for a mean score of normal, sample or quantile forecasts.

    Parameters
    ----------
    measure : {"mse", "dss", "nll", "crps", "ratio", "bias"}
        A mean over rows; for calibration errors (`ence`, `pit_ks` …) no interval is offered, because none keeps its
        level near 0.
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    level : float, default 0.95
    method : {"auto", "normal", "bca"}
        "auto" is normal theory; "bca" the bias-corrected and accelerated bootstrap, for skewed scores at small n.
    n_resamples : int, default 1000
        For "bca".
    groups : array of shape (n,), optional
        Clusters of rows that belong together.
    sample_weight : array of shape (n,), optional
        Whole numbers: repetitions of rows.
    rng : None, int or Generator

    Returns
    -------
    Interval

    Warns
    -----
    CoverageWarning
        One row makes more than a fifth of the variance of the score.

    Examples
    --------
    >>> interval("dss", [0.0, 1.0, -1.0], [0.0] * 3, [1.0] * 3).value
    0.6667
    """
    check_names(measure, tuple(ROW_SCORES), "measure", "interval")
    check_names(method, ("auto", "normal", "bca"), "method", "interval")
    rows = check_rows(y_true, mean, variance, caller="interval", sample_weight=sample_weight, counts=True)
    values = ROW_SCORES[measure](rows)
    if is_dominated(values, rows.weights, groups, "interval"):
        warnings.warn(
            f"one row decides the {measure}; no interval keeps its level here", CoverageWarning, stacklevel=2
        )
    return mean_interval(
        values, rows.weights, level=check_share(level, "level", "interval"), method=method,
        groups=groups, n_resamples=n_resamples, rng=check_rng(rng, "interval"), caller="interval",
    )


@dataclass(frozen=True)
class Comparison(Record):
    """Before against after on the same rows; ``comparison["dss"]`` is one `Difference`."""

    results: tuple[Difference, ...]
    n: int

    def __getitem__(self, name: str) -> Difference:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"{name!r} is not in this comparison; it has {', '.join(r.name for r in self.results)}")

    def __str__(self) -> str:
        return "\n".join(str(result) for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1, "n": self.n,
            "measures": {
                r.name: {
                    "before": r.before, "after": r.after, "change": r.change,
                    "low": None if r.interval is None else r.interval.low,
                    "high": None if r.interval is None else r.interval.high,
                    "pvalue": r.pvalue, "exact": r.exact,
                }
                for r in self.results
            },
        }


def compare(
    y_true: ArrayLike, before: Forecast, after: Forecast, *, injective: bool = False, level: float = 0.95,
    method: Method = "auto", n_resamples: int = 1000, groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> Comparison:
    """Compare two forecasts of the same rows by proper scores, paired.

    Parameters
    ----------
    y_true : array of shape (n,)
    before, after : pair (mean, variance), or `Normal`, `Samples` or `Quantiles`
        ``change = before − after``, so positive means improved.
    injective : bool, default False
        Whether `after` is an injective map of `before` (a calibrator's ``injective``): the change of a proper score is
        then exactly that of its calibration error.
    level, method, n_resamples, groups, sample_weight, rng
        As in `interval`.

    Returns
    -------
    Comparison
        "dss", "nll", "crps" and "mse" with paired interval and two-sided p-value of normal theory.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, proposition 4.5.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=400)
    >>> zero, one = np.zeros(400), np.ones(400)
    >>> print(compare(y, (zero, 0.1 * one), (zero, one), injective=True)["dss"])
    dss 7.613 -> 0.9916: improved by 6.622 [5.289, 7.954], p < 0.001 (equals the change of its calibration error)
    """
    check_names(method, ("auto", "normal", "bca"), "method", "compare")
    share = check_share(level, "level", "compare")
    generator = check_rng(rng, "compare")
    pair = []
    for forecast in (before, after):
        mean, variance = forecast if isinstance(forecast, tuple | list) else (forecast, None)
        pair.append(check_rows(y_true, mean, variance, caller="compare", sample_weight=sample_weight, counts=True))
    results = []
    for name in PROPER:
        old, new = (ROW_SCORES[name](rows) for rows in pair)
        gain = mean_interval(
            old - new, pair[0].weights, level=share, method=method, groups=groups, n_resamples=n_resamples,
            rng=generator, caller="compare",
        )
        error = standard_error(old - new, pair[0].weights, groups, "compare")[1]
        pvalue = float(2 * ndtr(-abs(gain.value) / error)) if error > 0 else float(gain.value == 0)
        results.append(
            Difference(name, pair[0].average(old), pair[1].average(new), gain.value, gain, pvalue, injective)
        )
    return Comparison(tuple(results), pair[0].n)
