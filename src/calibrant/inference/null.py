"""What a calibrated model would score at this n: labels resampled from the forecasts themselves.

One-dimensional views resample the outcomes of table rows (distinct scores, or fine cells when there are very
many), class-wise ones draw one label per row for all classes together. Chunks of replicates run on all cores,
each with a generator of its own, so the numbers do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.declare import Recipe
from calibrant.core.edges import FINE, width_index
from calibrant.core.inputs import Forecast
from calibrant.core.parallel import map_chunks
from calibrant.core.tables import Bins, Table, cell_table, mass_bins, value_table
from calibrant.estimators import Binned, check_counts
from calibrant.metrics.recipes import CalibrationError, MeanScore
from calibrant.views import Classwise, Pooled, View

#: Above this many rows a table is keyed by fine cell instead of by distinct score.
_EXACT_ROWS = 20_000
#: Cells whose outcomes replicates draw then: within a cell the path of KS moves by less than 1 % of its own noise.
_NULL_CELLS = FINE // 8
#: Table entries worked on at once per thread.
_ENTRIES = 1 << 19
#: Rows × classes × replicates of label draws that a call may cost; beyond it there are fewer replicates.
_LABEL_WORK = 400_000_000
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Null:
    """Replicates of a measure under calibration."""

    values: Floats
    #: True when there are too few replicates to count tails: p-values then come from the normal law.
    few: bool = False

    @property
    def mean(self) -> float:
        """Mean over replicates."""
        return float(self.values.mean())

    @property
    def std(self) -> float:
        """Standard deviation over replicates."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else 0.0

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:
        """Return (1 + #{replicate ≥ observed})/(B + 1); two-sided: twice the smaller tail.

        Replicates within rounding of the observed value count as equal to it.
        """
        if self.few and self.std > 0:
            z = (observed - self.mean) / self.std
            return math.erfc(abs(z) / math.sqrt(2.0)) if two_sided else 0.5 * math.erfc(z / math.sqrt(2.0))
        slack = 1e-12 * max(1.0, abs(observed))
        above = (1 + int((self.values >= observed - slack).sum())) / (len(self.values) + 1)
        if not two_sided:
            return above
        below = (1 + int((self.values <= observed + slack).sum())) / (len(self.values) + 1)
        return min(1.0, 2.0 * min(above, below))

    def quantile(self, q: float) -> float:
        """Return a quantile of the replicates."""
        return float(np.quantile(self.values, q))


