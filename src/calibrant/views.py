"""Views: which one-dimensional question is asked of the probability vectors.

A view turns checked predictions into pairs (score s in [0, 1], outcome t), in one group or one per class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.edges import width_index
from calibrant.core.inputs import Forecast, check_names
from calibrant.core.parallel import map_chunks
from calibrant.core.tables import Bins, Pairs, mass_bins, width_bins
from calibrant.errors import input_error

__all__ = ["Canonical", "ClassK", "Classwise", "Entropy", "Pooled", "TopLabel", "TopR", "View", "WithinTopR", "as_view"]

#: Classes handled together when columns of the matrix are needed: one cache line of float32.
_COLUMN_BLOCK = 16


@dataclass(frozen=True)
class View:
    """Base of all views: yields pairs, one group at a time, and knows how groups are joined."""

    #: True when top-label pairs suffice and no probability vector is needed.
    top_label_only: ClassVar[bool] = False
    #: True when there may be more than one group.
    grouped: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Short name as used by ``--view``."""
        raise TypeError(f"{type(self).__name__} has no name")

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return the pairs of a view with one group."""
        raise TypeError(f"{type(self).__name__} has no single group of pairs of {forecast.caller}")

    def groups(self, forecast: Forecast) -> Iterator[Pairs]:
        """Yield the pairs of each group."""
        yield self.pairs(forecast)

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect every group into `m` equal-width bins."""
        return Bins.stack([width_bins(pairs, m) for pairs in self.groups(forecast)])

    def mass_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect every group into at most `m` equal-mass bins."""
        return Bins.stack([mass_bins(pairs, m) for pairs in self.groups(forecast)])

    def join(self, powers: Floats) -> Floats:
        """Join the p-th powers of the groups (last axis)."""
        return np.asarray(powers[..., 0])


@dataclass(frozen=True)
class TopLabel(View):
    """The largest probability against "the predicted class is right"; ties go to the lowest index."""

    top_label_only: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Short name."""
        return "top-1"

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (confidence, correct)."""
        return Pairs(forecast.top_score, forecast.hit, forecast.weights)


def _ranked(forecast: Forecast, r: int) -> tuple[Floats, Array]:
    """Scores and classes of the `r` largest probabilities of each row, largest first, ties by lowest index."""
    if not 1 <= r <= forecast.n_classes:
        raise input_error(
            "r", "TopR", f"be between 1 and the {forecast.n_classes} classes", str(r), "ask for a rank that exists"
        )
    scores = np.empty((forecast.n, r))
    classes = np.empty((forecast.n, r), dtype=np.int64)

    def visit(rows: slice) -> None:
        block = forecast.block(rows).astype(np.float64)
        if r > 8:
            order = np.argsort(-block, axis=1, kind="stable")[:, :r]
            classes[rows], scores[rows] = order, np.take_along_axis(block, order, axis=1)
            return
        row = np.arange(len(block))
        for rank in range(r):
            best = block.argmax(axis=1)
            classes[rows, rank], scores[rows, rank] = best, block[row, best]
            block[row, best] = -1.0

    for _ in map_chunks(visit, forecast.chunks()):
        pass
    return scores, classes


@dataclass(frozen=True)
class TopR(View):
    """The r-th largest probability against "the truth is the r-th ranked class" (Gupta et al. 2021)."""

    r: int

    @property
    def name(self) -> str:
        """Short name."""
        return f"top-{self.r}"

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (r-th score, truth has rank r)."""
        scores, classes = _ranked(forecast, self.r)
        return Pairs(scores[:, -1].copy(), classes[:, -1] == forecast.codes, forecast.weights)


