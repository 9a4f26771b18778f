"""Per-class calibration errors as bars (Nixon et al., figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_names
from calibrant.estimators import Binned
from calibrant.plots.displays import Display, tidy, to_forecast
from calibrant.plots.palette import CYCLE
from calibrant.views import Classwise

#: Name -> how a class is judged: bins of equal width or of equal mass, pairs above a threshold only.
KINDS: dict[str, tuple[Binned, float | None]] = {
    "sce": (Binned(15, "width"), None),
    "ace": (Binned(15, "mass", "range"), None),
    "tace": (Binned(15, "mass", "range"), 0.01),
}


@dataclass(frozen=True)
class ClassErrorsDisplay(Display):
    """One error per class and measure; their mean over classes is the measure itself."""

    names: tuple[str, ...]
    errors: dict[str, Floats]

    @property
    def _size(self) -> tuple[float, float]:
        return (max(4.0, 0.45 * len(self.names) + 1.5), 3.2)

    def _paint(self, ax: Any) -> None:
        place, width = np.arange(len(self.names)), 0.8 / len(self.errors)
        for i, (name, values) in enumerate(self.errors.items()):
            ax.bar(place + (i - (len(self.errors) - 1) / 2) * width, values, width, color=CYCLE[i], label=name)
        ax.set_xticks(place, self.names, rotation=45 if max(map(len, self.names)) > 3 else 0)
        tidy(ax, "class", "calibration error")
        ax.legend(frameon=False)


def plot_class_errors(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    measures: tuple[str, ...] | str = ("sce", "ace", "tace"),
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    ax: Any = None,
) -> ClassErrorsDisplay:
    """Draw the calibration error of each class.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space
        As in `calibrant.evaluate`.
    measures : names among "sce", "ace", "tace"
        How a class is judged: equal-width bins, equal-mass bins, equal-mass bins of pairs above 0.01.
    ax : matplotlib Axes, optional
        Where to draw.

    References
    ----------
    [1] Nixon et al. (2019), "Measuring Calibration in Deep Learning", figure 1.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_class_errors([0, 1], [[0.9, 0.1], [0.2, 0.8]], measures="sce").errors["sce"].round(2)
    array([0.15, 0.15])
    >>> pyplot().close("all")
    """
    caller = "plot_class_errors"
    forecast = to_forecast(y_true, y_proba, caller, sample_weight=sample_weight, classes=classes, space=space)
    errors: dict[str, Floats] = {}
    for name in (measures,) if isinstance(measures, str) else measures:
        estimator, threshold = KINDS[check_names(name, tuple(KINDS), "measures", caller)]
        errors[name] = estimator.power(estimator.fill(forecast, Classwise(threshold=threshold)), 1.0)
    names = tuple(str(name) for name in forecast.classes or range(forecast.n_classes))
    return ClassErrorsDisplay(names, errors).draw(ax)
