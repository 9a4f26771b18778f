"""Views of the classes: one of them, each of them, all in one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant._typing import Floats
from calibrant.core.inputs import Forecast, check_names
from calibrant.core.parallel import map_chunks, row_chunks
from calibrant.core.tables import Bins, Pairs, Table, class_bins, mass_bins, merge
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

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect all classes in one pass over the matrix, class by class where weights or a threshold count."""
        if self.threshold is not None or forecast.weights is not None:
            return super().width_bins(forecast, m)

        def part(rows: slice) -> Floats:
            return class_bins(forecast.block(rows), forecast.codes[rows], m)

        def bins() -> Bins:
            parts = map_chunks(part, row_chunks(forecast.n, 4 * forecast.n_classes))
            return Bins(*sum(parts, np.zeros((3, forecast.n_classes, m))))

        found: Bins = forecast.keep(("bins", m), bins)
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

    def width_bins(self, forecast: Forecast, m: int) -> Bins:
        """Add up the classes' bins: no n·K copy."""
        each = Classwise(threshold=self.threshold).width_bins(forecast, m)
        return Bins(*(getattr(each, name).sum(axis=0, keepdims=True) for name in ("w", "ws", "wt")))
