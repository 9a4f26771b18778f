"""Bootstrap of rows for any metric, through tables where the metric allows it."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.declare import Recipe
from calibrant.core.inputs import Forecast
from calibrant.core.tables import Bins, width_index
from calibrant.views import View


def bootstrap_values(
    recipe: Recipe, forecast: Forecast, n_resamples: int, rng: np.random.Generator, clusters: Ints | None = None
) -> Floats:
    """Return replicates of a metric over resampled rows (or whole clusters)."""
    view = recipe.resampled_view()
    if clusters is None and forecast.weights is None and view is not None:
        m = recipe.estimator.width_bins  # type: ignore[attr-defined]  # what has a view has an estimator
        if m is not None:
            return _binned_replicates(recipe, view, m, forecast, n_resamples, rng)
    values = np.empty(n_resamples)
    for b in range(n_resamples):
        if clusters is None:
            weight = None if forecast.weights is None else forecast.weights / forecast.total
            rows = rng.choice(forecast.n, size=forecast.n, p=weight)
        else:
            drawn = np.bincount(rng.integers(0, clusters.max() + 1, clusters.max() + 1), minlength=clusters.max() + 1)
            rows = np.repeat(np.arange(forecast.n), drawn[clusters])
        part = forecast.take(rows)
        if clusters is None:
            part.weights = None
        values[b] = recipe.value(part)
    return values


def _binned_replicates(
    recipe: Recipe, view: View, m: int, forecast: Forecast, n_resamples: int, rng: np.random.Generator
) -> Floats:
    """Resample counts of (bin, outcome) cells; the sum of scores varies with them by its mean and variance."""
    pairs = view.pairs(forecast)
    score = pairs.score.astype(np.float64)
    joint = 2 * width_index(pairs.score, m) + pairs.outcome
    n = np.bincount(joint, minlength=2 * m).astype(np.float64)
    safe = np.where(n > 0, n, 1.0)
    mean = np.bincount(joint, score, 2 * m) / safe
    variance = np.maximum(np.bincount(joint, score**2, 2 * m) / safe - mean**2, 0.0)
    counts = rng.multinomial(forecast.n, n / n.sum(), size=n_resamples).astype(np.float64)
    sums = counts * mean + np.sqrt(counts * variance) * rng.standard_normal(counts.shape)
    counts, sums = (a.reshape(n_resamples, 1, m, 2) for a in (counts, sums))
    bins = Bins(counts.sum(axis=-1), sums.sum(axis=-1), counts[..., 1])
    return np.asarray(recipe.finish(bins))
