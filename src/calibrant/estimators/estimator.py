"""What an estimator is, the bins most errors use, and the calibration error that view, estimator and norm make."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core import conventions
from calibrant.core.declare import Recipe, check_norm
from calibrant.core.inputs import Forecast, check_flag, check_n_bins, check_names
from calibrant.core.resampling import KEPT_CELLS, class_cells, class_outcomes
from calibrant.core.tables import COARSE, Bins, Pairs, Table, even_cells, sum_by, value_table, width_index
from calibrant.core.weights import mass_edges
from calibrant.errors import input_error
from calibrant.estimators.precision import EXACT, Precision
from calibrant.views import View

State = Bins | tuple[Table, ...]
#: Cells of the cumulative process in an interval; more change nothing visible.
_PATH_CELLS = 400
#: Cells inside which labels may be drawn together where only bins count.
_JOINT = 120


class Noise(Enum):
    """What a calibration error is of the cell means m_c = E[(t − s)·1(c)], whose estimates have Gaussian noise."""

    #: The supremum of the cumulative path |Σ_{c ≤ σ} m_c|.
    PATH = "path"
    #: The sum Σ|m_c|.
    ABSOLUTE = "absolute"
    #: The root of Σ m_c²/w_c.
    SQUARE = "square"
    #: A norm √(m′Gm) in a kernel space, with `Estimator.gram` as G.
    KERNEL = "kernel"


@dataclass(frozen=True)
class Estimator:
    """Base of all estimators."""

    #: False when the estimator defines its own distance and a norm has no meaning.
    has_norm: ClassVar[bool] = True

    #: True when the error is the supremum of a cumulative path.
    is_path: ClassVar[bool] = False

    @property
    def needs_rows(self) -> str | None:
        """What about it needs the rows, or None when tables suffice."""
        return None

    @property
    def from_tables(self) -> bool:
        """Whether tables of any key suffice."""
        return self.needs_rows is None

    @property
    def needs_counts(self) -> bool:
        """Whether weights must be whole numbers."""
        return False

    @property
    def width_bins(self) -> int | None:
        """Number of equal-width bins, None for every other estimator."""
        return None

    def fill(self, forecast: Forecast, view: View) -> State:
        """Return one exact table per group."""
        if not view.single_group:
            return tuple(value_table(pairs) for pairs in view.groups(forecast))
        return (forecast.keep(("values", view), lambda: value_table(view.pairs(forecast))),)

    def state(self, table: Table) -> State:
        """Return the state that `power` finishes, from one table of a single group."""
        return (table,)

    def state_of(self, tables: Sequence[Table]) -> State:
        """Return the state that `power` finishes, from the tables of all groups."""
        return tuple(tables)

    def bin_index(self, pairs: Pairs) -> Ints | None:  # noqa: ARG002 -- only bins have it
        """Return the bin of each pair, None where there are no bins."""
        return None

    def row_bins(self, table: Table) -> Ints | None:  # noqa: ARG002 -- only bins have it
        """Return the bin of each table row where only sums of bins count, else None."""
        return None

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:  # noqa: ARG002 -- those with a bound need it
        """Say how far a value from these cells may be from the value from rows."""
        return Precision(None, "approximate: scores within a cell are pooled, without a useful worst-case bound")

    def joint_cells(self, grid: int) -> int | None:
        """Return how many neighboring cells may draw their labels together; None: each alone."""
        return max(grid // COARSE, 1)

    def label_outcomes(self, forecast: Forecast, view: View) -> Callable[[Ints], Floats] | None:  # noqa: ARG002
        """Return a function from drawn labels, shape (size, n), to outcome sums of the state; None if there is none."""
        return None

    def class_cells(self, forecast: Forecast, view: View) -> tuple[Ints, int] | None:  # noqa: ARG002 -- bins have it
        """Return the bin of every row and class and their number; None where there are no such bins."""
        return None

    def noise(self, norm: float, root: bool) -> Noise | None:  # noqa: ARG002 -- bins need it
        """Return which function of noisy cell means the error is; None where no interval is verified."""
        return None

    def noise_cells(self, pairs: Pairs) -> tuple[Ints, int]:
        """Return the cell of each pair and the number of cells whose noise counts."""
        return even_cells(pairs, _PATH_CELLS)

    def gram(self, scores: Floats) -> Floats:
        """Return the inner products of cells at these scores."""
        return np.eye(len(scores))

    def power(self, state: State, norm: float) -> Floats:
        """Return the p-th power of the error of each group (last axis); the error itself for the maximum norm."""
        if isinstance(state, Bins):
            raise TypeError(f"{type(self).__name__} works on tables, not on bins")
        groups = [self.table_power(table, norm) if table.total > 0 else self._nothing(table) for table in state]
        return np.stack(groups, axis=-1)

    def _nothing(self, table: Table) -> Floats:
        return np.zeros(table.wt.shape[:-1])

    def table_power(self, table: Table, norm: float) -> Floats:
        """Return the p-th power of the error on one table."""
        raise TypeError(f"{type(self).__name__} does not finish one table of {len(table)} rows in norm {norm}")

    def check(self, view: View, norm: float) -> None:
        """Refuse combinations without a meaning, and say why."""
        name = type(self).__name__
        if view.canonical:
            raise input_error(
                "view",
                "calibration_error",
                f"give pairs (score, outcome) for {name}",
                "Canonical()",
                "the whole vector is judged by skce, ce-kde and the proper scores",
            )
        if not self.has_norm and norm != 1:
            raise input_error(
                "norm",
                "calibration_error",
                f"be left at 1: {name} defines its own distance",
                f"{norm}",
                "drop norm=, or use Binned, KDE, Local or Isotonic",
            )


def mean_power(gap: Floats, weight: Floats, norm: float) -> Floats:
    """Return Σ w·gap^p / Σ w over the last axis; the largest gap with weight for p = ∞."""
    if math.isinf(norm):
        return np.asarray(np.where(weight > 0, gap, 0.0).max(axis=-1))
    return np.asarray((weight * gap**norm).sum(axis=-1) / weight.sum(axis=-1))


def row_tables(forecast: Forecast, view: View) -> tuple[Table, ...]:
    """Return one table per group whose rows are the pairs themselves, neither sorted nor pooled."""
    return tuple(
        Table.of(0, pairs.score.astype(np.float64), np.ones(len(pairs.score)), pairs, np.asarray)
        for pairs in view.groups(forecast)
    )


def over_replicates(function: Callable[[Floats], float], wt: Floats) -> Floats:
    """Apply a scalar function of the outcome sums to each replicate."""
    flat = wt.reshape(-1, wt.shape[-1])
    return np.array([function(row) for row in flat]).reshape(wt.shape[:-1])


def root(power: Array, norm: float) -> Floats:
    """Return the p-th root; the maximum norm has none.

    Examples
    --------
    >>> float(root(np.array(0.25), 2))
    0.5
    """
    if math.isinf(norm) or norm == 1:
        return np.asarray(power)
    return np.asarray(np.maximum(power, 0.0) ** (1.0 / norm))


@dataclass(frozen=True)
class Binned(Estimator):
    """Mean outcome against mean score in bins.

    Parameters
    ----------
    n_bins : int
        Number of bins.
    bins : {"width", "mass"}
        Equal width, or equal mass with edges at order statistics (equal scores never split).
    average : {"count", "range"}
        Weigh a bin by its count, or all non-empty bins alike.
    debias : bool
        Subtract t̄(1 − t̄)/(n_b − 1) per bin (p = 2 only); the sum is clipped at 0 once, over bins and classes.
    convention : str or None
        Another library's bin edges by name: "nixon", "kull", "gruber", "torchmetrics", "netcal".
    """

    n_bins: int = 15
    bins: str = "width"
    average: str = "count"
    debias: bool = False
    convention: str | None = None

    def __post_init__(self) -> None:
        check_n_bins(self.n_bins, "Binned")
        check_names(self.bins, ("width", "mass"), "bins", "Binned")
        check_names(self.average, ("count", "range"), "average", "Binned")
        check_flag(self.debias, "debias", "Binned")
        if self.convention is not None:
            check_names(self.convention, conventions.NAMES, "convention", "Binned")

    def check(self, view: View, norm: float) -> None:
        """Refuse debiasing of anything but the squared error."""
        super().check(view, norm)
        if self.debias and norm != 2:
            raise input_error(
                "debias",
                "calibration_error",
                "go with norm=2: only the squared error has this correction",
                f"norm={norm}",
                "pass norm=2 or debias=False",
            )

    def fill(self, forecast: Forecast, view: View) -> Bins:
        """Collect the view into bins: no sort for equal width."""
        if self.debias:
            forecast.need_counts("debias")
        if self.convention is not None:
            return self._fill_convention(forecast, view)
        if self.bins == "mass":
            return view.mass_bins(forecast, self.n_bins)
        return view.width_bins(forecast, self.n_bins)

    @property
    def needs_rows(self) -> str | None:
        """Another code's bins need the rows."""
        return None if self.convention is None else f"convention={self.convention!r}"

    @property
    def needs_counts(self) -> bool:
        """Whether weights must be whole numbers: for debiasing."""
        return self.debias

    @property
    def width_bins(self) -> int | None:
        """Number of equal-width bins; None for equal mass and other codes' bins."""
        return self.n_bins if self.bins == "width" and self.convention is None else None

    def row_bins(self, table: Table) -> Ints | None:
        """Return the bin of each table row; None for other codes' bins."""
        if self.convention is not None:
            return None
        return table.mass_of_row(self.n_bins) if self.bins == "mass" else table.bin_of_row(self.n_bins)

    def state(self, table: Table) -> Bins:
        """Collect one table into bins."""
        return table.mass_bins(self.n_bins) if self.bins == "mass" else table.bins(self.n_bins)

    def state_of(self, tables: Sequence[Table]) -> Bins:
        """Collect the tables of all groups into bins."""
        of_row = Table.mass_of_row if self.bins == "mass" else Table.bin_of_row
        return Bins.stack([table.collect(of_row(table, self.n_bins), self.n_bins) for table in tables])

    def bin_index(self, pairs: Pairs) -> Ints | None:
        """Return the bin of each pair; None for other codes' bins."""
        if self.convention is not None:
            return None
        if self.bins == "width":
            return width_index(pairs.score, self.n_bins)
        order = np.argsort(pairs.score, kind="stable")
        w = np.ones(len(order)) if pairs.weight is None else pairs.weight[order]
        edges = pairs.score[order][mass_edges(w, self.n_bins)]
        return np.asarray(np.searchsorted(edges, pairs.score, side="left"))

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:  # noqa: ARG002 -- exact on every table
        """Say that equal-width bins are exact and edges of equal mass fall on cell borders."""
        if self.bins == "width":
            return EXACT
        return Precision(None, "approximate: range edges fall on cell borders, without a useful worst-case bound")

    def joint_cells(self, grid: int) -> int | None:
        """Return how many neighboring cells lie in one bin and close together."""
        if self.bins != "width":
            return super().joint_cells(grid)
        return None if grid % self.n_bins else math.gcd(grid // _JOINT, grid // self.n_bins)

    def label_outcomes(self, forecast: Forecast, view: View) -> Callable[[Ints], Floats] | None:
        """Return a function from drawn labels to outcome sums of the bins of all classes."""
        if self.convention is not None or not view.per_class or view.lowest is not None:
            return None
        if self.bins != "width" and forecast.n * forecast.n_classes > KEPT_CELLS:
            return None
        return class_outcomes(forecast, self.n_bins, self.bins)

    def class_cells(self, forecast: Forecast, view: View) -> tuple[Ints, int] | None:
        """Return the bin of every row and class and their number; None for other views and other codes' bins."""
        whole = self.convention is None and view.per_class and view.lowest is None
        if not whole or forecast.n * forecast.n_classes > KEPT_CELLS:
            return None
        return class_cells(forecast, self.n_bins, self.bins), forecast.n_classes * self.n_bins

    def noise(self, norm: float, root: bool) -> Noise | None:
        """Return the absolute sum or the square norm of bin means."""
        if self.convention is not None or not root or self.average != "count":
            return None
        return {1.0: Noise.ABSOLUTE, 2.0: Noise.SQUARE}.get(norm)

    def noise_cells(self, pairs: Pairs) -> tuple[Ints, int]:
        """Return the bins."""
        index = self.bin_index(pairs)
        return super().noise_cells(pairs) if index is None else (index, self.n_bins)

    def _fill_convention(self, forecast: Forecast, view: View) -> Bins:
        parts = []
        for pairs in view.groups(forecast):
            index, count = conventions.assign(
                str(self.convention),
                pairs.score.astype(np.float64),
                self.n_bins,
                self.bins,
                classwise=view.per_class,
            )
            weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
            sums = (weight, weight * pairs.score, weight * pairs.outcome)
            parts.append([sum_by(index, values, count) for values in sums])
        m = max((len(part[0]) for part in parts), default=1)
        padded = [[np.pad(values, (0, m - len(values))) for values in part] for part in parts]
        return Bins(*(np.stack([part[i] for part in padded]) for i in range(3)))

    def power(self, state: State, norm: float) -> Floats:
        """Return the p-th power of the binned error of each group."""
        if not isinstance(state, Bins):
            raise TypeError("Binned works on Bins")
        filled = state.w > 0
        weight = np.where(filled, state.w, 1.0)
        frequency = state.wt / weight
        gap = np.abs(frequency - state.ws / weight)
        share = filled * 1.0 if self.average == "range" else np.where(filled, state.w, 0.0)
        if math.isinf(norm):
            return np.asarray(np.where(filled, gap, 0.0).max(axis=-1))
        power = gap**norm
        if self.debias:
            noise = frequency * (1 - frequency) / np.where(state.w > 1, state.w - 1, 1.0)
            power = np.where(state.w > 1, power - noise, 0.0)
        total = share.sum(axis=-1)
        return np.asarray((share * power).sum(axis=-1) / np.where(total > 0, total, 1.0))


def binned(n_bins: int, bins: str, convention: str | None, *, average: str = "count", debias: bool = False) -> Binned:
    """Return the binned estimator; a convention brings its own average.

    Examples
    --------
    >>> binned(15, "mass", "nixon", average="range").average  # this code weighs bins by their count
    'count'
    """
    if convention is not None:
        average = conventions.convention(convention).average if str(bins) == "mass" else "count"
    return Binned(n_bins, bins, average, debias, convention)


@dataclass(frozen=True)
class CalibrationError(Recipe):
    """A calibration error: the view gives pairs, the estimator a distance, the norm the mean."""

    view: View
    estimator: Estimator
    norm: float = 1.0
    root: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", check_norm(self.norm, "calibration_error"))
        check_flag(self.root, "root", "calibration_error")
        if not isinstance(self.estimator, Estimator):
            hint = "pass for example calibrant.estimators.Binned(15)"
            raise input_error("estimator", "calibration_error", "be an estimator", repr(self.estimator), hint)
        self.estimator.check(self.view, self.norm)

    def fill(self, forecast: Forecast) -> State:
        """Return tables or bins, one per group."""
        return self.estimator.fill(forecast, self.view)

    def finish(self, state: State) -> Floats:
        """Join the groups' p-th powers and take the root; leading axes (replicates) stay."""
        power = np.maximum(self.view.join(self.estimator.power(state, self.norm), self.norm), 0.0)
        return root(power, self.norm) if self.root else power

    @property
    def top_label_only(self) -> bool:
        """Whether top-label pairs suffice."""
        return self.view.top_label_only

    @property
    def on_tables(self) -> bool:
        """View and estimator work on tables."""
        return True

    @property
    def is_path(self) -> bool:
        """Whether the estimator takes the largest excursion of the cumulative path."""
        return self.estimator.is_path

    def resampled_view(self) -> View | None:
        """Return the view if its pairs can be drawn one by one and its table holds all the estimator needs."""
        return self.view if self.view.one_table and self.estimator.from_tables else None

    def from_tables(self, tables: Sequence[Table]) -> Floats:
        """Return the value of the tables of the view, one per group."""
        return self.finish(self.estimator.state_of(tables))

    def joint_cells(self, grid: int) -> int | None:
        """Return how many neighboring cells the estimator need not tell apart."""
        return self.estimator.joint_cells(grid)

    def row_bins(self, table: Table) -> Ints | None:
        """Return the bin of each table row where only sums of bins count, else None."""
        return self.estimator.row_bins(table)

    def class_cells(self, forecast: Forecast) -> tuple[Ints, int] | None:
        """Return the bin of every row and class and their number; None for other views and estimators."""
        return self.estimator.class_cells(forecast, self.view)

    def outcome_values(self, forecast: Forecast) -> Callable[[Floats], Floats]:
        """Return a function from drawn residuals of the bins of all classes to replicates."""
        bins: Bins = self.fill(forecast)  # type: ignore[assignment]  # only Binned has such cells
        return lambda drawn: np.asarray(
            self.finish(bins.with_outcomes(bins.ws + drawn.reshape(len(drawn), *bins.ws.shape)))
        )

    def label_values(self, forecast: Forecast) -> Callable[[Ints], Floats]:
        """Return a function from drawn labels to replicates, through bins where the estimator allows it."""
        outcomes = self.estimator.label_outcomes(forecast, self.view)
        if outcomes is None:
            return super().label_values(forecast)
        bins: Bins = self.fill(forecast)  # type: ignore[assignment]  # only Binned offers outcomes of bins
        return lambda labels: np.asarray(self.finish(bins.with_outcomes(outcomes(labels))))
