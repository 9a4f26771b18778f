"""Estimators: how far E[t | s] is from s, given pairs.

Each estimator says which table it needs (`fill`) and how the p-th power of the error follows from it
(`power`); outcome sums may carry leading axes, so replicates are finished by the same lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core import conventions
from calibrant.core.curves import isotonic_curve, kde_curves, local_curve, smooth_error
from calibrant.core.inputs import Forecast, check_names
from calibrant.core.kernels import laplace_sum
from calibrant.core.pool import cumulative_extent
from calibrant.core.tables import Bins, Table, value_table
from calibrant.errors import input_error
from calibrant.views import Canonical, Classwise, View

__all__ = ["KDE", "Binned", "Cumulative", "Estimator", "Isotonic", "Kernel", "Local", "Smooth", "State"]

State = Bins | tuple[Table, ...]


def _positive(value: float, argument: str, caller: str) -> None:
    if not (isinstance(value, int | float | np.number) and math.isfinite(value) and value > 0):
        raise input_error(argument, caller, "be a positive number", repr(value), "use the default")


@dataclass(frozen=True)
class Estimator:
    """Base of all estimators."""

    #: False when the estimator defines its own distance and a norm has no meaning.
    has_norm: ClassVar[bool] = True

    def fill(self, forecast: Forecast, view: View) -> State:
        """Return one exact table per group."""
        if view.grouped:
            return tuple(value_table(pairs) for pairs in view.groups(forecast))
        return (forecast.keep(("values", view), lambda: value_table(view.pairs(forecast))),)

    def state(self, table: Table) -> State:
        """Return the state that `power` finishes, from one table of a single group."""
        return (table,)

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
        if isinstance(view, Canonical):
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
        if isinstance(self.n_bins, bool) or not isinstance(self.n_bins, int | np.integer) or self.n_bins < 1:
            raise input_error("n_bins", "Binned", "be a positive whole number", repr(self.n_bins), "use 15")
        check_names(self.bins, ("width", "mass"), "bins", "Binned")
        check_names(self.average, ("count", "range"), "average", "Binned")
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
            check_counts(forecast, "debias")
        if self.convention is not None:
            return self._fill_convention(forecast, view)
        if self.bins == "mass":
            return view.mass_bins(forecast, self.n_bins)
        return view.width_bins(forecast, self.n_bins)

    def state(self, table: Table) -> Bins:
        """Collect one table into bins."""
        return table.mass_bins(self.n_bins) if self.bins == "mass" else table.bins(self.n_bins)

    def _fill_convention(self, forecast: Forecast, view: View) -> Bins:
        parts = []
        for pairs in view.groups(forecast):
            index, count = conventions.assign(
                str(self.convention),
                pairs.score.astype(np.float64),
                self.n_bins,
                self.bins,
                classwise=isinstance(view, Classwise),
            )
            weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
            sums = (weight, weight * pairs.score, weight * pairs.outcome)
            parts.append([np.bincount(index, values, count) for values in sums])
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


def check_counts(forecast: Forecast, argument: str) -> None:
    """Refuse weights that are not whole numbers where a count enters."""
    w = forecast.weights
    if w is not None and (w != np.floor(w)).any():
        row = int(np.flatnonzero(w != np.floor(w))[0])
        raise input_error(
            "sample_weight",
            forecast.caller,
            f"be whole numbers, because {argument} needs counts",
            f"{w[row]} at row {row}",
            "weights are frequencies: scale them to counts, or drop them",
        )


@dataclass(frozen=True)
class KDE(Estimator):
    """Kernel density estimate of ∫ |s − π̂(s)|^p p̂(s) ds (Zhang et al. 2020, eq. 6).

    ``bandwidth="published"`` is the rule behind the paper's numbers (standard deviation of the scores with
    outcome 1 times (2n)^(−1/5), in units of the kernel's standard deviation); ``"text"`` is the printed rule;
    a number is the half-width of the kernel.
    """

    kernel: str = "triweight"
    bandwidth: str | float = "published"
    boundary: str = "mirror"
    grid: int = 2**14

    def __post_init__(self) -> None:
        check_names(self.kernel, ("triweight",), "kernel", "KDE")
        check_names(self.boundary, ("mirror",), "boundary", "KDE")
        if isinstance(self.bandwidth, str):
            check_names(self.bandwidth, ("published", "text"), "bandwidth", "KDE")
        else:
            _positive(self.bandwidth, "bandwidth", "KDE")

    def check(self, view: View, norm: float) -> None:
        """Refuse the maximum norm: a density ratio has no stable maximum."""
        super().check(view, norm)
        if math.isinf(norm):
            raise input_error(
                "norm",
                "calibration_error",
                "be finite for KDE: the density ratio has no stable maximum",
                "inf",
                "use Binned for the maximum error",
            )

    def table_power(self, table: Table, norm: float) -> Floats:
        """Integrate |s − π̂(s)|^p over the density."""

        def one(wt: Floats) -> float:
            curves = kde_curves(table.score, table.w, wt, self.bandwidth, self.grid)
            return curves.integrate(norm)

        return _over_replicates(one, table.wt)


def _over_replicates(function: Callable[[Floats], float], wt: Floats) -> Floats:
    """Apply a scalar function of the outcome sums to each replicate."""
    flat = wt.reshape(-1, wt.shape[-1])
    return np.array([function(row) for row in flat]).reshape(wt.shape[:-1])


@dataclass(frozen=True)
class Cumulative(Estimator):
    """Kolmogorov–Smirnov error: max_σ |Σ_{s_i ≤ σ}(t_i − s_i)|/n (Gupta et al. 2021, eq. 11–12)."""

    has_norm: ClassVar[bool] = False

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the largest absolute cumulative difference."""
        if table.wt.ndim == 1:
            return np.asarray(max(cumulative_extent(table.wt, table.ws)) / table.total)
        path = np.cumsum(table.wt - table.ws, axis=-1)
        return np.asarray(np.maximum(path.max(axis=-1), -path.min(axis=-1)) / table.total)


