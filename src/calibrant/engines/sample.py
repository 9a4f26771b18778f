"""A uniform sample of rows in one streaming pass, for methods that need their rows in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array, Bools, Floats
from calibrant.engines.batches import Batch, batches, first_length, reduce_rows
from calibrant.engines.frame_rows import label_values, refuse_counted
from calibrant.engines.private import private
from calibrant.errors import input_error
from calibrant.io.layout import Columns, Layout
from calibrant.io.predictions import Predictions
from calibrant.io.resolver import find_columns
from calibrant.summary.summary import REASONS

__all__ = ["Sample", "draw"]

#: A sample holds at most so many rows, and at most so many scores.
MOST_ROWS = 200_000
MOST_SCORES = 20_000_000


@dataclass(frozen=True)
class Sample:
    """Rows drawn at random, and what the pass over all rows counted."""

    predictions: Predictions
    #: Usable rows in all, rows left out by reason, rows with an exact 0 (or 1 of two).
    n: int
    rejected: dict[str, int]
    zeros: int

    @property
    def whole(self) -> bool:
        """Whether the sample is all there is."""
        return self.predictions.n == self.n


def draw(frame: Any, layout: Layout | None = None, *, seed: int = 0, normalize: bool = False) -> Sample:
    """Draw rows without replacement, every usable row with the same probability.

    Parameters
    ----------
    frame
        Any frame or relation Narwhals knows.
    layout : Layout, optional
        Names of the columns.
    seed : int, default 0
        The same rows in the same order and the same seed give the same sample, whatever the batches; on
        Spark whatever the batches within partitions.
    normalize : bool, default False
        Take rows that do not sum to 1; they are not rescaled here.

    Notes
    -----
    Every row gets a random number, and the rows with the smallest numbers stay; in memory are those and a
    batch. Spark counts in one pass and sends a thinned frame, a little larger than the sample, in a second.

    Examples
    --------
    >>> import polars as pl
    >>> sample = draw(pl.LazyFrame({"score": [0.9, 0.2, None], "label": [1, 0, 0]}))
    >>> sample.n, sample.rejected["missing"], sample.predictions.scores.tolist()
    (2, 1, [0.9, 0.2])
    """
    hidden = private(frame)
    found = find_columns(hidden.schema, layout or Layout(), values=label_values(hidden))
    table, columns = hidden.table, hidden.columns(found)
    if columns.kind == "pairs":
        raise input_error("frame", "fit", "hold probabilities or logits", "top-label pairs", "keep the vectors")
    k = first_length(table, columns) if columns.kind == "list" else max(len(columns.scores), 2)
    most = max(min(MOST_ROWS, MOST_SCORES // k), 1)
    counts = _Counts()
    if table.implementation.is_pyspark():
        counts.add(reduce_rows(table, columns, k, normalize, lambda stream: _count(stream, columns)))
        table = _thin(table.select(*columns.used), most, counts.n, seed)
        rows = batches(table, columns, k, normalize=normalize)
    else:
        rows = (counts.see(batch, columns) for batch in batches(table, columns, k, normalize=normalize))
    kept = _smallest(rows, most, np.random.default_rng(seed))
    refuse_counted(found, k, counts.rejected, label_values(hidden))
    if kept is None:
        listed = ", ".join(f"{count} rows {reason}" for reason, count in counts.rejected.items() if count)
        raise input_error(
            "frame", "fit", "hold at least one usable row", f"none ({listed or 'no rows at all'})", "check the columns"
        )
    scores, codes, weights = kept
    names = columns.classes or columns.names
    truth = codes if names is None else np.asarray(names)[codes]
    predictions = Predictions("vectors", scores, truth, columns.space, weights, names, source=found.scores)
    return Sample(predictions, counts.n, counts.rejected, counts.zeros)


class _Counts:
    """Running counts over all rows: usable, with an exact zero, left out by reason."""

    def __init__(self) -> None:
        self._total = np.zeros(2 + len(REASONS))

    def add(self, counts: Floats) -> None:
        self._total += counts

    def see(self, batch: Batch, columns: Columns) -> Batch:
        self.add(_count([batch], columns))
        return batch

    @property
    def n(self) -> int:
        return int(self._total[0])

    @property
    def zeros(self) -> int:
        return int(self._total[1])

    @property
    def rejected(self) -> dict[str, int]:
        return dict(zip(REASONS, map(int, self._total[2:]), strict=True))


def _count(stream: Iterable[Batch], columns: Columns) -> Floats:
    total = np.zeros(2 + len(REASONS))
    for batch in stream:
        total += [len(batch.codes), _zeros(batch.scores, columns).sum(), *batch.rejected.values()]
    return total


def _zeros(scores: Array, columns: Columns) -> Bools:
    if columns.space == "logit":
        return np.zeros(len(scores), dtype=bool)
    return np.asarray((scores <= 0).any(axis=1) if scores.ndim == 2 else (scores <= 0) | (scores >= 1))


def _thin(table: Any, most: int, n: int, seed: int) -> Any:
    """Collect a random part of a Spark frame, large enough for the sample but for one time in a billion."""
    share = (most + 6 * math.sqrt(most) + 10) / max(n, 1)
    native = table.to_native()
    return nw.from_native(native.sample(fraction=share, seed=seed) if share < 1 else native).collect()


def _smallest(rows: Iterable[Batch], most: int, rng: np.random.Generator) -> tuple[Array, Array, Array | None] | None:
    """Return scores, codes and weights of the rows with the `most` smallest random numbers, in their own order."""
    held: list[tuple[Array, ...]] = []
    size, border = 0, 1.0
    for batch in rows:
        key = rng.random(len(batch.codes))
        near = key < border
        if not near.any():
            continue
        weights = () if batch.weights is None else (batch.weights[near],)
        held.append((key[near], batch.scores[near], batch.codes[near], *weights))
        size += len(held[-1][0])
        if size > most + most // 4:
            held = [_cut(held, most)]
            size, border = most, float(held[0][0].max())
    if not held:
        return None
    _, scores, codes, *weights_ = _cut(held, most)
    return scores, codes, weights_[0] if weights_ else None


def _cut(held: list[tuple[Array, ...]], most: int) -> tuple[Array, ...]:
    joined = tuple(np.concatenate(column) for column in zip(*held, strict=True))
    if len(joined[0]) <= most:
        return joined
    inside = np.sort(np.argpartition(joined[0], most - 1)[:most])
    return tuple(column[inside] for column in joined)
