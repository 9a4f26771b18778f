"""The four calibration graphs of Gupta et al.: cumulative, warped, local against fractile, local against score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_n_bins
from calibrant.core.options import check_count
from calibrant.core.tables import value_table
from calibrant.inference.evaluation import evaluate_evidence
from calibrant.plots.displays import Display, chosen_view, document, new_grid, to_forecast, unit_square
from calibrant.views import View


@dataclass(frozen=True)
class KSDisplay(Display):
    """Cumulative fraction of rows, score and hits, starting at 0; averages over windows; the largest distance `ks`."""

    fractile: Floats
    score: Floats
    hits: Floats
    middle: Floats
    local_score: Floats
    local_frequency: Floats
    #: Fractile of the largest distance.
    at: float
    ks: float
    #: Ends of the 95% interval of `ks`, where one is known to hold.
    ks_low: float | None = None
    ks_high: float | None = None

    def draw(self, ax: Any = None, style: str | None = None) -> Self:
        """Draw on four axes, given or made."""
        if style is not None:
            return self.styled(style).draw(ax)
        grid = new_grid(ax, 1, 4, (13.0, 3.4), 4)[:4]
        first, second, third, fourth = grid
        first.plot(self.fractile, self.score, color=self.ink.neutral, linestyle="--", label="claimed")
        first.plot(self.fractile, self.hits, color=self.ink.under, label="happened")
        peak = int(np.abs(self.hits - self.score).argmax())
        first.vlines(self.at, *sorted((self.score[peak], self.hits[peak])), color=self.ink.over, linewidth=2.5)
        words = f"KS {100 * self.ks:.2f}%"
        if self.ks_low is not None and self.ks_high is not None:
            words += f"\n({100 * self.ks_low:.2f} to {100 * self.ks_high:.2f})"
        first.annotate(words, (0.03, 0.7), xycoords="axes fraction", va="top", color=self.ink.over)  # sums are convex
        first.legend(frameon=False, loc="upper left")
        self.tidy(first, "fraction of rows", "added up", f"cumulative{self.caption}")
        top = max(self.score[-1], self.hits[-1])
        second.plot([0, top], [0, top], color=self.ink.neutral, linewidth=1)
        second.plot(self.score, self.hits, color=self.ink.under)
        self.tidy(second, "claimed, added up", "happened, added up", "warped")
        third.plot(self.middle, self.local_score, color=self.ink.neutral, linestyle="--")
        third.plot(self.middle, self.local_frequency, color=self.ink.under)
        high = np.ceil(20 * max(self.local_score.max(), self.local_frequency.max())) / 20
        third.set_ylim(0, high if high < 0.5 else 1)
        self.tidy(third, "fraction of rows", "score, frequency", "against fraction")
        unit_square(fourth)
        fourth.set(xlim=third.get_ylim(), ylim=third.get_ylim())
        fourth.plot(self.local_score, self.local_frequency, color=self.ink.under)
        self.tidy(fourth, "score", "frequency", "against score")
        return replace(self, ax=grid)


@document
def plot_ks(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    view: View | str | None = None,
    windows: int = 40,
    n_resamples: int = 200,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    ax: Any = None,
    style: str = "calibrant",
) -> KSDisplay:
    """Draw the four calibration graphs; the largest distance of the first is the KS error.

    Parameters
    ----------
    windows : int, default 40
        Windows of equal mass of the local averages.
    n_resamples : int, default 200
        Resampled label sets behind the 95% interval of the error; 0 leaves the interval out.
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
    0.075
    >>> pyplot().close("all")
    """
    forecast = to_forecast(y_true, y_proba, "plot_ks", sample_weight=sample_weight, classes=classes, space=space)
    question = chosen_view(view, forecast, "plot_ks")
    check_count(n_resamples, "n_resamples", "plot_ks")
    table = value_table(question.pairs(forecast))
    sums = (table.w, table.ws, table.wt)
    fractile, score, hits = (np.concatenate([[0.0], np.cumsum(values) / table.total]) for values in sums)
    gap = np.abs(hits - score)  # [1] eq. (11)
    bins = table.mass_bins(check_n_bins(windows, "plot_ks", "windows"))
    w = bins.w[0]
    kept = w > 0
    middle = (np.cumsum(w) - 0.5 * w)[kept] / table.total
    display = KSDisplay(
        fractile,
        score,
        hits,
        middle,
        bins.ws[0][kept] / w[kept],
        bins.wt[0][kept] / w[kept],
        float(fractile[gap.argmax()]),
        float(gap.max()),
        caption=f", n = {table.total:,.0f}",
    )
    if n_resamples > 0 and question.single_group:
        name = f"ks@{question.name}"
        interval = evaluate_evidence(forecast, metrics=[name], n_resamples=n_resamples, rng=0)[name].interval
        if interval is not None:
            display = replace(display, ks_low=interval.low, ks_high=interval.high)
    return display.draw(ax, style)
