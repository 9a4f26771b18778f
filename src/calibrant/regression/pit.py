"""The probability integral transform: its values, its histogram, its distance from uniform, and quantile errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.inputs import check_names, check_rng
from calibrant.core.results import Record, TestResult
from calibrant.errors import input_error
from calibrant.regression._inputs import check_levels
from calibrant.regression.predictions import Prediction
from calibrant.regression.rows import Rows, check_rows

__all__ = ["PitTable", "compute_pit", "pit_ks", "pit_ks_test", "pit_values", "quantile_calibration_error"]

Coverage = Literal["quantile", "interval"]


@dataclass(frozen=True)
class PitTable(Record):
    """Histogram of the PIT: bin edges, weighted share of rows in each bin, share if calibrated, and its noise."""

    edges: tuple[float, ...]
    share: tuple[float, ...]
    expected: float
    expected_std: float
    n: int

    def __str__(self) -> str:
        lines = ["PIT             share   if calibrated"]
        for low, high, share in zip(self.edges, self.edges[1:], self.share, strict=False):
            lines.append(f"({low:.3f}, {high:.3f}]  {share:.4f}  {self.expected:.4f} ± {self.expected_std:.4f}")
        return "\n".join(lines)


def pit_rows(rows: Rows, rng: np.random.Generator) -> Floats:
    """PIT of every row, by cache-sized pieces in row order (one stream of coins)."""
    width = 1 if rows.is_normal else 64
    return np.concatenate([part.pit(rows.y[piece], rng) for piece, part in rows.pieces(width)])


def ks_distance(values: Floats, weights: Floats | None) -> float:
    """Largest distance between the weighted distribution function of values in [0, 1] and the uniform one."""
    order = np.argsort(values, kind="stable")
    u = values[order]
    w = np.ones(len(u)) if weights is None else weights[order]
    upto = np.cumsum(w)
    upto /= upto[-1]
    # ties are walked one by one: at the first the lower gap, at the last the upper gap are the ones of the step
    before = np.concatenate([[0.0], upto[:-1]])
    return float(max((upto - u).max(), (u - before).max(), 0.0))


def coverage(pit: Floats, weights: Floats | None, levels: Floats, kind: str) -> Floats:
    """Observed share of truths below each quantile, or inside each central interval."""
    position = pit if kind == "quantile" else np.abs(2 * pit - 1)
    index = np.searchsorted(levels, position, side="left")  # position ≤ level
    upto = np.cumsum(np.bincount(index, weights, len(levels) + 1))
    return np.asarray(upto[:-1] / upto[-1])


def pit_values(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *, rng: RNG = None
) -> Floats:
    """Probability integral transform of each truth: where it falls in its own forecast.

    Uniform on (0, 1) if the forecasts are calibrated; piled up at both ends if they are over-confident, in the middle
    if under-confident, on one side if biased.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    rng : None, int or Generator
        Coins for samples and quantiles, whose laws have steps; normal laws need none.

    Returns
    -------
    array of shape (n,)

    References
    ----------
    [1] Gneiting, Balabdaoui & Raftery (2007), "Probabilistic forecasts, calibration and sharpness", JRSS B, section 3.

    Examples
    --------
    >>> pit_values([0.0, 1.96], [0.0, 0.0], [1.0, 1.0])
    array([0.5  , 0.975])
    """
    rows = check_rows(y_true, mean, variance, caller="pit_values")
    return pit_rows(rows, check_rng(rng, "pit_values"))


def compute_pit(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *, n_bins: int = 20,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> PitTable:
    """Histogram of the probability integral transform, with what a calibrated model would show.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    n_bins : int, default 20
        Equal-width bins (lo, hi], the first closed.
    sample_weight : array of shape (n,), optional
        Frequencies.
    rng : None, int or Generator
        Coins for samples and quantiles.

    Returns
    -------
    PitTable
        `share` per bin; `expected` = 1/n_bins with the standard deviation of a calibrated share at this n.

    Examples
    --------
    >>> compute_pit([-1.0, 1.0], [0.0, 0.0], [1.0, 1.0], n_bins=2).share
    (0.5, 0.5)
    """
    rows = check_rows(y_true, mean, variance, caller="compute_pit", sample_weight=sample_weight)
    if n_bins < 1:
        raise input_error("n_bins", "compute_pit", "be at least 1", str(n_bins), "20 is a good start")
    edges = np.arange(n_bins + 1) / n_bins
    upto = coverage(pit_rows(rows, check_rng(rng, "compute_pit")), rows.weights, edges[1:-1], "quantile")
    share = np.diff(np.concatenate([[0.0], upto, [1.0]]))
    p = 1 / n_bins
    noise = float(np.sqrt(p * (1 - p) / rows.total))
    return PitTable(tuple(edges.tolist()), tuple(share.tolist()), p, noise, rows.n)


def pit_ks(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> float:
    """Kolmogorov-Smirnov distance of the PIT from uniform.

    Probabilistic calibration; smaller is better; 0 is perfect, but about 0.87/√n is what a calibrated model shows.
    Blind to errors that cancel over rows (too wide here, too narrow there).

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    sample_weight : array of shape (n,), optional
        Frequencies.
    rng : None, int or Generator
        Coins for samples and quantiles.

    Returns
    -------
    float

    Notes
    -----
    sup_u |F̂_PIT(u) − u|, both sides of every step. O(n log n).

    References
    ----------
    [1] Gneiting, Balabdaoui & Raftery (2007), "Probabilistic forecasts, calibration and sharpness", JRSS B, section 3.

    Examples
    --------
    >>> pit_ks([0.0], [0.0], [1.0])  # PIT 0.5: the step of height 1 is 0.5 away on both sides
    0.5
    """
    rows = check_rows(y_true, mean, variance, caller="pit_ks", sample_weight=sample_weight)
    return ks_distance(pit_rows(rows, check_rng(rng, "pit_ks")), rows.weights)


def pit_ks_test(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> TestResult:
    """Test whether the PIT is uniform (exact Kolmogorov-Smirnov test).

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    sample_weight : array of shape (n,), optional
        Whole numbers: repetitions of rows, which are then counted as independent.
    rng : None, int or Generator
        Coins for samples and quantiles.

    Returns
    -------
    TestResult
        `statistic` is the distance of `pit_ks`.

    Examples
    --------
    >>> pit_ks_test([0.0], [0.0], [1.0]).pvalue
    1.0
    """
    from scipy.stats import kstwo

    caller = "pit_ks_test"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight, counts=True)
    distance = ks_distance(pit_rows(rows, check_rng(rng, caller)), rows.weights)
    n = round(rows.total)
    return TestResult(distance, float(kstwo.sf(distance, n)), "pit-ks", n)


def check_power(norm: float, caller: str) -> float:
    """Return an exponent p ≥ 1 (inf allowed)."""
    if not norm >= 1:
        raise input_error("norm", caller, "be at least 1", f"{norm}", "1, 2 or inf")
    return float(norm)


def quantile_gap(observed: Floats, levels: Floats, norm: float) -> Floats:
    """Distance of observed coverage (…, levels) from the levels: root mean p-th power over levels."""
    gap = np.abs(observed - levels)
    if np.isinf(norm):
        return np.asarray(gap.max(axis=-1))
    return np.asarray((gap**norm).mean(axis=-1) ** (1 / norm))


def quantile_calibration_error(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    levels: int | ArrayLike = 99, kind: Coverage = "quantile", norm: float = 1, sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> float:
    """How far the share of truths below the predicted quantiles is from their levels.

    Quantile (marginal) calibration; smaller is better; 0 is perfect. Like every marginal error it is blind to errors
    that cancel over rows, and not 0 at finite n: a calibrated model shows about 0.31/√n.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    levels : int or increasing levels in (0, 1), default 99
        A whole number m means j/(m + 1).
    kind : {"quantile", "interval"}
        Shares below each quantile, or inside each central interval of that probability (blind to bias).
    norm : float, default 1
        1 mean absolute, 2 root mean square, inf largest gap.
    sample_weight : array of shape (n,), optional
        Frequencies.
    rng : None, int or Generator
        Coins for samples and quantiles.

    Returns
    -------
    float

    Notes
    -----
    (mean_j |p̂_j − p_j|^p)^{1/p} with p̂_j = share of rows whose PIT is at most p_j. [1] sums squares over levels; the
    mean makes the value independent of their number. O(n log levels).

    References
    ----------
    [1] Kuleshov, Fenner & Ermon (2018), "Accurate Uncertainties for Deep Learning Using Calibrated Regression",
        ICML, calibration error of the diagnostic tools.

    Examples
    --------
    >>> quantile_calibration_error([-1.0, 3.0], [0.0, 0.0], [1.0, 1.0], levels=[0.5])
    0.0
    """
    caller = "quantile_calibration_error"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    wanted = check_levels(levels, caller)
    check_names(kind, ("quantile", "interval"), "kind", caller)
    observed = coverage(pit_rows(rows, check_rng(rng, caller)), rows.weights, wanted, kind)
    return float(quantile_gap(observed, wanted, check_power(norm, caller)))  # [1] calibration error
