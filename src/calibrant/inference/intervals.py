"""Intervals, offered only where simulation shows that they cover.

Mean scores: normal theory with Hall's correction for skewness. Calibration errors: the estimate is a norm of
cell means m_c = E[(t − s)·1(cell c)] plus Gaussian noise, whose draws cost two normals per cell instead of a bootstrap
of rows; the two ends are found separately, so that they hold near zero too, where the bootstrap fails. The
simulated coverage is in the documentation (``calibrant study coverage`` of calibrant-papers).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.core.clusters import few_clusters
from calibrant.core.declare import Metric, Recipe, lookup
from calibrant.core.inputs import Forecast, check_clusters, check_forecast, check_groups, check_names
from calibrant.core.moments import (
    FEW_EVENTS,
    Moments,
    NullMoments,
    clopper_pearson,
    event_ends,
    garwood,
    mean_ends,
    normal_quantile,
    wilson,
)
from calibrant.core.options import check_count, check_rng, check_share, check_type
from calibrant.core.results import Interval
from calibrant.core.tables import Pairs
from calibrant.core.weights import WeightKind, observations
from calibrant.errors import CoverageWarning, input_error
from calibrant.estimators import Noise
from calibrant.evidence import Evidence
from calibrant.inference.bootstrap import bootstrap_values
from calibrant.inference.facts import judged_name
from calibrant.inference.means import bca_ends
from calibrant.inference.noise import CellSums, cell_sums, draw_noise
from calibrant.inference.null import null_distribution

METHODS = ("auto", "normal", "hall", "bca", "percentile", "gaussian", "wilson")
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
    weight_kind: WeightKind | None = None,
    rng: RNG = None,
    **params: Any,
) -> Interval:
    """Return an interval for a metric; ``method="auto"`` gives only intervals whose coverage is verified.

    The truth it covers is the same functional of the population: for a binned error the binned one with these
    edges. Where no interval covers, ``"auto"`` raises and names the alternative; ``"percentile"`` is always
    there and warns.

    Parameters
    ----------
    name : str
        Short name of a metric, e.g. ``"brier"``; without a view (``"ks@class-2"``) an error is that of the verdict's:
        class 1 of two classes, else the top label.
    y_true, y_proba, sample_weight, classes, space, normalize, pairs, weight_kind
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
        Parameters of the metric.

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
    check_share(level, "level", "interval")
    short, _, view = check_type(name, str, "name", "interval", "be the name of a metric", "use 'ks'").partition("@")
    metric = lookup(short, "interval", "classes")
    named: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes, "space": space}
    forecast = check_forecast(y_true, y_proba, caller="interval", normalize=normalize, pairs=pairs, **named)
    forecast = forecast.read_weights(weight_kind)
    if view and "view" in params:
        raise input_error("view", "interval", f"be left out beside {name}", repr(params["view"]), "name one view")
    if "view" not in params:
        name = judged_name(forecast, name)
        params |= {"view": chosen} if (chosen := name.partition("@")[2]) else {}
    recipe = metric.build(caller="interval", **params)
    if groups is None and method not in ("auto", "hall", "normal"):
        forecast.need_counts("an interval")
    groups = check_clusters(groups, forecast)
    rng = check_rng(rng, "interval")
    check_count(n_resamples, "n_resamples", "interval", 1)
    if method in ("percentile", "bca") and not (method == "bca" and recipe.is_mean):
        return bootstrap_interval(recipe, forecast, level, n_resamples, groups, rng, method)
    pvalue = None
    if method == "auto" and not recipe.is_mean and n_resamples > 0:
        null = null_distribution({name: recipe}, forecast, n_resamples, rng, groups)
        pvalue = null[name].pvalue(forecast.value(recipe)) if name in null else None
    how: dict[str, Any] = {"level": level, "groups": groups, "method": method, "pvalue": pvalue}
    found = offered_interval(metric, recipe, forecast, n_resamples=n_resamples, rng=rng, **how)
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
    metric: Metric,
    recipe: Recipe,
    evidence: Evidence,
    *,
    level: float,
    groups: ArrayLike | None = None,
    rng: np.random.Generator,
    method: str = "auto",
    n_resamples: int = 1000,
    pvalue: float | None = None,
) -> Interval | None:
    """Return the verified interval of a metric, or None where there is none.

    `pvalue` is that of the metric's own resampling test: the interval of a calibration error begins at 0 unless the
    test rejects, because the spread of a sample without events knows nothing of the events it missed.
    """
    if recipe.is_mean:
        return _score_interval(metric, recipe, evidence, level, groups, method, n_resamples, rng)
    view = recipe.resampled_view()
    if view is None or not view.has_interval or evidence.total < 30 or method not in ("auto", "gaussian"):
        return None
    clusters = check_groups(groups, evidence)
    if few_clusters(clusters):
        return None
    value = evidence.value(recipe)
    ends = _error_ends(recipe, evidence.pairs_of(view), clusters, value, level, rng)  # type: ignore[attr-defined]  # a view
    if ends is None:
        return None
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    if pvalue is not None and pvalue >= 1.0 - level:
        low = 0.0
    return Interval(value, min(low, value), max(high, value), level, "gaussian", observations(evidence))


