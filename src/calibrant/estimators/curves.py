"""Distances to a curve through the outcomes: kernel density, local, isotonic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.curves import isotonic_curve, kde_curves, local_curve
from calibrant.core.inputs import Forecast, check_names
from calibrant.core.options import check_positive
from calibrant.core.tables import Table
from calibrant.core.weights import rows_worth
from calibrant.errors import input_error
from calibrant.estimators.estimator import Estimator, State, mean_power, over_replicates, row_tables
from calibrant.estimators.precision import Precision, placed
from calibrant.views import View


@dataclass(frozen=True)
class KDE(Estimator):
    """Kernel density estimate of ∫ |s − π̂(s)|^p p̂(s) ds (Zhang et al. 2020, eq. 6): triweight, mirrored at the ends.

    ``bandwidth="published"`` is the rule behind the paper's numbers (standard deviation of the scores with
    outcome 1 times (2n)^(−1/5), in units of the kernel's standard deviation); ``"text"`` is the printed rule;
    a number is the half-width of the kernel.
    """

    bandwidth: str | float = "published"
    grid: int = 2**14

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str):
            check_names(self.bandwidth, ("published", "text"), "bandwidth", "KDE")
        elif check_positive(self.bandwidth, "bandwidth", "KDE") > 10:
            raise input_error("bandwidth", "KDE", "be at most 10", repr(self.bandwidth), "scores lie in [0, 1]")

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

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:  # noqa: ARG002 -- the same for every view
        """Say that scores are known to a cell."""
        return placed(tables)

    def fill(self, forecast: Forecast, view: View) -> State:
        """Return tables of single rows: a grid needs neither order nor pooled ties."""
        return row_tables(forecast, view)

    def table_power(self, table: Table, norm: float) -> Floats:
        """Integrate |s − π̂(s)|^p over the density."""
        n = rows_worth(table.w, table.w2)

        def one(wt: Floats) -> float:
            curves = kde_curves(table.score, table.w, wt, self.bandwidth, self.grid, n)
            return curves.integrate(norm)

        return over_replicates(one, table.wt)


def check_decay(decay: Any, caller: str) -> None:
    """Refuse a decay that is no number strictly between 0 and 1.

    Examples
    --------
    >>> check_decay(0.9, "local_curve")
    """
    if not (isinstance(decay, int | float | np.number) and 0 < decay < 1):
        raise input_error("decay", caller, "lie strictly between 0 and 1", repr(decay), "0.8 to 0.95 is usual")


@dataclass(frozen=True)
class Local(Estimator):
    """Datapoint-specific calibration (Nixon et al. 2019, §7): exponentially weighted accuracy on 101 points.

    Weight decay^(|x − s|/0.01); the left side holds s ≤ q, both sides count one half, an empty side takes
    the other; linear interpolation between the points k/100.
    """

    decay: float = 0.9

    def __post_init__(self) -> None:
        check_decay(self.decay, "Local")

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:  # noqa: ARG002 -- the same for every view
        """Say that scores are known to a cell."""
        return placed(tables)

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

        return over_replicates(one, table.wt)
