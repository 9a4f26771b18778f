"""Histogram binning: the fraction of hits in each bin of scores, one class against the rest."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._one_vs_rest import fit_each, map_each
from calibrant.calibrators._scores import Scores, View
from calibrant.core.inputs import check_n_bins
from calibrant.core.links import logit
from calibrant.core.pav import Pieces, pool_ties
from calibrant.core.programs import Graph, Node
from calibrant.core.tables import SLACK


class HistogramBinning(Calibrator):
    """Replace each score by the fraction of hits among calibration rows in the same bin, then normalize.

    Simple and easy to explain, but scores within a bin are no longer told apart, so it loses discrimination.

    Parameters
    ----------
    n_bins : int, default 15
        Bins per class; ties and small sets may leave fewer.
    strategy : {"mass", "width"}, default "mass"
        Bins with equal numbers of rows, or of equal width.

    Attributes
    ----------
    edges_ : list of K arrays (of one array, for class 1, with two classes)
        Upper edges of all bins but the last; a score belongs to the first bin whose edge is not below it.
    values_ : list of as many arrays
        Fraction of hits in each bin (the center of an empty bin of equal width).

    Notes
    -----
    q_k ∝ Σ w·1[y = k] / Σ w over the rows of the bin of p_k [1]_. Edges of equal-mass bins lie half-way between
    neighboring scores; equal scores stay together. A row whose fractions are all 0 keeps its input.
    Cost: O(K·n log n).

    References
    ----------
    .. [1] Zadrozny & Elkan (2001), "Obtaining calibrated probability estimates from decision trees and naive
       Bayesian classifiers", ICML, section 4.2.

    Examples
    --------
    >>> method = HistogramBinning(n_bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1])
    >>> method.predict_proba([0.2, 0.9])
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    short_name = "histogram"
    title = "Histogram binning"
    paper = "Zadrozny & Elkan (2001), section 4.2"
    when = (
        "Use it when a handful of probability levels is wanted or must be explained to others. Not when ranking "
        "within a bin matters, with few rows per class, or when the predicted class must stay."
    )
    may_saturate = True
    default_loss = "brier"
    view: ClassVar[View] = "rank"
    state: ClassVar[tuple[str, ...]] = ("edges_", "values_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"strategy": ("mass", "width")}

    edges_: list[Floats]
    values_: list[Floats]

    def __init__(
        self, *, n_bins: int = 15, strategy: str = "mass", space: Space = "proba", classes: ArrayLike | None = None
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return one value for each of 15 bins and each class (one curve is free with two classes)."""
        return 15.0 * (n_classes if n_classes > 2 else 1)

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_n_bins(self.n_bins, caller)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        p = scores.values()

        def one(k: int) -> tuple[Floats, Floats]:
            table = pool_ties(np.ascontiguousarray(p[:, k]), codes == k, weights)
            return fit_bins(table, self.n_bins, self.strategy, odds=scores.space == "logit")

        curves = fit_each(self.n_classes_, one)
        self.edges_ = [edges for edges, _ in curves]
        self.values_ = [values for _, values in curves]

    def _map(self, graph: Graph, x: Node) -> Node:
        return look_up(graph, x, self.edges_, self.values_, self._probabilities(graph, x))


def fit_bins(table: Pieces, n_bins: int, strategy: str, *, odds: bool = False) -> tuple[Floats, Floats]:
    """Return upper edges (all but the last bin's) and the fraction of hits of each bin, from a sorted table.

    With `odds` the table and the edges hold log-odds; equal width means equal width in probability.
    """
    if strategy == "mass":
        last = mass_splits(table, n_bins)
        start = np.append(0, last + 1)
        return edges_after(table, last), np.add.reduceat(table.hits, start) / np.add.reduceat(table.weight, start)
    edges = np.arange(1, n_bins) / n_bins + SLACK  # the one bin rule: (lo, hi], a hair above an edge is on it
    if odds:
        edges = logit(edges)
    bins = np.searchsorted(edges, table.first)
    weight = np.bincount(bins, weights=table.weight, minlength=n_bins)
    hits = np.bincount(bins, weights=table.hits, minlength=n_bins)
    center = (np.arange(n_bins) + 0.5) / n_bins
    return edges, np.divide(hits, weight, out=center, where=weight > 0)


def mass_splits(table: Pieces, n_bins: int) -> Ints:
    """Return the rows of a sorted table after which equal-mass bins end (all bins but the last), ascending."""
    running = np.cumsum(table.weight)
    goal = running[-1] * np.arange(1, n_bins) / n_bins
    last = np.searchsorted(running, goal * (1 - 1e-12))
    return np.unique(last[last < len(running) - 1])


def edges_after(table: Pieces, rows: Ints) -> Floats:
    """Return edges half-way between the scores of these rows and the next; never as high as the next."""
    low, high = table.last[rows].astype(np.float64), table.first[rows + 1].astype(np.float64)
    middle = low + (high - low) / 2
    return np.asarray(np.where(middle < high, middle, low))


def look_up(graph: Graph, x: Node, edges: list[Floats], values: list[Floats], p: Node) -> Node:
    """Write a step function of x per class; a row of zeros keeps its input p."""

    def steps(column: Node, edge: Any, value: Any) -> Node:
        return graph.lookup(value, graph.search(column, edge, side="left"))

    fitted = map_each(graph, x, steps, edges, values)
    return graph.where(graph.sum(fitted) > 0.0, fitted, p)