# -- mean scores ----------------------------------------------------------------------------------


def _score_interval(
    metric: Metric,
    recipe: Any,
    evidence: Evidence,
    level: float,
    groups: ArrayLike | None,
    method: str,
    n_resamples: int,
    rng: np.random.Generator,
) -> Interval | None:
    moments = evidence.moments(recipe, groups)
    if moments is None:
        return None
    value = evidence.value(recipe)
    fraction = metric.name == "accuracy" and groups is None
    exact = None
    if method == "auto":
        null = None if groups is not None or fraction else evidence.null_moments(recipe)
        exact = None if null is None else event_ends(moments, null, level)
        if exact is not None and null is not None and evidence.task == "regression":
            exact = _heavy_ends(moments, null, exact, level)
        method = "wilson" if fraction else "hall" if exact is None else "garwood"
    if method == "wilson":
        if not fraction:
            return None
        low, high = fraction_ends(value, evidence.total, level)
    elif exact is not None:
        low, high = exact
    elif method == "bca":
        rows, clusters = recipe.rows(evidence), check_groups(groups, evidence)
        low, high = bca_ends(rows, evidence.weights, clusters, level, n_resamples, rng)  # type: ignore[attr-defined]
    elif method in ("normal", "hall"):
        low, high = mean_ends(moments, level, skew=method == "hall")
    else:
        return None
    if recipe.link is not None:
        floor = 0.0 if metric.range[0] >= 0 else -math.inf
        low, high = (recipe.link(max(end, floor)) for end in (low, high))
    smallest, largest = metric.range
    return Interval(value, max(low, smallest), min(high, largest), level, method, observations(evidence))


def _heavy_ends(
    moments: Moments, null: NullMoments, counted: tuple[float, float], level: float
) -> tuple[float, float] | None:
    """Return the wider ends of two laws: few large variances decide a mean like few events, but squares are no counts.

    None where the forecast's own law is refuted: wrong variances say nothing of the mean.
    """
    if null.pvalue() < 1.0 - level:
        return None
    low, high = mean_ends(moments, level)
    return min(low, counted[0]), max(high, counted[1])


def fraction_ends(share: float, n: float, level: float) -> tuple[float, float]:
    """Return the interval of a fraction: Wilson's, the exact one where few rows are on one side."""
    if n * min(share, 1.0 - share) < FEW_EVENTS:
        return clopper_pearson(share * n, n, level)
    low, high = wilson(share, n, level)
    return float(low), float(high)


def bootstrap_interval(
    recipe: Recipe,
    forecast: Forecast,
    level: float,
    n_resamples: int,
    groups: ArrayLike | None,
    rng: np.random.Generator,
    method: str,
) -> Interval:
    """Percentile bootstrap of any metric, with a warning: its coverage is not verified."""
    if method != "percentile":
        raise input_error("method", "interval", "be 'percentile' or 'auto' here", repr(method), "use 'auto'")
    warnings.warn(
        "the coverage of the percentile bootstrap is not verified for this metric; near zero it may be 0%",
        CoverageWarning,
        stacklevel=3,
    )
    values = bootstrap_values(recipe, forecast, n_resamples, rng, check_groups(groups, forecast))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(recipe.value(forecast), float(low), float(high), level, "percentile", forecast.n)


# -- calibration errors ---------------------------------------------------------------------------


