"""Views of the classes: one of them, each of them, all in one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant._typing import Floats
from calibrant.core import fast
from calibrant.core.cells import class_visit, shares
from calibrant.core.inputs import Forecast, check_names
from calibrant.core.parallel import map_chunks
from calibrant.core.tables import Bins, Pairs, Table, mass_bins, merge
from calibrant.errors import input_error
from calibrant.views.view import PairSource, T, View

#: Classes handled together when columns of the matrix are needed: one cache line of float32.
_COLUMN_BLOCK = 16


def _check_threshold(threshold: float | None, caller: str) -> None:
    if threshold is not None and not (isinstance(threshold, int | float | np.number) and 0 <= threshold < 1):
        raise input_error("threshold", caller, "lie in [0, 1)", repr(threshold), "use for example 0.01")


@dataclass(frozen=True)
class ClassK(View):
    """The probability of class k against "the truth is k"."""

    word: ClassVar[str] = "class"
    number: ClassVar[str] = "k"
    k: int

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (p_k, y == k)."""
        if not 0 <= self.k < max(forecast.n_classes, 1):
            raise input_error(
                "view",
                forecast.caller,
                f"name a class from 0 to {forecast.n_classes - 1}",
                repr(self.name),
                "count classes from 0",
            )
        return Pairs(forecast.column(self.k), forecast.codes == self.k, forecast.weights)

    def walk(self, forecast: Forecast) -> str | None:
        """Return the walk over a column."""
        return "column" if self.k == 1 and forecast.matrix is not None and forecast.matrix.ndim == 1 else None

    def label(self, names: Sequence[Any]) -> str:
        """Return words for an axis."""
        return f"probability of class {names[self.k]}"

    def sources(self, n_classes: int) -> Iterator[View]:
        """Yield the view itself and the class-wise one."""
        yield self
        if self.k < n_classes:
            yield Classwise()

    def derive(self, source: View, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        """Pick the class out of the class-wise tables."""
        return (tables[self.k],) if source.per_class else tables

    def select(self, source: PairSource[T]) -> T | None:
        """Return (p_k, y == k) of a class there is."""
        return source.one_class(self.k) if self.k < source.n_classes else None


@dataclass(frozen=True)
class Classwise(View):
    """K groups, one per class; `reduce` acts on the p-th powers of their errors, then comes the root.

    With `threshold` only pairs with p_k above it count; a class with none contributes 0.
    """

    word: ClassVar[str] = "classwise"
    reduce: str = "mean"
    threshold: float | None = None
    per_class: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_names(self.reduce, ("mean", "sum", "max"), "reduce", "Classwise")
        _check_threshold(self.threshold, "Classwise")

    @property
    def single_group(self) -> bool:
        """Whether there is one group: no, one per class."""
        return False

    def mirrored(self, n_classes: int) -> bool:
        """Whether the second of two classes is the mirror of the first."""
        return n_classes == 2 and self.threshold is None

    @property
    def lowest(self) -> float | None:
        """The threshold."""
        return self.threshold

    @property
    def largest(self) -> float:
        """The largest value: a sum over classes has no bound that does not depend on their number."""
        return math.inf if self.reduce == "sum" else 1.0

    @property
    def additive(self) -> bool:
        """Whether all pairs count, by mean or sum."""
        return self.reduce != "max" and self.threshold is None

    def plain(self) -> View:
        """Return the class-wise view without threshold, joined by the mean."""
        return Classwise()

    def select(self, source: PairSource[T]) -> T | None:
        """Return the pairs of all classes."""
        return source.classes()

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

    @property
    def binned_as(self) -> View:
        """The view whose equal-width bins this one reads: joined in any way."""
        return Classwise(threshold=self.threshold)

    def walk(self, forecast: Forecast) -> str | None:
        """Return the walk over a matrix without threshold."""
        return (
            "classes" if self.threshold is None and forecast.matrix is not None and forecast.matrix.ndim == 2 else None
        )

    def _width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect all classes in one walk over the matrix, class by class where weights or a threshold count."""
        if self.threshold is not None or forecast.weights is not None:
            return super()._width_bins(forecast, m)
        k = forecast.n_classes
        visit = class_visit(k, math.inf, m, fast.kernel("class_pass", forecast.n * k))

        def at_once(rows: slice) -> Floats:
            block, codes = np.ascontiguousarray(forecast.block(rows)), np.ascontiguousarray(forecast.codes[rows])
            return visit(block.astype(np.float32) if block.dtype.itemsize == 2 else block, codes)[2]

        def bins() -> Bins:
            parts = map_chunks(at_once, shares(forecast.n, 4 * k))
            return Bins(*sum(parts, np.zeros((3, k * m))).reshape(3, k, m))

        found: Bins = forecast.keep(("bins", self.binned_as, m), bins)
        return found

    def join(self, powers: Floats, norm: float = 1.0) -> Floats:
        """Mean, sum or maximum over classes; (Σ_k e_k^p)^(1/p) tends to the maximum, and so does the mean's root."""
        return np.asarray(getattr(powers, "max" if math.isinf(norm) else self.reduce)(axis=-1))


@dataclass(frozen=True)
class Pooled(View):
    """All n·K pairs (p_k, y == k) in one group; `threshold` keeps the pairs above it."""

    word: ClassVar[str] = "pooled"
    threshold: float | None = None

    def __post_init__(self) -> None:
        _check_threshold(self.threshold, "Pooled")

    def label(self, names: Sequence[Any]) -> str:  # noqa: ARG002 -- of any class
        """Return words for an axis."""
        return "probability of any class"

    @property
    def one_table(self) -> bool:
        """Whether outcomes are independent: no, a row's pairs share its label."""
        return False

    @property
    def lowest(self) -> float | None:
        """The threshold."""
        return self.threshold

    def plain(self) -> View:
        """Return the pooled view without threshold."""
        return Pooled()

    def sources(self, n_classes: int) -> Iterator[View]:  # noqa: ARG002 -- any number
        """Yield the pooled and the class-wise view."""
        yield Pooled()
        yield Classwise()

    def derive(self, source: View, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        """Add up the classes."""
        kept = self._cut(tables)
        return (merge(kept, kept[0].grid),) if source.per_class else kept

    def select(self, source: PairSource[T]) -> T | None:
        """Return the pairs of all classes."""
        return source.classes()

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return all pairs, class by class within a row."""
        score = np.concatenate([forecast.block(rows).ravel() for rows in forecast.chunks()])
        outcome = np.zeros((forecast.n, forecast.n_classes), dtype=bool)
        outcome[np.arange(forecast.n), forecast.codes] = True
        weight = None if forecast.weights is None else np.repeat(forecast.weights, forecast.n_classes)
        pairs = Pairs(score, outcome.ravel(), weight)
        return pairs if self.threshold is None else pairs.take(score > self.threshold)

    @property
    def binned_as(self) -> View:
        """The view whose equal-width bins this one reads: each class."""
        return Classwise(threshold=self.threshold)

    def walk(self, forecast: Forecast) -> str | None:
        """Return the walk of each class."""
        return self.binned_as.walk(forecast)

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Add up the classes' bins: no n·K copy."""
        each = Classwise(threshold=self.threshold).width_bins(forecast, m)
        return Bins(*(getattr(each, name).sum(axis=0, keepdims=True) for name in ("w", "ws", "wt")))
