"""Intervals, offered only where simulation shows that they cover.

Mean scores: normal theory with Hall's correction for skewness. Calibration errors: the estimate is a norm of
cell means plus Gaussian noise, and the two ends are found separately, so that they hold near zero too, where
the bootstrap fails. The simulated coverage is in the documentation (``calibrant study coverage``).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Space
from calibrant.core.declare import Measure, Recipe, lookup
from calibrant.core.edges import width_index
from calibrant.core.inputs import Forecast, check_forecast, check_names, check_pairs, check_rng, to_array
from calibrant.core.results import Interval
from calibrant.core.shares import normal_quantile, wilson
from calibrant.core.tables import Pairs
from calibrant.errors import CoverageWarning, input_error
from calibrant.estimators import Binned, Cumulative, Kernel, check_counts
from calibrant.inference.gaussian import CellSums, cell_sums, draw_noise
from calibrant.inference.means import bca_ends, mean_ends, mean_moments
from calibrant.metrics.recipes import CalibrationError, MeanScore
from calibrant.views import Classwise, Pooled

METHODS = ("auto", "normal", "hall", "bca", "percentile", "gaussian", "wilson")
#: Cells of the cumulative process; more change nothing visible.
_PROCESS_CELLS = 400
#: Cells of a kernel norm, whose matrix grows with their square.
_KERNEL_CELLS = 150
_DRAWS = 2000


def interval(
    name: str,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    level: float = 0.95,
    method: str = "auto",
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
    pairs: bool = False,
    rng: RNG = None,
    **params: Any,
) -> Interval:
    """Return an interval for a measure; ``method="auto"`` gives only intervals whose coverage is verified.

    The truth it covers is the same functional of the population: for a binned error the binned one with these
    edges. Where no interval covers, ``"auto"`` raises and names the alternative; ``"percentile"`` is always
    there and warns.

    Parameters
    ----------
    name : str
        Short name of a measure, e.g. ``"brier"``.
    y_true, y_proba, sample_weight, classes, space, normalize, pairs
        As in `calibrant.evaluate`.
    level : float, default 0.95
        Nominal coverage.
    method : {"auto", "normal", "hall", "bca", "percentile", "gaussian", "wilson"}
        Normal theory, its skewness-corrected form, bootstraps of rows, or the Gaussian cell noise.
    n_resamples : int, default 1000
        Bootstrap replicates.
    groups : array-like of shape (n,), optional
        Cluster of each row; whole clusters vary together.
    rng : None, int or Generator
        Randomness.
    **params
        Parameters of the measure.

    Returns
    -------
    Interval

    Examples
    --------
    >>> found = interval("brier", [1, 0, 1, 1, 0], [0.9, 0.2, 0.7, 0.4, 0.6])
    >>> found.low < found.value < found.high
    True
    """
    check_names(method, METHODS, "method", "interval")
    if not 0 < level < 1:
        raise input_error("level", "interval", "lie between 0 and 1", repr(level), "use 0.95")
    measure = lookup(name, "interval")
    recipe = measure.build(**params)
    if pairs:
        forecast = check_pairs(y_true, y_proba, caller="interval", sample_weight=sample_weight)
    else:
        forecast = check_forecast(
            y_true,
            y_proba,
            caller="interval",
            sample_weight=sample_weight,
            classes=classes,
            space=space,
            normalize=normalize,
        )
    check_counts(forecast, "an interval")
    generator = check_rng(rng, "interval")
    if method in ("percentile", "bca") and not (method == "bca" and isinstance(recipe, MeanScore)):
        return bootstrap_interval(recipe, forecast, level, n_resamples, groups, generator, method)
    found = offered_interval(
        measure, recipe, forecast, level=level, n_resamples=n_resamples, groups=groups, rng=generator, method=method
    )
    if found is None:
        raise input_error(
            "method",
            "interval",
            f"be 'percentile' for {name}: no interval of it has verified coverage here",
            repr(method),
            "or ask for the interval of ks, ece, brier or nll, which have one",
        )
    return found


def offered_interval(
    measure: Measure,
    recipe: Recipe,
    forecast: Forecast,
    *,
    level: float,
    n_resamples: int,
    groups: ArrayLike | None,
    rng: np.random.Generator,
    method: str = "auto",
) -> Interval | None:
    """Return the verified interval of a measure, or None where there is none."""
    clusters = _clusters(groups, forecast)
    if isinstance(recipe, MeanScore):
        return _score_interval(measure, recipe, forecast, level, clusters, method, n_resamples, rng)
    if not isinstance(recipe, CalibrationError) or clusters is not None or method not in ("auto", "gaussian"):
        return None
    if forecast.n < 30 or isinstance(recipe.view, Pooled) or getattr(recipe.view, "by", None):
        return None
    value = recipe.value(forecast)
    ends = _error_ends(recipe, forecast, value, level, rng)
    if ends is None:
        return None
    low, high = (min(max(end, 0.0), _largest(recipe)) for end in ends)
    return Interval(value, min(low, value), max(high, value), level, "gaussian", forecast.n)


def _largest(recipe: CalibrationError) -> float:
    return math.inf if recipe.view.grouped else 1.0


# -- mean scores ----------------------------------------------------------------------------------


def _clusters(groups: ArrayLike | None, forecast: Forecast) -> Floats | None:
    if groups is None:
        return None
    array = to_array(groups, "groups", forecast.caller)
    if array.shape != (forecast.n,):
        raise input_error(
            "groups",
            forecast.caller,
            f"name one cluster per row ({forecast.n})",
            f"shape {array.shape}",
            "pass one column",
        )
    _, codes = np.unique(array, return_inverse=True)
    if codes.max() < 1:
        raise input_error("groups", forecast.caller, "hold at least two clusters", "one", "drop groups=")
    return np.asarray(codes)


def _score_interval(
    measure: Measure,
    recipe: MeanScore,
    forecast: Forecast,
    level: float,
    clusters: Floats | None,
    method: str,
    n_resamples: int,
    rng: np.random.Generator,
) -> Interval | None:
    rows = recipe.rows(forecast)
    if not np.isfinite(rows).all():
        return None
    n = forecast.total
    if n < 2:
        return None
    value = recipe.value(forecast)
    if method == "auto":
        method = "wilson" if measure.name == "accuracy" and clusters is None else "hall"
    if method == "wilson":
        if clusters is not None or not np.isin(rows, (0.0, 1.0)).all():
            return None
        low, high = (float(end) for end in wilson(value, n, level))
    elif method == "bca":
        low, high = bca_ends(rows, forecast.weights, clusters, level, n_resamples, rng)
    elif method in ("normal", "hall"):
        moments = mean_moments(rows, forecast.weights, clusters)
        low, high = mean_ends(moments, level, skew=method == "hall")
    else:
        return None
    if recipe.link is not None:
        floor = 0.0 if measure.range[0] >= 0 else -math.inf
        low, high = (recipe.link(max(end, floor)) for end in (low, high))
    smallest, largest = measure.range
    return Interval(value, max(low, smallest), min(high, largest), level, method, forecast.n)


def bootstrap_interval(
    recipe: Recipe,
    forecast: Forecast,
    level: float,
    n_resamples: int,
    groups: ArrayLike | None,
    rng: np.random.Generator,
    method: str,
) -> Interval:
    """Percentile bootstrap of any measure, with a warning: its coverage is not verified."""
    from calibrant.inference.bootstrap import bootstrap_values

    if method != "percentile":
        raise input_error("method", "interval", "be 'percentile' or 'auto' here", repr(method), "use 'auto'")
    warnings.warn(
        "the coverage of the percentile bootstrap is not verified for this measure; near zero it may be 0 %",
        CoverageWarning,
        stacklevel=3,
    )
    values = bootstrap_values(recipe, forecast, n_resamples, rng, _clusters(groups, forecast))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(recipe.value(forecast), float(low), float(high), level, "percentile", forecast.n)


# -- calibration errors ---------------------------------------------------------------------------


def _error_ends(
    recipe: CalibrationError, forecast: Forecast, value: float, level: float, rng: np.random.Generator
) -> tuple[float, float] | None:
    estimator = recipe.estimator
    if isinstance(recipe.view, Classwise):
        return None
    pairs = recipe.view.pairs(forecast)
    if pairs.expected is not None:
        return None
    if isinstance(estimator, Cumulative):
        return _cumulative_ends(_process_cells(pairs), value, level, rng)
    if isinstance(estimator, Kernel):
        cells = _process_cells(pairs, _KERNEL_CELLS)
        scores = _cell_scores(pairs, cells, _KERNEL_CELLS)
        gram = np.exp(-np.abs(scores[:, None] - scores[None, :]) / estimator.width)
        return _norm_ends(cells, gram, value, level, rng)
    if isinstance(estimator, Binned) and estimator.convention is None and recipe.root:
        cells = cell_sums(pairs, _bin_index(pairs, estimator), estimator.n_bins)
        if recipe.norm == 1 and estimator.average == "count":
            return _absolute_ends(cells, value, level, rng)
        if recipe.norm == 2 and estimator.average == "count":
            plug_in = math.sqrt(float((cells.d**2 / cells.w).sum() / cells.total))
            return _norm_ends(cells, None, plug_in, level, rng)
    return None


def _bin_index(pairs: Pairs, estimator: Binned) -> Floats:
    if estimator.bins == "width":
        return width_index(pairs.score, estimator.n_bins)
    order = np.argsort(pairs.score, kind="stable")
    w = np.ones(len(order)) if pairs.weight is None else pairs.weight[order]
    values = pairs.score[order]
    reached = np.cumsum(w) * estimator.n_bins
    edges = values[np.searchsorted(reached, np.arange(1, estimator.n_bins) * (reached[-1] / estimator.n_bins))]
    return np.searchsorted(edges, pairs.score, side="left")


def _process_order(pairs: Pairs, most: int) -> tuple[Floats, int]:
    """Cut the rows, in score order, into cells of about equal count; equal scores stay together."""
    values, where = np.unique(pairs.score, return_inverse=True)
    counts = np.bincount(where, pairs.weight).astype(np.float64)
    middle = np.cumsum(counts) - 0.5 * counts
    m = min(len(values), most)
    cell = np.minimum((middle / counts.sum() * m).astype(np.int64), m - 1)
    return cell[where], m


def _process_cells(pairs: Pairs, most: int = _PROCESS_CELLS) -> CellSums:
    index, m = _process_order(pairs, most)
    return cell_sums(pairs, index, m)


def _cell_scores(pairs: Pairs, cells: CellSums, most: int) -> Floats:
    index, m = _process_order(pairs, most)
    weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
    sums = np.bincount(index, weight * pairs.score, m)
    return sums[np.bincount(index, weight, m) > 0] / cells.w


def _cumulative_ends(cells: CellSums, value: float, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """Ends for sup|G|.

    Low end: the noise is maximised over the contact set where |G| may reach its supremum (Fang & Santos 2019),
    in both directions where G may be zero. High end: sup|Ĝ| ≥ |Ĝ(σ₀)| at the true argmax σ₀, so one
    quantile at the noisiest candidate bounds it whatever the shape of G. A sample with few of the heavy misses makes
    |Ĝ| and its spread small together, so z becomes z + γ(1 + 2z²)/(6√n) where the skewness γ is against us (Johnson
    1978, "Modified t tests and confidence intervals for asymmetrical populations", JASA 73).
    """
    noise, _ = draw_noise(cells, _DRAWS, rng)
    path, wiggle = np.cumsum(cells.mean), np.cumsum(noise, axis=1)
    spread = wiggle.std(axis=0)
    size = np.abs(path)
    slack = 2.0 * spread.max()
    contact = size >= size.max() - slack
    signed = np.where(size > slack, np.sign(path) * wiggle, np.abs(wiggle))[:, contact]
    alpha = (1 - level) / 2
    low = value - float(np.quantile(signed.max(axis=1), 1 - alpha))
    candidates = size >= size.max() - 3.0 * spread.max()
    z = normal_quantile(1 - alpha)
    skewness = np.maximum(np.sign(path) * cells.path_skewness(), 0.0)
    steps = spread * (z + skewness * (1 + 2 * z * z) / (6 * math.sqrt(cells.total)))
    return low, value + float(steps[candidates].max())


def _absolute_ends(cells: CellSums, value: float, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """Ends for Σ|m_b|: as above, with the least bias a bin may have (folded normal) taken off the high end."""
    from scipy.special import ndtr

    noise, _ = draw_noise(cells, _DRAWS, rng)
    m, spread = cells.mean, noise.std(axis=0)
    alpha = (1 - level) / 2
    clear = np.abs(m) > 2.0 * spread
    low = value - float(np.quantile(np.where(clear, np.sign(m) * noise, np.abs(noise)).sum(axis=1), 1 - alpha))
    size = np.abs(m) + 0.5 * spread
    ratio = size / np.where(spread > 0, spread, 1.0)
    folded = spread * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2) + size * (1 - 2 * ndtr(-ratio))
    bias = float(np.where(spread > 0, folded - size, 0.0).sum())
    return low, value - bias + normal_quantile(1 - alpha) * float((np.sign(m) * noise).sum(axis=1).std())


def _largest_spread(gram: Floats, spread: Floats) -> float:
    """Return the standard deviation of the noise in its noisiest direction, by power iteration."""
    direction = np.ones(len(spread))
    size = 0.0
    for _ in range(40):
        moved = spread * (gram @ (spread * direction))
        size = float(np.linalg.norm(moved))
        if size <= 0:
            return 0.0
        direction = moved / size
    return math.sqrt(size)


def _norm_ends(
    cells: CellSums, gram: Floats | None, value: float, level: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Ends for a Hilbert norm |v|: the radii r at which |r·u + noise| exceeds, or stays below, the observed norm.

    u is the observed direction; the inversion removes the bias E|v + h| > |v| and holds at v = 0.
    """
    noise, share = draw_noise(cells, _DRAWS, rng)
    m = cells.mean
    if gram is None:  # v_b = m_b/√w_b, whose noise also has the share's
        root = np.sqrt(cells.w / cells.total)
        v = m / root
        h = noise / root - 0.5 * (m / root**3) * share
        cross, square = h @ v, (h * h).sum(axis=1)
        length = math.sqrt(float(v @ v))
    else:
        kernel_m = gram @ m
        cross, square = noise @ kernel_m, np.einsum("ij,ij->i", noise @ gram, noise)
        length = math.sqrt(max(float(m @ kernel_m), 0.0))
    along = cross / length if length > 0 else np.zeros(len(square))
    alpha = (1 - level) / 2

    def share_above(radius: float) -> float:
        return float((radius * radius + 2 * radius * along + square >= value * value).mean())

    def solve(target: float) -> float:
        if share_above(0.0) >= target:
            return 0.0
        low, high = 0.0, max(2.0 * value, 1e-12) + 10.0 * math.sqrt(float(square.mean()))
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if share_above(middle) < target else (low, middle)
        return high

    high = solve(1 - alpha)
    if gram is not None:
        # few directions carry the noise of a kernel norm, so near zero the observed one says little:
        # |v| ≤ |v̂| + |⟨u, h⟩| holds for any u, and the noisiest direction bounds it
        along_spread = float(along.std())
        top = _largest_spread(gram, noise.std(axis=0))
        spread = max(along_spread, top) if value < 4.0 * top else along_spread
        high = value + normal_quantile(1 - alpha) * spread
    return solve(alpha), high