@dataclass(frozen=True)
class Kernel(Estimator):
    """MMCE: sqrt(Σ_ij d_i d_j exp(−|s_i − s_j|/width))/n with d = t − s (Kumar et al. 2018), in O(n log n).

    On sorted scores the Laplace kernel factorises, so the double sum is one running sum.
    """

    width: float = 0.4
    has_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.width, "width", "Kernel")

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the root of the kernel double sum."""
        return np.sqrt(np.maximum(laplace_sum(table.score, table.wt - table.ws, self.width), 0.0)) / table.total


@dataclass(frozen=True)
class Local(Estimator):
    """Datapoint-specific calibration (Nixon et al. 2019, §7): exponentially weighted accuracy on 101 points.

    Weight decay^(|x − s|/0.01); the left side holds s ≤ q, both sides count one half, an empty side takes
    the other; linear interpolation between the points k/100.
    """

    decay: float = 0.9

    def __post_init__(self) -> None:
        if not (isinstance(self.decay, int | float) and 0 < self.decay < 1):
            raise input_error(
                "decay", "Local", "lie strictly between 0 and 1", repr(self.decay), "0.8 to 0.95 is usual"
            )

    def table_power(self, table: Table, norm: float) -> Floats:
        """Return the mean p-th power of |s − local accuracy|."""
        grid, accuracy = local_curve(table.score, table.w, table.wt, self.decay)
        position = np.clip(table.score * (len(grid) - 1), 0, len(grid) - 1)
        low = np.minimum(position.astype(np.int64), len(grid) - 2)
        share = position - low
        here = accuracy[..., low] * (1 - share) + accuracy[..., low + 1] * share
        return mean_power(np.abs(table.score - here), np.broadcast_to(table.w, here.shape), norm)


@dataclass(frozen=True)
class Isotonic(Estimator):
    """Distance to the isotonic (CORP) curve found by pooling adjacent violators (Dimitriadis et al. 2021)."""

    def table_power(self, table: Table, norm: float) -> Floats:
        """Return the mean p-th power of |s − isotonic frequency|."""

        def one(wt: Floats) -> float:
            gap = np.abs(table.score - isotonic_curve(table.w, wt))
            return float(mean_power(gap, table.w, norm))

        return _over_replicates(one, table.wt)


@dataclass(frozen=True)
class Smooth(Estimator):
    """smECE (Błasiok & Nakkiran 2023): residuals smoothed by a reflected Gaussian whose width equals the error."""

    grid: int = 2**13
    has_norm: ClassVar[bool] = False

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the fixed point σ = smECE_σ."""

        def one(wt: Floats) -> float:
            return smooth_error(table.score, (wt - table.ws) / table.total, self.grid)

        return _over_replicates(one, table.wt)


def root(power: Array, norm: float) -> Floats:
    """Return the p-th root; the maximum norm has none."""
    if math.isinf(norm) or norm == 1:
        return np.asarray(power)
    return np.asarray(np.maximum(power, 0.0) ** (1.0 / norm))
