"""The four calibration graphs of Gupta et al.: cumulative, warped, local against fractile, local against score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.tables import value_table
from calibrant.plots.displays import Display, new_grid, tidy, to_forecast, unit_square
from calibrant.plots.palette import NEUTRAL, OVER, UNDER
from calibrant.views import View, as_view


@dataclass(frozen=True)
class KSDisplay(Display):
    """Cumulative share of rows, score and hits, starting at 0; averages over windows; the largest distance `ks`."""

    fractile: Floats
    score: Floats
    hits: Floats
    middle: Floats
    local_score: Floats
    local_frequency: Floats
    #: Fractile of the largest distance.
    at: float
    ks: float

    def draw(self, ax: Any = None) -> Self:
        """Draw on four axes, given or made."""
        grid = new_grid(ax, 1, 4, (13.0, 3.4))[:4]
        first, second, third, fourth = grid
        first.plot(self.fractile, self.score, color=NEUTRAL, linestyle="--", label="claimed")
        first.plot(self.fractile, self.hits, color=UNDER, label="happened")
        peak = int(np.abs(self.hits - self.score).argmax())
        first.vlines(self.at, *sorted((self.score[peak], self.hits[peak])), color=OVER, linewidth=2.5)
        first.annotate(f"KS {100 * self.ks:.2f} %", (0.97, 0.05), xycoords="axes fraction", ha="right", color=OVER)
        first.legend(frameon=False, loc="upper left")
        tidy(first, "share of rows", "added up", "cumulative")
        top = max(self.score[-1], self.hits[-1])
        second.plot([0, top], [0, top], color=NEUTRAL, linewidth=1)
        second.plot(self.score, self.hits, color=UNDER)
        tidy(second, "claimed, added up", "happened, added up", "warped")
        third.plot(self.middle, self.local_score, color=NEUTRAL, linestyle="--")
        third.plot(self.middle, self.local_frequency, color=UNDER)
        third.set_ylim(0, 1)
        tidy(third, "share of rows", "score, frequency", "against share")
        unit_square(fourth)
        fourth.plot(self.local_score, self.local_frequency, color=UNDER)
        tidy(fourth, "score", "frequency", "against score")
        return replace(self, ax=grid)


def plot_ks(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    windows: int = 40,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    ax: Any = None,
) -> KSDisplay:
    """Draw the four calibration graphs; the largest distance of the first is the KS error.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space
        As in `calibrant.evaluate`.
    view : View or str, default "top-1"
        Which scores.
    windows : int, default 40
        Windows of equal mass of the local averages.
    ax : four matplotlib Axes, optional
        Where to draw.

    References
    ----------
    [1] Gupta et al. (2021), "Calibration of Neural Networks using Splines", ICLR, figures 1-10.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> display = plot_ks([0, 1, 1, 0], [0.1, 0.8, 0.9, 0.2])
    >>> round(display.ks, 3)
    0.15
    >>> pyplot().close("all")
    """
    forecast = to_forecast(y_true, y_proba, "plot_ks", sample_weight=sample_weight, classes=classes, space=space)
    table = value_table(as_view(view, "plot_ks").pairs(forecast))
    sums = (table.w, table.ws, table.wt)
    fractile, score, hits = (np.concatenate([[0.0], np.cumsum(values) / table.total]) for values in sums)
    gap = np.abs(hits - score)  # [1] eq. (11)
    bins = table.mass_bins(windows)
    w = bins.w[0]
    kept = w > 0
    middle = (np.cumsum(w) - 0.5 * w)[kept] / table.total
    display = KSDisplay(
        fractile, score, hits, middle, bins.ws[0][kept] / w[kept], bins.wt[0][kept] / w[kept],
        float(fractile[gap.argmax()]), float(gap.max()),
    )
    return display.draw(ax)
