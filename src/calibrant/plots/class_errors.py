"""Per-class calibration errors as bars (Nixon et al., figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_names, check_words
from calibrant.estimators import Binned
from calibrant.plots.displays import Display, document, to_forecast
from calibrant.views import Classwise

#: Name -> how a class is judged: bins of equal width or of equal mass, pairs above a threshold only.
KINDS: dict[str, tuple[Binned, float | None]] = {
    "sce": (Binned(15, "width"), None),
    "ace": (Binned(15, "mass", "range"), None),
    "tace": (Binned(15, "mass", "range"), 0.01),
}


#: Classes drawn at most.
_MOST_CLASSES = 40


@dataclass(frozen=True)
class ClassErrorsDisplay(Display):
    """One error per class and metric; their mean over classes is the metric itself."""

    names: tuple[str, ...]
    errors: dict[str, Floats]

    @property
    def _size(self) -> tuple[float, float]:
        return (max(4.0, 0.45 * min(len(self.names), _MOST_CLASSES) + 1.5), 3.2)

    def _paint(self, ax: Any) -> None:
        first = next(iter(self.errors.values()))
        shown = np.arange(len(self.names))
        if len(shown) > _MOST_CLASSES:  # the largest errors, and the figure says so
            shown = np.sort(np.argsort(-first)[:_MOST_CLASSES])
        place, width = np.arange(len(shown)), 0.8 / len(self.errors)
        for i, (name, values) in enumerate(self.errors.items()):
            left = place + (i - (len(self.errors) - 1) / 2) * width
            ax.bar(left, values[shown], width, color=self.ink.cycle[i % len(self.ink.cycle)], label=name)
        names = [self.names[i] for i in shown]
        long = max(map(len, names)) > 3
        ax.set_xticks(place, names, rotation=45 if long else 0, ha="right" if long else "center")
        ax.set_xlim(-0.6, len(shown) - 0.4)
        self.tidy(ax, "class", "calibration error")
        ax.legend(
            frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(self.errors), borderaxespad=0.2
        )


@document
def plot_class_errors(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    metrics: tuple[str, ...] | str = ("sce", "ace", "tace"),
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    ax: Any = None,
    style: str = "calibrant",
) -> ClassErrorsDisplay:
    """Draw the calibration error of each class.

    Parameters
    ----------
    metrics : names among "sce", "ace", "tace"
        How a class is judged: equal-width bins, equal-mass bins, equal-mass bins of pairs above 0.01.

    References
    ----------
    [1] Nixon et al. (2019), "Measuring Calibration in Deep Learning", figure 1.

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> plot_class_errors([0, 1], [[0.9, 0.1], [0.2, 0.8]], metrics="sce").errors["sce"].round(2)
    array([0.15, 0.15])
    >>> pyplot().close("all")
    """
    caller = "plot_class_errors"
    forecast = to_forecast(y_true, y_proba, caller, sample_weight=sample_weight, classes=classes, space=space)
    errors: dict[str, Floats] = {}
    for name in check_words(metrics, "metrics", caller, 1):
        estimator, threshold = KINDS[check_names(name, tuple(KINDS), "metrics", caller)]
        errors[name] = estimator.power(estimator.fill(forecast, Classwise(threshold=threshold)), 1.0)
    names = tuple(str(name) for name in forecast.classes or range(forecast.n_classes))
    left_out = f"; the {_MOST_CLASSES} of {len(names)} classes with the largest errors"
    caption = f"n = {forecast.n:,}{left_out if len(names) > _MOST_CLASSES else ''}"
    return ClassErrorsDisplay(names, errors, caption=caption).draw(ax, style)