@dataclass(frozen=True)
class WithinTopR(View):
    """The sum of the r largest probabilities against "the truth is among them" (Gupta et al. 2021)."""

    r: int

    @property
    def name(self) -> str:
        """Short name."""
        return f"within-{self.r}"

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (sum of the r largest, truth among them)."""
        scores, classes = _ranked(forecast, self.r)
        return Pairs(_computed(scores.sum(axis=1)), (classes == forecast.codes[:, None]).any(axis=1), forecast.weights)


def _computed(score: Floats) -> Floats:
    """Clip a computed score and round it to 12 decimals, so that equal sums tie whatever the order of addition."""
    return np.asarray(np.round(np.clip(score, 0.0, 1.0), 12)) + 0.0


@dataclass(frozen=True)
class ClassK(View):
    """The probability of class k against "the truth is k"."""

    k: int

    @property
    def name(self) -> str:
        """Short name."""
        return f"class-{self.k}"

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (p_k, y == k)."""
        if not 0 <= self.k < max(forecast.n_classes, 1):
            raise input_error(
                "k", "ClassK", f"be a class index 0 … {forecast.n_classes - 1}", str(self.k), "count classes from 0"
            )
        return Pairs(forecast.column(self.k), forecast.codes == self.k, forecast.weights)


@dataclass(frozen=True)
class Classwise(View):
    """K groups, one per class; `reduce` acts on the p-th powers of their errors, then comes the root.

    With `threshold` only pairs with p_k above it count; a class with none contributes 0.
    """

    reduce: str = "mean"
    threshold: float | None = None
    grouped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_names(self.reduce, ("mean", "sum", "max"), "reduce", "Classwise")
        if self.threshold is not None and not 0 <= self.threshold < 1:
            raise input_error("threshold", "Classwise", "lie in [0, 1)", repr(self.threshold), "use for example 0.01")

    @property
    def name(self) -> str:
        """Short name."""
        return "classwise"

    def _block(self, forecast: Forecast, start: int) -> list[Pairs]:
        """Pairs of up to sixteen classes, whose columns share cache lines."""
        columns = forecast.columns(start, min(start + _COLUMN_BLOCK, forecast.n_classes))
        block = [Pairs(column, forecast.codes == start + i, forecast.weights) for i, column in enumerate(columns)]
        if self.threshold is None:
            return block
        return [pairs.take(pairs.score > self.threshold) for pairs in block]

    def groups(self, forecast: Forecast) -> Iterator[Pairs]:
        """Yield the pairs of each class."""
        for start in range(0, forecast.n_classes, _COLUMN_BLOCK):
            yield from self._block(forecast, start)

    def mass_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect every class into at most `m` equal-mass bins, on all cores."""

        def visit(start: int) -> Bins:
            return Bins.stack([mass_bins(pairs, m) for pairs in self._block(forecast, start)])

        return Bins.stack(list(map_chunks(visit, range(0, forecast.n_classes, _COLUMN_BLOCK))))

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect all classes in one walk over the matrix."""
        found: Bins = forecast.keep(("classwise", self.threshold, m), lambda: self._width_bins(forecast, m))
        return found

    def _width_bins(self, forecast: Forecast, m: int) -> Bins:
        k = forecast.n_classes
        offsets = (np.arange(k) * m).astype(np.int64)

        def visit(rows: slice) -> Floats:
            block = forecast.block(rows)
            cell = width_index(block, m)
            cell += offsets
            codes = forecast.codes[rows]
            weight = None if forecast.weights is None else forecast.weights[rows]
            hit_cell = cell[np.arange(len(block)), codes]
            hit_kept = None
            flat, values = cell.ravel(), block.ravel()
            spread = None if weight is None else np.repeat(weight, k)
            if self.threshold is not None:
                kept = values > self.threshold
                hit_kept = block[np.arange(len(block)), codes] > self.threshold
                flat, values = flat[kept], values[kept]
                spread = None if spread is None else spread[kept]
                hit_cell = hit_cell[hit_kept]
            hit_weight = None if weight is None else (weight if hit_kept is None else weight[hit_kept])
            w = np.bincount(flat, spread, k * m)
            ws = np.bincount(flat, values if spread is None else values * spread, k * m)
            return np.stack([w, ws, np.bincount(hit_cell, hit_weight, k * m)]).astype(np.float64)

        total = np.zeros((3, k * m))
        for part in map_chunks(visit, forecast.chunks()):
            total += part
        w, ws, wt = total.reshape(3, k, m)
        return Bins(w, ws, wt)

    def join(self, powers: Floats) -> Floats:
        """Mean, sum or maximum over classes."""
        return np.asarray(getattr(powers, self.reduce)(axis=-1))


