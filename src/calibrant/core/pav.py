"""Isotonic regression by pooling adjacent violators, with ties pooled and no sort of indices where none is needed.

Every fit goes through one small table of pieces (first score, last score, Σw, Σw·t). For a yes/no outcome
the pieces are known before any pooling: between two neighboring scores with t = 1 there are only misses, which
the violators' rule joins to the hit before them. With many hits one sort of packed integers finds the pieces
(`pool_hits`); with few (one in K) a search of the hits in sorted chunks does (`isotonic_hits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints
from calibrant.core.parallel import map_chunks

__all__ = [
    "Pieces", "isotonic_fit", "isotonic_hits", "isotonic_knots", "pav", "pool_hits", "pool_ties", "smooth_knots"
]  # fmt: skip


class Pieces(NamedTuple):
    """Rows sorted by score that share one value already: a tie, a cell, or a hit with the misses after it."""

    first: Array
    last: Array
    weight: Floats
    hits: Floats


def pav(values: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing sequence closest to `values` in weighted squared error.

    `values` are means of pieces in the order of their scores, ties pooled; weight 0 takes the value before it.
    Pool adjacent violators [1]_, O(m): a piece and its follower are joined when the follower is not larger.

    References
    ----------
    .. [1] Ayer et al. (1955), "An empirical distribution function for sampling with incomplete information",
       Ann. Math. Statist. 26(4).

    Examples
    --------
    >>> pav(np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 3.0, 1.0]))
    array([0.  , 0.25, 0.25, 1.  ])
    """
    from scipy.optimize import isotonic_regression

    kept = np.flatnonzero(weights > 0)
    if len(kept) == len(values):
        return np.asarray(isotonic_regression(values, weights=weights).x) if len(values) else values.copy()
    if not len(kept):
        return np.full(len(values), np.nan)
    fitted = np.asarray(isotonic_regression(values[kept], weights=weights[kept]).x)
    return np.asarray(fitted[np.maximum(np.cumsum(weights > 0) - 1, 0)])


def isotonic_knots(pieces: Pieces) -> tuple[Floats, Floats]:
    """Return the knots of the isotonic fit to a table of pieces: the two ends of every constant stretch.

    `first`, `last` are the smallest and largest score of a piece, `weight` is Σw > 0, `hits` is Σw·t. Raw rows,
    tie groups and the cells of a summary are the same case. Values are recomputed from the sums, so
    integer weights give correctly rounded ratios.
    """
    first, last, weight, hits = pieces
    start = _stretches(pieces)
    stop = np.append(start[1:], len(first)) - 1
    value = np.add.reduceat(hits, start) / np.add.reduceat(weight, start)
    low, high = first[start], last[stop]
    keep = np.stack([np.ones(len(low), dtype=bool), high > low], axis=1).ravel()
    thresholds = np.stack([low, high], axis=1).ravel()[keep].astype(np.float64)
    return thresholds, np.maximum.accumulate(np.repeat(value, 2)[keep])


def _stretches(pieces: Pieces) -> Ints:
    """Return the first piece of every constant stretch of the isotonic fit."""
    fitted = pav(pieces.hits / pieces.weight, pieces.weight)
    return np.flatnonzero(np.concatenate([[True], fitted[1:] > fitted[:-1]]))


def smooth_knots(pieces: Pieces, rows: float, probability: Floats | None = None) -> tuple[Floats, Floats]:
    """Return one knot per stretch of the isotonic fit, at its mean score, drawn towards that score.

    A stretch of n rows with h hits and mean score s takes the value (h + rows·s) / (n + rows): as if `rows` further
    rows had borne the score out. Between the centers the curve is linear, so it has no steps, and it never
    reaches 0 or 1 where the score does not. Pieces must be ties or cells: their first score stands for all. Where
    scores are not probabilities, `probability` gives those of the pieces; the knots stay at the mean scores.

    Examples
    --------
    >>> smooth_knots(pool_ties(np.array([0.1, 0.3, 0.6, 0.8]), np.array([0, 0, 1, 1])), 2.0)
    (array([0.2, 0.7]), array([0.1 , 0.85]))
    """
    start = _stretches(pieces)
    weight, hits = np.add.reduceat(pieces.weight, start), np.add.reduceat(pieces.hits, start)
    center = np.add.reduceat(pieces.weight * pieces.first, start) / weight
    mean = center if probability is None else np.add.reduceat(pieces.weight * probability, start) / weight
    return center, pav((hits + rows * mean) / (weight + rows), weight)


