"""The view of the entropy: how unsure the forecast is against how often it is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant._typing import Floats
from calibrant.core.inputs import Forecast
from calibrant.core.tables import Bins, Pairs, Table, width_bins
from calibrant.core.vectors import normalized_entropy
from calibrant.errors import input_error
from calibrant.views.view import PairSource, T, View


@dataclass(frozen=True)
class Entropy(View):
    """The normalized entropy −Σ p log p / log K against "the top label is wrong" (Laves et al. 2020).

    ``by="predicted"`` makes one group per predicted class and joins them by their mean.
    """

    word: ClassVar[str] = "entropy"
    by: str | None = None
    own_expectation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.by is None or (isinstance(self.by, str) and self.by == "predicted")):
            raise input_error("by", "Entropy", "be None or 'predicted'", repr(self.by), "drop it for one group")

    def label(self, names: Sequence[Any]) -> str:  # noqa: ARG002 -- of all classes
        """Return words for an axis."""
        return "normalized entropy"

    @property
    def single_group(self) -> bool:
        """Whether there is one group: unless it is split by predicted class."""
        return self.by is None

    def pairs(self, forecast: Forecast) -> Pairs:
        """Return (normalized entropy, wrong); the forecast itself expects an error of 1 − max p."""
        return Pairs(
            normalized_entropy(forecast), ~forecast.hit, forecast.weights, 1.0 - forecast.top_score.astype(np.float64)
        )

    def groups(self, forecast: Forecast) -> Iterator[Pairs]:
        """Yield one group, or one per predicted class that occurs."""
        yield from (pairs for _, pairs in self.numbered(forecast))

    def numbered(self, forecast: Forecast) -> Iterator[tuple[int, Pairs]]:
        """Yield the predicted classes that occur with their pairs."""
        pairs = self.pairs(forecast)
        if self.by is None:
            yield 0, pairs
            return
        for k in np.unique(forecast.top).tolist():
            yield k, pairs.take(forecast.top == k)

    def numbered_bins(self, forecast: Forecast, m: int) -> Bins:
        """Collect into bins, one row per class."""
        parts = [Bins.zeros(1, m)] * self.group_count(forecast.n_classes)
        for number, pairs in self.numbered(forecast):
            parts[number] = width_bins(pairs, m)
        return Bins.stack(parts)

    def occupied(self, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        """Leave out classes that are never predicted."""
        return tables if self.by is None else tuple(table for table in tables if len(table)) or tables[:1]

    def occupied_bins(self, bins: Bins) -> Bins:
        """Leave out classes that are never predicted."""
        if self.by is None:
            return bins
        used = bins.w.sum(axis=-1) > 0
        return Bins(bins.w[used], bins.ws[used], bins.wt[used])

    def join(self, powers: Floats, norm: float = 1.0) -> Floats:
        """Mean over the predicted classes, or the maximum for the maximum norm."""
        return np.asarray(powers.max(axis=-1) if math.isinf(norm) else powers.mean(axis=-1))

    def select(self, source: PairSource[T]) -> T | None:
        """Return the entropy pairs."""
        return source.entropy(by_predicted=self.by is not None)