def null_values(
    recipes: Mapping[str, Recipe], forecast: Forecast, n_resamples: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Return the null distribution of several measures; measures of one view share their draws."""
    check_counts(forecast, "resampling labels")
    tables: dict[View, dict[str, CalibrationError]] = {}
    labels: dict[str, Recipe] = {}
    for name, recipe in recipes.items():
        if isinstance(recipe, CalibrationError) and _on_table(recipe):
            tables.setdefault(recipe.view, {})[name] = recipe
        elif forecast.has_vectors:
            labels[name] = recipe
    out: dict[str, Null] = {}
    for view, members in tables.items():
        if not forecast.has_vectors and not view.top_label_only:
            continue
        out.update(_from_table(members, resampling_table(forecast, view, _NULL_CELLS), n_resamples, rng))
    if labels:
        out.update(_from_labels(labels, _unweighted(forecast), n_resamples, rng))
    return {name: out[name] for name in recipes if name in out}


def _on_table(recipe: CalibrationError) -> bool:
    view = recipe.view
    if isinstance(recipe.estimator, Binned) and recipe.estimator.convention is not None:
        return False
    return not isinstance(view, Classwise | Pooled) and not getattr(view, "by", None)


def resampling_table(forecast: Forecast, view: View, grid: int = FINE) -> Table:
    """Return the table whose outcomes are resampled: by distinct score, or by fine cell when there are many rows."""
    pairs = view.pairs(forecast)
    return value_table(pairs) if forecast.n <= _EXACT_ROWS else cell_table(pairs, grid)


def draw_outcomes(table: Table, size: int, rng: np.random.Generator) -> Floats:
    """Draw Σw·t of every table row `size` times: binomial with the mean the forecast expects."""
    count = np.rint(table.w).astype(np.int64)
    p = np.clip(table.we / table.w, 0.0, 1.0)
    if (count == 1).all():
        return (rng.random((size, len(p)), dtype=np.float32) < p).astype(np.float64)
    single = count == 1
    out = np.empty((size, len(p)))
    out[:, single] = rng.random((size, int(single.sum())), dtype=np.float32) < p[single]
    many = ~single
    out[:, many] = rng.binomial(count[many], p[many], size=(size, int(many.sum())))
    return out


def _chunks(n_resamples: int, width: int) -> list[int]:
    step = max(1, min(n_resamples, _ENTRIES // max(1, width)))
    full, rest = divmod(n_resamples, step)
    return [step] * full + ([rest] if rest else [])


def _replicate(
    sizes: list[int], rng: np.random.Generator, run: Callable[[int, np.random.Generator], dict[str, Floats]]
) -> dict[str, Null]:
    """Run each chunk of replicates with its own generator and join the values."""
    jobs = list(zip(sizes, rng.spawn(len(sizes)), strict=True))
    parts = list(map_chunks(lambda job: run(*job), jobs))
    return {name: Null(np.concatenate([part[name] for part in parts])) for name in parts[0]}


def _from_table(
    members: dict[str, CalibrationError], table: Table, n_resamples: int, rng: np.random.Generator
) -> dict[str, Null]:
    def run(size: int, generator: np.random.Generator) -> dict[str, Floats]:
        replicated = table.with_outcomes(draw_outcomes(table, size, generator))
        return {
            name: np.asarray(recipe.finish(_state(recipe.estimator, replicated))) for name, recipe in members.items()
        }

    return _replicate(_chunks(n_resamples, len(table)), rng, run)


def _state(estimator: Any, table: Table) -> Any:
    if isinstance(estimator, Binned) and estimator.bins == "width" and table.grid and table.grid % estimator.n_bins:
        index = width_index(table.score, estimator.n_bins)  # a bin count that does not divide the grid
        return table._collect(index, estimator.n_bins)
    return estimator.state(table)


def _unweighted(forecast: Forecast) -> Forecast:
    """Turn integer weights into repeated rows: a weight of w draws w labels."""
    if forecast.weights is None:
        return forecast
    rows = np.repeat(np.arange(forecast.n), np.rint(forecast.weights).astype(np.int64))
    repeated = forecast.take(rows)
    repeated.weights = None
    return repeated


def draw_labels(forecast: Forecast, size: int, rng: np.random.Generator) -> Ints:
    """Draw one label per row from its forecast, `size` times: shape (size, n)."""
    out = np.empty((size, forecast.n), dtype=np.int64)
    for rows in forecast.chunks():
        cumulative = np.cumsum(forecast.block(rows), axis=1, dtype=np.float64)
        cumulative /= cumulative[:, -1:]
        uniform = rng.random((size, len(cumulative)))
        if cumulative.shape[1] <= 64:
            label = np.zeros(uniform.shape, dtype=np.int64)
            for k in range(cumulative.shape[1] - 1):
                label += uniform > cumulative[:, k]
        else:
            offset = np.arange(len(cumulative))  # one sorted vector for all rows: row i lives in (i, i + 1]
            flat = (cumulative + offset[:, None]).ravel()
            label = np.searchsorted(flat, uniform + offset) - offset * cumulative.shape[1]
            np.clip(label, 0, cumulative.shape[1] - 1, out=label)
        out[:, rows] = label
    return out


def _from_labels(
    recipes: dict[str, Recipe], forecast: Forecast, n_resamples: int, rng: np.random.Generator
) -> dict[str, Null]:
    affordable = max(_FEWEST, _LABEL_WORK // (forecast.n * forecast.n_classes))
    few = affordable < n_resamples
    n_resamples = min(n_resamples, affordable)
    finishers = {name: _label_finisher(recipe, forecast) for name, recipe in recipes.items()}

    def run(size: int, generator: np.random.Generator) -> dict[str, Floats]:
        labels = draw_labels(forecast, size, generator)
        return {name: finisher(labels) for name, finisher in finishers.items()}

    # a few replicates at a time even of many rows: the cumulative probabilities are added up once for all of them
    found = _replicate(_chunks(n_resamples, min(forecast.n, _ENTRIES // 5)), rng, run)
    return {name: Null(null.values, few) for name, null in found.items()}


def _label_finisher(recipe: Recipe, forecast: Forecast) -> Callable[[Ints], Floats]:
    """Return a function from labels (size, n) to replicate values, as vectorised as the recipe allows."""
    small = forecast.n * forecast.n_classes <= 5_000_000
    if isinstance(recipe, CalibrationError) and isinstance(recipe.estimator, Binned):
        view = recipe.view
        plain = recipe.estimator.convention is None and getattr(view, "threshold", None) is None
        if small and plain and isinstance(view, Classwise):
            return _classwise_finisher(recipe, forecast)
        if plain and isinstance(view, Classwise) and recipe.estimator.bins == "width":
            return _wide_finisher(recipe, forecast)
    if small and isinstance(recipe, MeanScore):
        return _score_finisher(recipe, forecast)

    def one_by_one(labels: Ints) -> Floats:
        return np.array([recipe.value(forecast.with_codes(row)) for row in labels])

    return one_by_one


def _classwise_finisher(recipe: CalibrationError, forecast: Forecast) -> Callable[[Ints], Floats]:
    estimator: Any = recipe.estimator
    bins: Bins = recipe.fill(forecast)  # type: ignore[assignment]  # Binned fills Bins
    k, m = bins.w.shape
    index = np.empty((forecast.n, k), dtype=np.int32)
    for j in range(k):
        column = forecast.column(j)
        if estimator.bins == "mass":
            edges = np.sort(column)[-(-np.arange(1, m) * forecast.n // m) - 1]
            index[:, j] = np.searchsorted(edges, column, side="left")
        else:
            index[:, j] = width_index(column, m)
    index += np.arange(k, dtype=np.int32) * m
    rows = np.arange(forecast.n)

    def finish(labels: Ints) -> Floats:
        cells = index[rows, labels] + (np.arange(len(labels)) * (k * m))[:, None]
        wt = np.bincount(cells.ravel(), minlength=len(labels) * k * m).astype(np.float64)
        return np.asarray(recipe.finish(bins.with_outcomes(wt.reshape(len(labels), k, m))))

    return finish


def _wide_finisher(recipe: CalibrationError, forecast: Forecast) -> Callable[[Ints], Floats]:
    """Classwise width bins of a large matrix: only the score of the drawn class is looked up, O(n) per replicate."""
    bins: Bins = recipe.fill(forecast)  # type: ignore[assignment]  # Binned fills Bins
    k, m = bins.w.shape

    def one(labels: Ints) -> float:
        cells = labels * m + width_index(forecast.with_codes(labels).true_score, m)
        wt = np.bincount(cells, minlength=k * m).astype(np.float64).reshape(k, m)
        return float(recipe.finish(bins.with_outcomes(wt)))

    return lambda labels: np.array([one(row) for row in labels])


def _score_finisher(recipe: MeanScore, forecast: Forecast) -> Callable[[Ints], Floats]:
    possible = np.stack(
        [recipe.rows(forecast.with_codes(np.full(forecast.n, j))) for j in range(forecast.n_classes)], axis=1
    )
    rows = np.arange(forecast.n)

    def finish(labels: Ints) -> Floats:
        means = possible[rows, labels].mean(axis=1)
        return means if recipe.link is None else np.array([recipe.link(value) for value in means])

    return finish


__all__ = ["Null", "draw_labels", "draw_outcomes", "mass_bins", "null_values", "resampling_table"]
