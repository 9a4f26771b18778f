"""What checked predictions answer: probabilities of rows and classes, tables, null distributions.

The matrix is kept in its own dtype and never copied; `Forecast.block` hands out cache-sized pieces in which
rounding, row scaling and softmax have been applied. `calibrant.core.inputs` makes and checks the forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints, Space
from calibrant.core.cells import evened, fill_cells
from calibrant.core.class_draws import replicate_class_signs
from calibrant.core.clusters import TableSigns, few_clusters
from calibrant.core.counts import ClassCounts
from calibrant.core.parallel import row_chunks
from calibrant.core.resampling import (
    Null,
    PathNull,
    replicate_labels,
    replicate_signs,
    replicate_tables,
)
from calibrant.core.row_evidence import RowEvidence
from calibrant.core.surprises import RareNull
from calibrant.core.tables import COARSE, FINE, TEST_STEPS, Pairs, Table, value_table
from calibrant.errors import input_error

if TYPE_CHECKING:
    from calibrant.core.declare import Recipe
    from calibrant.core.inputs import Forecast
    from calibrant.evidence import Task

#: Above this many rows labels are drawn for fine cells, as in a summary, instead of for distinct scores.
_EXACT_ROWS = 20_000


class ForecastAnswers(RowEvidence):
    """What a `calibrant.core.inputs.Forecast` answers from its codes, matrix and weights."""

    codes: Ints
    matrix: Array | None
    classes: tuple[Any, ...] | None
    n_classes: int
    space: Space
    _clip: bool
    _scale: Floats | None
    _lse: Floats | None
    _log_odds: Floats | None
    _top: Ints | None
    _top_score: Array | None
    _hit: Bools | None
    _kept: dict[Any, Any]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, computed once: the metrics of one table share sorts and sums."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def task(self) -> Task:
        """Class probabilities, or top-label pairs."""
        return "classes" if self.has_vectors else "pairs"

    @property
    def has_vectors(self) -> bool:
        """Whether the whole probability vector of each row is known."""
        return self.matrix is not None

    @cached_property
    def true_score(self) -> Floats:
        """Probability given to the truth, float64."""
        self._need_vectors("the probability of the true class")
        if self.matrix is not None and self.matrix.ndim == 1:
            one = self.column(1)
            return np.where(self.codes == 1, one, 1 - one).astype(np.float64)
        rows = np.arange(self.n)
        raw = np.asarray(self.matrix)[rows, self.codes].astype(np.float64)
        return self._finish(raw, slice(0, self.n))

    @cached_property
    def true_log_score(self) -> Floats:
        """Log-probability of the truth; −inf at an exact zero, from the logits themselves where they are known."""
        if self._lse is not None and self.matrix is not None:
            return self.matrix[np.arange(self.n), self.codes].astype(np.float64) - self._lse
        if self._log_odds is not None:
            signed = np.where(self.codes == 1, self._log_odds, -self._log_odds)
            return np.asarray(-np.logaddexp(0.0, -signed))
        with np.errstate(divide="ignore"):
            return np.log(self.true_score)

    def _need_vectors(self, what: str) -> None:
        if self.matrix is None:
            rule = f"hold whole probability vectors, because {what} is needed"
            hint = "pass the (n, K) matrix, or ask for a top-label metric such as ece or ks"
            raise input_error("y_proba", self.caller, rule, "top-label pairs", hint)

    def _finish(self, raw: Array, rows: slice) -> Any:
        """Apply clip, row scale or softmax to raw values of `rows` (any trailing shape)."""
        if self._lse is not None:
            lse = self._lse[rows]
            return np.exp(raw.astype(np.float64) - (lse[:, None] if raw.ndim == 2 else lse))
        if self._scale is not None:
            scale = self._scale[rows]
            return np.clip(raw.astype(np.float64) * (scale[:, None] if raw.ndim == 2 else scale), 0.0, 1.0)
        return np.clip(raw, 0, 1) if self._clip else raw

    def chunks(self) -> list[slice]:
        """Row slices whose blocks fit the cache."""
        width = max(1, self.n_classes) * 8
        return row_chunks(self.n, width if self.matrix is not None and self.matrix.ndim == 2 else 0)

    def block(self, rows: slice) -> Array:
        """Probabilities of some rows, shape (rows, K); a view of the input where nothing had to be done."""
        self._need_vectors("the probability of every class")
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            one = self.column(1)[rows]
            return np.stack([1 - one, one], axis=1)
        return np.asarray(self._finish(matrix[rows], rows))

    def log_block(self, rows: slice) -> Floats:
        """Log-probabilities of some rows, shape (rows, K); −inf at an exact zero, from the logits where known."""
        if self._lse is not None:
            return np.asarray(np.asarray(self.matrix)[rows].astype(np.float64) - self._lse[rows, None])
        if self._log_odds is not None:
            odds = self._log_odds[rows]
            return np.stack([-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)], axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.block(rows).astype(np.float64)))

    def column(self, k: int) -> Array:
        """Probability of class `k` for every row."""
        if k == 1 and self.matrix is not None and self.matrix.ndim == 1:
            return np.asarray(self._finish(self.matrix, slice(0, self.n)))
        return np.asarray(self.columns(k, k + 1)[0])

    def columns(self, start: int, stop: int) -> Array:
        """Probabilities of classes `start` … `stop`−1 as contiguous rows, shape (stop−start, n)."""
        self._need_vectors("the probability of one class")
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            one = self._finish(matrix, slice(0, self.n))
            return np.stack([one if k == 1 else 1 - one for k in range(start, stop)])
        raw = self._finish(matrix[:, start:stop], slice(0, self.n))
        out = np.empty(raw.shape[::-1], raw.dtype)
        for first in range(0, self.n, 512):  # so few rows stay in the cache until all their columns are written
            out[:, first : first + 512] = raw[first : first + 512].T
        return out

    def proba(self) -> Floats:
        """The whole matrix as float64 (a copy: for row-wise metrics and calibrators at moderate size)."""
        return np.concatenate([self.block(rows).astype(np.float64) for rows in self.chunks()])

    def with_codes(self, codes: Ints) -> Self:
        """Return the same forecasts with other outcomes (resampled labels); nothing is checked or copied again."""
        other = copy(self)
        other.codes = codes
        other._kept = {}  # what was kept belongs to the old outcomes
        other._hit = None if self.matrix is not None else codes.astype(bool)
        for derived in ("true_score", "true_log_score", "_whole"):
            other.__dict__.pop(derived, None)
        return other

    def take(self, rows: Array) -> Self:
        """Return some rows (indices or a mask) as a forecast of their own; nothing is checked again."""
        other = self.with_codes(self.codes[rows])
        for name in ("matrix", "weights", "_scale", "_lse", "_log_odds", "_top", "_top_score"):
            value = getattr(self, name)
            setattr(other, name, None if value is None else value[rows])
        other._hit = None if self._hit is None else self._hit[rows]
        return other

    # -- what evidence answers ---------------------------------------------------------------

    def answers(self, recipe: Recipe) -> bool:
        """Whether the vectors a metric needs are known."""
        return self.has_vectors or recipe.top_label_only

    def pairs_of(self, view: Any) -> Pairs:
        """Return scores and outcomes of a view with one group."""
        pairs: Pairs = view.pairs(self)
        return pairs

    def state(self, recipe: Recipe) -> Any:
        """Return the state a metric is finished from."""
        return recipe.fill(self)

    def tables(self, view: Any) -> tuple[Table, ...]:
        """Return the exact tables of a view, one per group."""
        if view.single_group:
            return (self.keep(("values", view), lambda: value_table(view.pairs(self))),)
        return tuple(value_table(pairs) for pairs in view.groups(self))

    def resampling_table(self, view: Any) -> Table:
        """Return the table whose outcomes are resampled: by distinct score, or by cell when there are many rows."""
        exact = self.n <= _EXACT_ROWS
        key = ("values" if exact else "cells", view)  # estimators keep their exact table under the first name
        table: Table = self.keep(
            key, lambda: value_table(view.pairs(self)) if exact else fill_cells(view.pairs(self), FINE)
        )
        return table

    def coarse_table(self, view: Any) -> Table:
        """Return the cells of the coarse grid, on which slices are tested whatever form they have."""
        return fill_cells(view.pairs(self), COARSE)

    def test_table(self, view: Any) -> Table:
        """Return the steps of the joint test: the cells that a summary keeps of this view, joined to a thousand."""
        return evened(fill_cells(view.pairs(self), FINE if view.top_label_only else COARSE), TEST_STEPS)

    def class_counts(self) -> ClassCounts | None:
        """Return what happened to every class and what the forecast says of it; None for top-label pairs."""
        if not self.has_vectors:
            return None
        blocks = ((self.block(rows), rows) for rows in self.chunks())
        top = cast("Forecast", self).top
        return ClassCounts.of_blocks(blocks, self.codes, top, self.weights, self.n_classes)

    def null_draws(
        self,
        recipes: Mapping[str, Recipe],
        n_resamples: int,
        rng: np.random.Generator,
        clusters: Ints | None = None,
    ) -> dict[str, Null | PathNull | RareNull]:
        """Return null distributions: outcomes of tables where a row gives one pair, whole labels otherwise.

        With `clusters` the signs of whole clusters are drawn; fewer than ten clusters give nothing.
        """
        if few_clusters(clusters):
            return {}
        by_view: dict[Any, dict[str, Recipe]] = {}
        labels: dict[str, Recipe] = {}
        for name, recipe in recipes.items():
            view = recipe.resampled_view()
            if view is None:
                labels[name] = recipe
            elif self.has_vectors or view.top_label_only:
                by_view.setdefault(view, {})[name] = recipe
        out: dict[str, Null | PathNull | RareNull] = {}
        for view, members in by_view.items():
            table = self.resampling_table(view)
            if clusters is None:
                out |= replicate_tables(members, (table,), n_resamples, rng)
            else:
                out |= replicate_signs(members, table, TableSigns(table, view.pairs(self), clusters), n_resamples, rng)
        if clusters is not None:
            bins = {name: cells for name, recipe in labels.items() if (cells := recipe.class_cells(self)) is not None}
            if bins and self.has_vectors:
                out |= replicate_class_signs(labels, bins, cast("Forecast", self), clusters, n_resamples, rng)
        elif labels and self.has_vectors:
            out |= replicate_labels(labels, cast("Forecast", self.repeated()), n_resamples, rng)
        return out

    def repeated(self) -> Self:
        """Turn integer weights into repeated rows: a weight of w draws w labels."""
        if self.weights is None:
            return self
        other = self.take(np.repeat(np.arange(self.n), np.rint(self.weights).astype(np.int64)))
        other.weights = None
        return other
