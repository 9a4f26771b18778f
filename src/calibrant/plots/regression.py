"""Pictures of forecasts with mean and variance: PIT histogram, error against predicted spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.plots.displays import Display, tidy
from calibrant.plots.palette import BAND, NEUTRAL, OVER, UNDER
from calibrant.regression import Prediction, compute_pit, compute_variance_table


@dataclass(frozen=True)
class PitDisplay(Display):
    """Share of rows per bin of the PIT; a calibrated model has `expected` ± `expected_std` in each."""

    edges: Floats
    share: Floats
    expected: float
    expected_std: float

    def _paint(self, ax: Any) -> None:
        ax.bar(self.edges[:-1], self.share, width=np.diff(self.edges), align="edge", color=UNDER, edgecolor="white")
        half = 1.96 * self.expected_std
        ax.axhspan(max(self.expected - half, 0.0), self.expected + half, color=BAND, alpha=0.5, zorder=3)
        ax.axhline(self.expected, color=NEUTRAL, linewidth=1, zorder=4)
        ax.set_xlim(0, 1)
        tidy(ax, "PIT: where the truth falls in its forecast", "share of rows")


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
        ax.plot(ends, ends, color=NEUTRAL, linewidth=1)
        colours = np.where(self.error > self.spread, OVER, UNDER)
        ax.vlines(self.spread, self.spread, self.error, colors=colours, linewidth=1.5)
        ax.scatter(self.spread, self.error, s=20 + 40 * self.count / self.count.max(), c=colours, zorder=3)
        if ends[0] > 0:
            ax.set_xscale("log")
            ax.set_yscale("log")
        tidy(ax, "predicted standard deviation", "root mean squared error")


def plot_pit(
    y_true: ArrayLike,
    mean: ArrayLike | Prediction,
    variance: ArrayLike | None = None,
    *,
    ax: Any = None,
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
    table = compute_pit(y_true, mean, variance, **options)
    return PitDisplay(np.array(table.edges), np.array(table.share), table.expected, table.expected_std).draw(ax)


def plot_variance(
    y_true: ArrayLike,
    mean: ArrayLike | Prediction,
    variance: ArrayLike | None = None,
    *,
    ax: Any = None,
    **options: Any,
) -> VarianceDisplay:
    """Draw the error against the predicted spread, range by range; above the diagonal is over-confident.

    `options` go to `calibrant.regression.compute_variance_table` (`n_bins`, `bins`, `sample_weight`).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_variance([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1).error
    array([0.5])
    >>> pyplot().close("all")
    """
    table = compute_variance_table(y_true, mean, variance, **options)
    return VarianceDisplay(np.sqrt(table.variance), np.sqrt(table.mse), np.array(table.count)).draw(ax)