def _error_ends(
    recipe: Any, pairs: Pairs, clusters: Ints | None, value: float, level: float, rng: np.random.Generator
) -> tuple[float, float] | None:
    estimator = recipe.estimator
    kind = estimator.noise(recipe.norm, recipe.root)
    if kind is None:
        return None
    index, m = estimator.noise_cells(pairs)
    cells = cell_sums(pairs, index, m, clusters)
    weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
    if kind is Noise.PATH:
        low, high = _cumulative_ends(cells, value, level, rng)
    elif kind is Noise.ABSOLUTE:
        low, high = _absolute_ends(cells, value, level, rng)
    elif kind is Noise.SQUARE:
        plug_in = math.sqrt(float((cells.d**2 / cells.w).sum() / cells.total))
        low, high = _norm_ends(cells, None, plug_in, level, rng)
    else:
        sums, filled = np.bincount(index, weight * pairs.score, m), np.bincount(index, weight, m) > 0
        low, high = _norm_ends(cells, estimator.gram(sums[filled] / cells.w), value, level, rng)
    missed = _missed_events(pairs, weight, index, m, clusters, level, square=kind is Noise.SQUARE)
    if missed > 0:
        low, high = min(low, value - missed), max(high, value + missed)
    return low, high


def _missed_events(
    pairs: Pairs, weight: Floats, index: Ints, m: int, clusters: Ints | None, level: float, *, square: bool
) -> float:
    """Return how much an error may change through events that this sample missed; 0 where there are enough events.

    Events are the rarest of hits, misses and surprises (outcomes against the likelier side: a forecast that is sure of
    both classes has many hits and misses). In clusters one event is all that a cluster shows of it, or a whole cluster
    where none does. If e came, up to U(e) may have been due (`garwood`); each of the U − e missed ones moves the cell
    means by its share of the rows, and no error of the path, of bins or in a kernel space by more. The square norm
    divides by the rows of a bin; there the missed events are placed where events are predicted and were seen.
    """
    total = float(weight.sum())
    hit, score = pairs.outcome.astype(bool), pairs.score.astype(np.float64)
    kinds = [hit, ~hit, hit != (score > 0.5)]
    counts = [float(np.count_nonzero(kind) if pairs.weight is None else weight @ kind) for kind in kinds]
    which = int(np.argmin(counts))
    rare, events, size = kinds[which], counts[which], 1.0
    if clusters is not None:
        struck = len(np.unique(clusters[rare & (weight > 0)]))
        size = events / struck if struck else total / (float(clusters.max()) + 1.0)
        events = float(struck) if 2 * struck <= clusters.max() + 1 else FEW_EVENTS
    if events >= FEW_EVENTS:
        return 0.0
    missed = (garwood(events, level)[1] - events) * size / total
    if not square:
        return missed
    due = (score, 1.0 - score, np.minimum(score, 1.0 - score))[which]
    expected = weight * (due + rare)
    rows = np.bincount(index, weight, m)
    share = np.bincount(index, expected, m) / max(float(expected.sum()), 1e-300)
    filled = rows > 0
    return missed * math.sqrt(float((share[filled] ** 2 / (rows[filled] / total)).sum()))


def _cumulative_ends(cells: CellSums, value: float, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """Ends for sup|G|.

    Low end: the noise is maximized over the contact set where |G| may reach its supremum (Fang & Santos 2019),
    in both directions where G may be zero. High end: sup|Ĝ| ≥ |Ĝ(σ₀)| at the true argmax σ₀, so one
    quantile at the noisiest candidate bounds it whatever the shape of G. A sample with few of the heavy misses makes
    |Ĝ| and its spread small together, so z becomes z + γ(1 + 2z²)/(6√n) where the skewness γ is against us (Johnson
    1978, "Modified t tests and confidence intervals for asymmetrical populations", JASA 73).
    """
    noise, _ = draw_noise(cells, _DRAWS, rng)
    path, wiggle = np.cumsum(cells.mean), np.cumsum(noise, axis=1, out=noise)
    spread = wiggle.std(axis=0)
    size = np.abs(path)
    slack = 2.0 * spread.max()
    contact = size >= size.max() - slack
    near = wiggle[:, contact]
    signed = np.where(size[contact] > slack, np.sign(path[contact]) * near, np.abs(near))
    alpha = (1 - level) / 2
    low = value - float(np.quantile(signed.max(axis=1), 1 - alpha))
    z = normal_quantile(1 - alpha)
    skewness = np.maximum(np.sign(path) * cells.path_skewness(), 0.0)
    steps = spread * (z + skewness * (1 + 2 * z * z) / (6 * math.sqrt(cells.total)))
    return low, value + float(steps[size >= size.max() - 3.0 * spread.max()].max())  # any candidate


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
