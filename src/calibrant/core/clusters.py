"""Rows that vary together: signs of whole clusters in place of draws of labels, and the error of a clustered mean.

Under calibration the residual t − s of a cluster has mean zero whatever the dependence inside it. So the sign of every
cluster's residuals is drawn instead of every label [1]: with d_i = t_i − e_i and a sign ξ_g for each cluster, the
outcomes e_i + ξ_g(i)·d_i have the mean the forecast expects and the dependence that was observed. The residuals are
not centered first: the draws are those of the null hypothesis.

References
----------
[1] Cameron, Gelbach & Miller (2008), Bootstrap-based improvements for inference with clustered errors, The Review of
    Economics and Statistics 90.
[2] Bell & McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage samples, Survey
    Methodology 28.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints
from calibrant.core.tables import Pairs, Table, cell_key

__all__ = [
    "FEWEST", "RARELY", "TableSigns", "cluster_numbers", "clustered_error", "few_clusters", "few_surprises",
    "is_missing", "number_of_clusters", "signs", "too_few"
]  # fmt: skip

#: Clusters below which nothing is inferred.
FEWEST = 10
#: Clusters up to which the degrees of freedom are computed exactly; with more, to the first order in their shares.
_EXACT = 1_500
#: Why there is nothing where `few_surprises`.
RARELY = "too few clusters hold a surprise to tell how far whole clusters vary"
#: Surprises due, one cluster one surprise, below which the law of a mean over clusters is unknown.
_DUE = 6.0
#: Equally weighted surprises that those of weighted rows must be worth: with fewer 83% of intervals covered.
_WORTH = 2.0
#: Labels drawn at once.
_ENTRIES = 1 << 20


def number_of_clusters(clusters: Ints | None) -> int | None:
    """Return how many clusters there are; None without clusters."""
    return None if clusters is None else int(clusters.max()) + 1


def is_missing(names: Array) -> Bools:
    """Return which names are missing: None, NaN, NaT or NA."""
    if names.dtype.kind == "O":
        none = ("None", "nan", "NaT", "<NA>")
        return np.array([not isinstance(name, str) and str(name) in none for name in names.tolist()], dtype=bool)
    return np.asarray(names != names)  # noqa: PLR0124 -- nan and NaT differ from themselves


def cluster_numbers(names: Array) -> Ints:
    """Number clusters from 0; values of several types, which have no order, as they come."""
    try:
        return np.asarray(np.unique(names, return_inverse=True)[1])
    except TypeError:
        places: dict[Any, int] = {}
        return np.array([places.setdefault(repr(value), len(places)) for value in names.tolist()])


def few_clusters(clusters: Ints | None) -> bool:
    """Whether there are clusters, but too few to infer anything from them."""
    found = number_of_clusters(clusters)
    return found is not None and found < FEWEST


def too_few(clusters: Ints | None, counts: bool) -> str:
    """Return what is too few, in words; without counts the clusters are weighted rows."""
    many = number_of_clusters(clusters)
    return f"{many} clusters are too few" if counts else f"rows with these importance weights are worth {many}, too few"


def few_surprises(pairs: Pairs, clusters: Ints | None) -> bool:
    """Whether too few clusters hold a surprise, seen or due, to say how far a mean may be off; or there are too few.

    Seen: fewer than ten clusters with a wrong row, or with a right one. Due: if the rows of a cluster moved as one, it
    would surprise with the chance of its least certain row, and the sum over clusters be as skewed as fewer than six
    events. Such a sample says nothing of the clusters it missed. Of rows that are clusters of their own, as under
    importance weights, the surprises must be worth two equally weighted ones.

    Examples
    --------
    >>> groups = np.repeat(np.arange(20), 50)
    >>> struck = groups < 2  # every event lies in two of twenty clusters
    >>> few_surprises(Pairs(np.full(1000, 0.97), ~struck, None), groups)
    True
    """
    if clusters is None or few_clusters(clusters):
        return clusters is not None
    if int(clusters.max()) + 1 == len(clusters):
        weight = np.ones(len(clusters)) if pairs.weight is None else pairs.weight
        sides = (weight[pairs.outcome == side] for side in (False, True))
        return min(float(w.sum()) ** 2 / max(float(w @ w), 1e-300) for w in sides) < _WORTH
    if min(len(np.unique(clusters[pairs.outcome == side])) for side in (False, True)) < FEWEST:
        return True
    chance = np.zeros(int(clusters.max()) + 1)
    np.maximum.at(chance, clusters, np.minimum(pairs.score, 1.0 - pairs.score))
    variance = chance * (1.0 - chance)
    return bool(variance.sum() ** 3 < _DUE * float(variance @ (1.0 - 2.0 * chance)) ** 2)


def signs(size: int, clusters: int, rng: np.random.Generator) -> Floats:
    """Draw a sign for every cluster, `size` times: shape (size, clusters)."""
    return rng.integers(0, 2, (size, clusters), dtype=np.int8).astype(np.float64) * 2.0 - 1.0


class TableSigns:
    """Outcomes of one table drawn by the signs of clusters; a stand-in for binomial draws."""

    def __init__(self, table: Table, pairs: Pairs, clusters: Ints) -> None:
        key = pairs.score.astype(np.float64) if table.grid == 0 else cell_key(pairs.score, table.grid)
        place = np.clip(np.searchsorted(table.key, key, side="right") - 1, 0, len(table) - 1)
        weight = np.ones(len(key)) if pairs.weight is None else pairs.weight
        expected = pairs.score.astype(np.float64) if pairs.expected is None else pairs.expected
        order = np.argsort(place, kind="stable")
        kept = order[weight[order] > 0]
        self._place = place[kept]
        self._start = np.flatnonzero(np.diff(self._place, prepend=-1))
        self._cluster = clusters[kept]
        self._residual = (weight * (pairs.outcome - expected))[kept]
        self._weight, self._expected = weight[kept], np.clip(expected[kept], 0.0, 1.0)
        self._table = table
        #: Rows that are drawn.
        self.width = len(kept)
        self.clusters = int(clusters.max()) + 1

    def residuals(self, size: int, rng: np.random.Generator, given: Floats | None = None) -> Floats:
        """Draw Σw·(t − e) of every table row: shape (size, rows); `given` are signs drawn already."""
        drawn = signs(size, self.clusters, rng) if given is None else given
        return self._cells(drawn[:, self._cluster] * self._residual)

    def draws(self, size: int, rng: np.random.Generator, given: Floats | None = None) -> Iterator[Floats]:
        """Yield draws of Σw·(t − e) by each law that may hold, shape (size, rows); what stands is the widest.

        Signs allow any dependence but take the residuals of a cluster as symmetric; labels allow for skewness but take
        rows of a cluster as exchangeable, as alike as they are seen to be, and as one row where fewer than ten clusters
        show a surprise: how alike surprises are cannot be learned from so few. Nor what they weigh, if weights follow
        the outcome: then surprises are fewer by as much as the heaviest row outweighs theirs, and weigh like it.
        """
        yield self.residuals(size, rng, given)
        yield self.labels(size, rng, math.sqrt(self.likeness()))
        if self.surprised < FEWEST:
            yield self.labels(size, rng, 1.0, float(self._weight.max()))

    def labels(self, size: int, rng: np.random.Generator, shared: float, heavy: float | None = None) -> Floats:
        """Draw Σw·(t − e) of every table row from labels that have the chances of the forecasts: shape (size, rows).

        Signs take residuals as symmetric; where clusters rarely surprise, a sample without one is all of one sign.
        Here rows share the uniform number of their cluster with the chance `shared`; a surprise weighs `heavy`.
        """
        jump, likely = self._weight if heavy is None else np.full(self.width, heavy), np.rint(self._expected)
        due = self._weight * (self._expected - likely)
        chance = likely + due / jump
        out = np.zeros((size, len(self._table)))
        step = max(1, _ENTRIES // max(1, self.width))
        for start in range(0, size, step):
            count = min(step, size - start)
            own = rng.random((count, self.width))
            common = rng.random((count, self.clusters))[:, self._cluster]
            hit = np.where(rng.random(own.shape) < shared, common, own) < chance
            out[start : start + count] = self._cells(jump * (hit - likely) - due)
        return out

    def likeness(self) -> float:
        """Return λ²: products of residuals inside clusters over what they would be if their rows moved as one."""
        group, e, w, r = self._cluster, self._expected, self._weight, self._residual
        seen = float((np.bincount(group, r) ** 2).sum() - (r * r).sum())
        order = np.lexsort((e, group))
        total = np.bincount(group, w)
        above = np.cumsum(total)[group[order]] - np.cumsum(w[order])  # weight of the later rows of the same cluster
        least = 2.0 * float((w[order] * e[order] * above).sum())  # Σ w·w′·min(e, e′)
        most = least - float((np.bincount(group, w * e) ** 2).sum() - ((w * e) ** 2).sum())
        return min(max(seen / most, 0.0), 1.0) if most > 1e-12 else 0.0

    @property
    def surprised(self) -> int:
        """Clusters in which a row went against its forecast."""
        against = self._weight * np.minimum(self._expected, 1.0 - self._expected) < np.abs(self._residual) - 1e-12
        return len(np.unique(self._cluster[against]))

    def _cells(self, moved: Floats) -> Floats:
        out = np.zeros((len(moved), len(self._table)))
        out[:, self._place[self._start]] = np.add.reduceat(moved, self._start, axis=1)
        return out


def clustered_error(sums: Floats, sizes: Floats) -> tuple[float, float]:
    """Return the standard error of Σsums/Σsizes over clusters, and its degrees of freedom.

    `sums` are those of residuals about the mean. The variance is the bias-reduced CR2 [2]; the degrees of freedom are
    Satterthwaite's for clusters whose rows move as one, the worst case: then few large clusters among many small ones
    count as few.

    Examples
    --------
    >>> error, freedom = clustered_error(np.array([1.0, -1.0, 2.0, -2.0]), np.ones(4))
    >>> round(error, 3), round(freedom, 1)
    (0.913, 3.0)
    """
    total = float(sizes.sum())
    share = sizes / total
    weight = 1.0 / np.maximum(1.0 - share, 1e-12)
    error = math.sqrt(float((sums**2 * weight).sum())) / total
    spread = sizes**2
    if len(sizes) > _EXACT:
        return error, float(spread.sum() ** 2 / (spread @ spread))
    root = np.sqrt(weight)
    # covariance of the scaled residuals (I − h1′)S with Var S = diag(sizes²)
    covariance = np.diag(spread) - np.outer(share, spread) - np.outer(spread, share)
    covariance += np.outer(share, share) * spread.sum()
    covariance *= np.outer(root, root)
    return error, float(np.trace(covariance) ** 2 / (covariance**2).sum())
