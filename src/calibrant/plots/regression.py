"""Pictures of forecasts with mean and variance: PIT histogram, error against predicted standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.plots.displays import Display, log_ticks, to_rows
from calibrant.regression import Prediction, compute_pit, compute_variance_table


@dataclass(frozen=True)
class PitDisplay(Display):
    """Fraction of rows per bin of the PIT; a calibrated model has `expected` ± `expected_std` in each."""

    edges: Floats
    share: Floats
    expected: float
    expected_std: float
    n: int = 0

    def _paint(self, ax: Any) -> None:
        ax.bar(
            self.edges[:-1],
            self.share,
            width=np.diff(self.edges),
            align="edge",
            color=self.ink.under,
            edgecolor="white",
        )
        half = 1.96 * self.expected_std
        ax.axhspan(max(self.expected - half, 0.0), self.expected + half, color=self.ink.band, alpha=0.5, zorder=3)
        ax.axhline(self.expected, color=self.ink.neutral, linewidth=1, zorder=4)
        ax.set_xlim(0, 1)
        self.tidy(ax, "PIT: where the truth falls in its forecast", "fraction of rows")
        rows = f"n = {self.n:,} · " if self.n else ""
        ax.set_title(f"{rows}ribbon: where 95% of a calibrated model’s bars end", loc="left", fontsize="small")


@dataclass(frozen=True)
class VarianceDisplay(Display):
    """Predicted standard deviation and root mean squared error by range of the predicted variance."""

    spread: Floats
    error: Floats
    count: Floats

    @property
    def _size(self) -> tuple[float, float]:
        return (4.4, 4.4)

    def _paint(self, ax: Any) -> None:
        ends = [min(self.spread.min(), self.error.min()), max(self.spread.max(), self.error.max())]
        ax.plot(ends, ends, color=self.ink.neutral, linewidth=1)
        colors = np.where(self.error > self.spread, self.ink.over, self.ink.under)
        ax.vlines(self.spread, self.spread, self.error, colors=colors, linewidth=1.5)
        ax.scatter(self.spread, self.error, s=20 + 40 * self.count / self.count.max(), c=colors, zorder=3)
        if ends[0] > 0:
            ax.set_xscale("log")
            ax.set_yscale("log")
            log_ticks(ax.xaxis, *ends)
            log_ticks(ax.yaxis, *ends)
        self.tidy(ax, "predicted standard deviation", "root mean squared error")


def plot_pit(
    y_true: Any,
    mean: ArrayLike | Prediction | None = None,
    variance: ArrayLike | None = None,
    *,
    ax: Any = None,
    style: str = "calibrant",
    **options: Any,
) -> PitDisplay:
    """Draw the histogram of the probability integral transform with the band of a calibrated model.

    `options` go to `calibrant.regression.compute_pit` (`n_bins`, `sample_weight`, `rng`).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_pit([-1.0, 1.0], [0.0, 0.0], [1.0, 1.0], n_bins=2).share
    array([0.5, 0.5])
    >>> pyplot().close("all")
    """
    y_true, mean, variance = to_rows(y_true, mean, variance, "plot_pit")
    table = compute_pit(y_true, mean, variance, **options)
    numbers = np.array(table.edges), np.array(table.share), table.expected, table.expected_std
    return PitDisplay(*numbers, n=len(y_true)).draw(ax, style)


def plot_variance(
    y_true: Any,
    mean: ArrayLike | Prediction | None = None,
    variance: ArrayLike | None = None,
    *,
    ax: Any = None,
    style: str = "calibrant",
    **options: Any,
) -> VarianceDisplay:
    """Draw the error against the predicted standard deviation, range by range; above the diagonal is overconfident.

    `options` go to `calibrant.regression.compute_variance_table` (`n_bins`, `bins`, `sample_weight`).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_variance([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1).error
    array([0.5])
    >>> pyplot().close("all")
    """
    y_true, mean, variance = to_rows(y_true, mean, variance, "plot_variance")
    table = compute_variance_table(y_true, mean, variance, **options)
    spread, error, rows = np.sqrt(table.variance), np.sqrt(table.mse), np.array(table.count)
    return VarianceDisplay(spread, error, rows, caption=f"n = {rows.sum():,.0f}").draw(ax, style)
