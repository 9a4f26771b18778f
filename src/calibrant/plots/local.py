"""Datapoint-specific calibration curves and their sensitivity to the decay (Nixon et al., figures 2 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Space
from calibrant.core.curves import local_curve
from calibrant.core.options import check_count, check_share
from calibrant.core.tables import value_table
from calibrant.estimators import check_decay
from calibrant.inference.null import draw_outcomes
from calibrant.plots.displays import Display, chosen_view, document, generator, to_forecast, unit_square
from calibrant.views import View


@dataclass(frozen=True)
class LocalDisplay(Display):
    """Local frequency on the grid k/100, one curve per decay; the band belongs to the first."""

    grid: Floats
    curves: dict[float, Floats]
    low: Floats | None
    high: Floats | None
    label: str

    @property
    def _size(self) -> tuple[float, float]:
        return (4.4, 4.4)

    def _paint(self, ax: Any) -> None:
        unit_square(ax)
        if self.low is not None and self.high is not None:
            ax.fill_between(self.grid, self.low, self.high, color=self.ink.band, alpha=0.35, linewidth=0)
        for i, (decay, values) in enumerate(self.curves.items()):
            ax.plot(self.grid, values, color=self.ink.cycle[i % len(self.ink.cycle)], label=f"decay {decay:g}")
        self.tidy(ax, self.label, "local frequency")
        ax.legend(frameon=False)


@document
def plot_local(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    view: View | str | None = None,
    decay: float | tuple[float, ...] = 0.9,
    level: float = 0.95,
    n_resamples: int = 200,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = 0,
    ax: Any = None,
    style: str = "calibrant",
) -> LocalDisplay:
    """Draw datapoint-specific calibration: the exponentially weighted frequency around each score.

    Parameters
    ----------
    decay : float or several, default 0.9
        Weight kept per hundredth of score; one curve each.
    level, n_resamples, rng
        Of the band of a calibrated model (first decay).

    References
    ----------
    [1] Nixon et al. (2019), "Measuring Calibration in Deep Learning", section 7, figures 2 and 4.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_local([0, 1, 1], [0.4, 0.6, 0.9], n_resamples=0).curves[0.9].shape
    (101,)
    >>> pyplot().close("all")
    """
    forecast = to_forecast(y_true, y_proba, "plot_local", sample_weight=sample_weight, classes=classes, space=space)
    question = chosen_view(view, forecast, "plot_local")
    check_count(n_resamples, "n_resamples", "plot_local")
    check_share(level, "level", "plot_local")
    table = value_table(question.pairs(forecast))
    decays = decay if isinstance(decay, tuple) else (decay,)
    for one in decays or (decay,):
        check_decay(one, "plot_local")
    found = {d: local_curve(table.score, table.w, table.wt, d) for d in decays}
    low = high = None
    if n_resamples > 0 and bool((table.w == np.floor(table.w)).all()):
        draws = draw_outcomes(table, n_resamples, generator(rng, "plot_local"))
        replicates = np.stack([local_curve(table.score, table.w, row, decays[0])[1] for row in draws])
        low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    curves = {d: np.asarray(values) for d, (_, values) in found.items()}
    ribbon = "" if low is None else f"\nribbon: where {100 * level:g}% of calibrated models lie"
    caption = f"n = {table.total:,.0f}{ribbon}"
    label = f"score ({question.name})"
    return LocalDisplay(found[decays[0]][0], curves, low, high, label, caption=caption).draw(ax, style)
