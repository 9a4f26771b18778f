"""Batches of rows made ready by one loop: what `frame_rows.prepare` says in expressions, for columns of plain numbers.

An engine then only reads: a fraction of the time of a dozen expressions, and of the memory of their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Array, Bools, Floats
from calibrant.engines.batches import _floats, raw_batches
from calibrant.io.layout import Columns

__all__ = ["Plain", "plain"]


@dataclass
class Plain:
    """Columns of numbers that need no expression: K probabilities, one of class 1, or a confidence, and a label."""

    table: Any
    columns: Columns
    n_classes: int
    tolerance: float
    #: Rows that the last pass has seen.
    rows: int = 0

    def batches(
        self, by: Sequence[str], size: int, *, top_only: bool = False
    ) -> Iterator[tuple[Floats, Floats | None, Bools | None, Any]]:
        """Yield columns `FrameRows.summed` (or the top two) of rows that count, weights, which rows count, all rows."""
        columns, self.rows = self.columns, 0
        names = [*columns.scores, columns.label, *([columns.weight] if columns.weight else []), *by]
        for raw in raw_batches(self.table, list(dict.fromkeys(names)), size):
            scores = np.stack([_floats(raw[name]) for name in columns.scores])
            label = _floats(raw[columns.label]).astype(np.float64, copy=False)
            weight = None if columns.weight is None else _floats(raw[columns.weight]).astype(np.float64, copy=False)
            if weight is not None:
                label = np.where((weight >= 0.0) & (weight <= 1.7e308), label, np.nan)
            self.rows += len(label)
            rows, good = self._ready(scores, np.ascontiguousarray(label), top_only)
            if good is not None and weight is not None:
                weight = weight[good]
            yield rows, weight, good, raw

    def _ready(self, scores: Array, label: Floats, top_only: bool) -> tuple[Floats, Bools | None]:
        """Return the columns of rows that count and, where some do not, which ones they are."""
        n, k, tolerance, good = len(label), self.n_classes, self.tolerance, None
        p, whole, most = scores.astype(np.float64), label == np.floor(label), max(k, 2) - 1.0
        low, high = p.min(initial=0.0), p.max(initial=1.0)
        with np.errstate(invalid="ignore"):
            gap = np.abs(p.sum(axis=0) - 1.0) if len(p) > 1 else np.zeros(n)
            fits = label.min(initial=0.0) >= 0.0 and label.max(initial=0.0) <= most and bool(whole.all())
            if not (fits and low >= -tolerance and high <= 1.0 + tolerance and gap.max(initial=0.0) <= tolerance):
                inside = ((p >= -tolerance) & (p <= 1.0 + tolerance)).all(axis=0)
                good = np.asarray(inside & (label >= 0.0) & (label <= most) & whole & (gap <= tolerance))
                p, label = p[:, good], label[good]
        if good is not None or low < 0.0 or high > 1.0:
            np.clip(p, 0.0, 1.0, out=p)
        if k and len(p) == 1:  # the difference is rounded as its own dtype does
            p = np.concatenate([(1.0 - p).astype(scores.dtype).astype(np.float64), p])
        top, best = p[0].copy(), np.zeros(len(label))
        for j in range(1, len(p)):
            np.copyto(best, float(j), where=p[j] > top)
            np.maximum(top, p[j], out=top)
        return np.stack([top, best == label if k else label, *(() if top_only or not k else (label, *p))]), good


def plain(table: Any, columns: Columns, n_classes: int, tolerance: float, normalize: bool) -> Plain | None:
    """Return how to make rows ready without expressions; None where their columns are not plain numbers."""
    schema = table.collect_schema()
    kinds = {str(schema[name]) for name in columns.scores}
    label, words = schema[columns.label], columns.classes is not None or columns.predicted is not None
    numbers = kinds in ({"Float32"}, {"Float64"}) and str(label).startswith(("Int", "UInt", "Float", "Bool"))
    if not numbers or words or normalize or columns.space == "logit":
        return None
    return Plain(table, columns, n_classes, tolerance)