def isotonic_hits(
    chunks: Sequence[slice],
    block: Callable[[slice], tuple[Array, Floats | None]],
    hit_score: Array,
    hit_weight: Floats | None = None,
) -> Pieces:
    """Return the pieces of a yes/no outcome whose scores come in chunks of any order.

    Parameters
    ----------
    chunks : sequence of slices
        What to hand to `block`, one after another, on all cores.
    block : callable
        Gives all scores (hits and misses) of a chunk and their weights or None.
    hit_score, hit_weight : arrays, shape (m,)
        Scores, and weights unless all are 1, of the rows with t = 1.

    Notes
    -----
    Cost: the sorts inside the chunks plus m binary searches a chunk. Memory: one chunk per core and a few vectors
    of length m, so 25,000 rows × 1000 classes need no array of 25 million pairs. Exact: equal to a global sort.
    """
    if hit_weight is None:
        score, count = np.unique(hit_score, return_counts=True)
        hits = count.astype(np.float64)
    else:
        score, inverse = np.unique(hit_score, return_inverse=True)
        hits = np.bincount(inverse, weights=hit_weight).astype(np.float64)

    def visit(chunk: slice) -> tuple[Floats, Floats, Floats]:
        """Return the ends of the scores, the weight below each hit and in all, the largest score below each hit."""
        values, weights = block(chunk)
        if weights is None:
            values = np.sort(values)
            position = np.searchsorted(values, score)
            below = np.append(position, len(values)).astype(np.float64)
        else:
            order = np.argsort(values, kind="stable")
            values = values[order]
            position = np.searchsorted(values, score)
            running = np.concatenate([[0.0], np.cumsum(weights[order])])
            below = running[np.append(position, len(values))]
        before = np.where(position > 0, values[np.maximum(position - 1, 0)], -np.inf)
        return values[[0, -1]].astype(np.float64), below, before

    low, high, below, before = np.inf, -np.inf, np.zeros(len(score) + 1), np.full(len(score), -np.inf)
    for ends, under, last in map_chunks(visit, chunks):
        low, high = min(low, ends[0]), max(high, ends[1])
        below += under
        np.maximum(before, last, out=before)
    weight = np.diff(below, prepend=0.0)
    used = slice(0 if weight[0] > 0 else 1, None)  # no piece of misses before the first hit
    pieces = np.append(low, score), np.append(before, high), weight, np.append(0.0, hits)
    return Pieces(*(column[used] for column in pieces))


def isotonic_fit(score: Array, outcome: Array, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Return thresholds and values of the isotonic regression of `outcome` on `score`.

    Ties in the score are pooled; between thresholds the fit is linear, outside it is held: evaluate with
    ``np.interp(new_score, thresholds, values)``. Thresholds are thinned to the ends of constant stretches.

    Scores are finite, in any order; the outcome is bool, 0/1 or any real mean; rows of weight 0 are left out.
    O(n log n) by a sort of plain values (not of indices) for an unweighted yes/no outcome.

    Examples
    --------
    >>> isotonic_fit(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 1, 0, 1]))
    (array([0.1, 0.4, 0.8]), array([0. , 0.5, 1. ]))
    """
    if weight is not None and not (weight > 0).all():
        used = weight > 0
        score, outcome, weight = score[used], outcome[used], weight[used]
    if not len(score):
        return np.empty(0), np.empty(0)
    yes = outcome if outcome.dtype == bool else outcome == 1
    if weight is None and bool((yes | (outcome == 0)).all()) and score.min() >= 0 and score.max() <= 1:
        return isotonic_knots(pool_hits(score, yes))
    return isotonic_knots(pool_ties(score, outcome, weight))


def pool_hits(score: Array, hit: Bools) -> Pieces:
    """Return one piece per hit that follows a miss, for scores in [0, 1] and a yes/no outcome.

    A float in [0, 1] sorts like its bits and leaves the top two free, so shifted bits carry the outcome in the
    lowest place, misses above hits: one fast sort of integers, and every stretch of hits then misses (a
    tie among them) is decreasing, so that pooling may join it beforehand.
    """
    kind = "8" if score.dtype.itemsize == 8 else "4"
    key: Array = (score.astype("f" + kind, copy=False) + 0.0).view("i" + kind)  # + 0 turns −0 into 0
    key <<= 1
    key |= ~hit
    key.sort()
    miss = (key & 1).astype(bool)
    start = np.concatenate([[0], np.flatnonzero(miss[:-1] & ~miss[1:]) + 1])
    key >>= 1
    ordered = key.view("f" + kind)
    stop = np.append(start[1:], len(ordered))
    size = (stop - start).astype(np.float64)
    return Pieces(ordered[start], ordered[stop - 1], size, size - np.add.reduceat(miss, start, dtype=np.int64))


def pool_ties(score: Array, outcome: Array, weight: Floats | None = None) -> Pieces:
    """Return one piece per distinct score, sorted; rows of weight 0 must be gone."""
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    start = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    weights = np.ones(len(score)) if weight is None else weight[order]
    hits = np.add.reduceat(weights * outcome[order], start)
    return Pieces(ordered[start], ordered[start], np.add.reduceat(weights, start), hits)
