"""Draws of the outcomes of several classes at once, where rows come in clusters or carry importance weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.clusters import FEWEST, signs
from calibrant.core.resampling import SIGN_WORK, Null, draw_labels

if TYPE_CHECKING:
    from calibrant.core.declare import Recipe
    from calibrant.core.inputs import Forecast

__all__ = ["class_draws", "replicate_class_signs"]


def class_draws(
    forecast: Forecast,
    clusters: Ints,
    size: int,
    rng: np.random.Generator,
    index: Ints | None = None,
    m: int = 1,
    factor: Floats | float = 1.0,
) -> Iterator[Floats]:
    """Yield draws of Σw·f·(1[y = k] − p_k) in the cells of every class by each law that may hold: shape (draws, K·m).

    The laws are those of `TableSigns.draws`. `index` is the cell of every row and class, `m` cells of each class in the
    order of the classes; without it a class is one cell; `factor` is f of every row and class. Many rows get fewer than
    `size` draws. Labels take the variance inside clusters as far as it is
    seen, class by class, between independent rows and clusters that move as one: then one label is drawn for a whole
    cluster, from the mean of its forecasts. So it is for a class that fewer than ten clusters have a surprise in.
    """
    from scipy.sparse import csr_matrix

    n, k, many = forecast.n, forecast.n_classes, int(clusters.max()) + 1
    index = np.tile(np.arange(k), (n, 1)) if index is None else index
    size = min(size, max(200, SIGN_WORK // (n * k)))
    weight = np.ones(n) if forecast.weights is None else forecast.weights
    factor = np.broadcast_to(weight[:, None] * factor, (n, k))
    p, rows = forecast.proba(), np.arange(n)
    residual = -p
    residual[rows, forecast.codes] += 1.0

    def sums(values: Floats, place: Ints, count: int) -> csr_matrix:
        return csr_matrix(((factor * values).ravel(), (place.ravel(), index.ravel())), (count, k * m))

    group = np.repeat(clusters, k)
    yield signs(size, many, rng) @ sums(residual, group, many)
    due = np.asarray(sums(p, group, many).sum(axis=0)).ravel()
    drawn = draw_labels(forecast, size, rng)
    own = np.stack([np.bincount(index[rows, label], factor[rows, label], k * m) for label in drawn]) - due
    inside = csr_matrix((weight, (clusters, rows)), (many, n))
    struck = (inside @ (np.abs(residual) > 0.5) > 0).sum(axis=0)
    if many == n:  # rows with weights, which may follow the outcome: a surprise that is to come may weigh the most
        yield own
        heavy, rare = float(factor.max()), np.where(p > 0.5, p - 1.0, p)
        sides = [np.asarray(sums(np.maximum(side * rare, 0.0), group, many).sum(axis=0)).ravel() for side in (1, -1)]
        up, down = (heavy * rng.poisson(side / heavy, own.shape) - side for side in sides)
        yield np.where(np.repeat(struck < FEWEST, m), up - down, own)
        return
    total, expected, moved = np.asarray(inside.sum(axis=1)), inside @ p, inside @ residual
    alone = (weight[:, None] ** 2 * p * (1.0 - p)).sum(axis=0)
    most = np.maximum((expected * (total - expected)).sum(axis=0) - alone, 1e-300)
    alike = ((moved**2).sum(axis=0) - ((weight[:, None] * residual) ** 2).sum(axis=0)) / most
    mean = expected / total
    whole = sums(p / np.maximum(mean[clusters], 1e-300), group * k + np.tile(np.arange(k), n), many * k)
    above, first = np.cumsum(mean, axis=1)[:, :-1], k * np.arange(many)
    label = np.stack([(u[:, None] > above).sum(axis=1) + first for u in rng.random((size, many))])  # one draw at a time
    chosen = csr_matrix((np.ones(label.size), label.ravel(), np.arange(size + 1) * many), (size, many * k))
    together = (chosen @ whole).toarray() - due
    for shared in (alike, np.where(struck < FEWEST, 1.0, alike)):
        part = np.repeat(np.clip(shared, 0.0, 1.0), m)
        yield np.sqrt(1.0 - part) * own + np.sqrt(part) * together


def replicate_class_signs(
    recipes: Mapping[str, Recipe],
    cells: Mapping[str, tuple[Ints, int]],
    forecast: Forecast,
    clusters: Ints,
    n_resamples: int,
    rng: np.random.Generator,
) -> dict[str, Null]:
    """Return the null distributions of class-wise binned metrics where rows come in clusters.

    `cells` holds the cell of every row and class, and the number of cells. Of the laws that may hold each metric takes
    the one that reaches farthest in one of twenty.
    """
    out = {}
    for (name, (index, m)), own in zip(cells.items(), rng.spawn(len(cells)), strict=True):
        finish = recipes[name].outcome_values(forecast)
        laws = class_draws(forecast, clusters, n_resamples, own, index, m // forecast.n_classes)
        values = [finish(np.asarray(drawn)) for drawn in laws]
        out[name] = Null(max(values, key=lambda each: float(np.quantile(each, 0.95))))
    return out