@dataclass(frozen=True)
class Pooled(View):
    """All n·K pairs (p_k, y == k) in one group; `threshold` keeps the pairs above it."""

    threshold: float | None = None

    @property
    def name(self) -> str:
        """Short name."""
        return "pooled"

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return all pairs, class by class within a row."""
        score = np.concatenate([forecast.block(rows).ravel() for rows in forecast.chunks()])
        outcome = np.zeros((forecast.n, forecast.n_classes), dtype=bool)
        outcome[np.arange(forecast.n), forecast.codes] = True
        weight = None if forecast.weights is None else np.repeat(forecast.weights, forecast.n_classes)
        pairs = Pairs(score, outcome.ravel(), weight)
        return pairs if self.threshold is None else pairs.take(score > self.threshold)

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Add up the classes' bins: no n·K copy."""
        each = Classwise(threshold=self.threshold).width_bins(forecast, m)
        return Bins(*(getattr(each, name).sum(axis=0, keepdims=True) for name in ("w", "ws", "wt")))


@dataclass(frozen=True)
class Entropy(View):
    """The normalised entropy −Σ p log p / log K against "the top label is wrong" (Laves et al. 2020).

    ``by="predicted"`` makes one group per predicted class and joins them by their mean.
    """

    by: str | None = None
    grouped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.by not in (None, "predicted"):
            raise input_error("by", "Entropy", "be None or 'predicted'", repr(self.by), "drop it for one group")

    @property
    def name(self) -> str:
        """Short name."""
        return "entropy"

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (normalised entropy, wrong); the forecast itself expects an error of 1 − max p."""
        return Pairs(
            normalized_entropy(forecast), ~forecast.hit, forecast.weights, 1.0 - forecast.top_score.astype(np.float64)
        )

    def groups(self, forecast: Forecast) -> Iterator[Pairs]:
        """Yield one group, or one per predicted class that occurs."""
        pairs = self.pairs(forecast)
        if self.by is None:
            yield pairs
            return
        for k in np.unique(forecast.top):
            yield pairs.take(forecast.top == k)

    def join(self, powers: Floats) -> Floats:
        """Mean over the predicted classes."""
        return np.asarray(powers.mean(axis=-1))


def entropies(forecast: Forecast) -> Floats:
    """Return −Σ p log p of each row in nats, with 0·log 0 = 0."""
    return np.asarray(forecast.keep("entropies", lambda: _entropies(forecast)))


def _entropies(forecast: Forecast) -> Floats:
    out = np.empty(forecast.n)

    def visit(rows: slice) -> None:
        p = forecast.block(rows).astype(np.float64, order="C")  # one order of summation for every container
        log_p = np.log(np.maximum(p, 1e-300))
        out[rows] = -np.einsum("ij,ij->i", p, log_p)

    for _ in map_chunks(visit, forecast.chunks()):
        pass
    return out


def normalized_entropy(forecast: Forecast) -> Floats:
    """Return the entropy of each row divided by log K, clipped to [0, 1] and rounded to 12 decimals."""
    return _computed(entropies(forecast) / np.log(forecast.n_classes))


@dataclass(frozen=True)
class Canonical(View):
    """The whole vector: kernel measures and proper scores only."""

    @property
    def name(self) -> str:
        """Short name."""
        return "canonical"


_FIXED: dict[str, Any] = {
    "top-1": TopLabel,
    "classwise": Classwise,
    "pooled": Pooled,
    "entropy": Entropy,
    "canonical": Canonical,
}
_NUMBERED: dict[str, Any] = {"top": TopR, "within": WithinTopR, "class": ClassK}


def as_view(view: View | str, caller: str = "calibration_error") -> View:
    """Return a view from itself or its name: top-1, top-R, within-R, class-K, classwise, pooled, entropy.

    Examples
    --------
    >>> as_view("within-2")
    WithinTopR(r=2)
    """
    if isinstance(view, View):
        return view
    if isinstance(view, str):
        if view in _FIXED:
            return _FIXED[view]()
        match = re.fullmatch(r"(top|within|class)-(\d+)", view)
        if match:
            return _NUMBERED[match[1]](int(match[2]))
    raise input_error(
        "view",
        caller,
        "be a view or one of top-R, within-R, class-K, classwise, pooled, entropy",
        repr(view),
        "for example view='within-2'",
    )
