"""What a fitted calibrator does to a forecast: a curve for two classes, arrows on the simplex for three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.options import check_count
from calibrant.errors import input_error
from calibrant.plots.displays import Display, document, unit_square

#: Corners of the drawn triangle: classes 0, 1, 2.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
_MOST_CURVES = 7


@dataclass(frozen=True)
class MapDisplay(Display):
    """Probability after, `after[c]`, against probability before for one or several classes."""

    before: Floats
    after: Floats
    names: tuple[str, ...]
    #: Classes of the calibrator; only the first ones are drawn where there are many, and the legend says so.
    n_classes: int = 0

    @property
    def _size(self) -> tuple[float, float]:
        return (4.4, 4.4)

    def _paint(self, ax: Any) -> None:
        unit_square(ax)
        same = len(self.names) > 1 and np.allclose(self.after, self.after[0], atol=1e-9)
        for i, (name, values) in enumerate(zip(self.names, self.after, strict=True)):
            ax.plot(self.before, values, color=self.ink.cycle[i % len(self.ink.cycle)], label=f"class {name}")
            if same:  # lines would hide one another
                break
        self.tidy(ax, "probability before", "probability after")
        if same:
            ax.set_title(f"the same for each of {self.n_classes} classes", loc="left", fontsize="small")
        elif len(self.names) > 1:
            title = f"{len(self.names)} of {self.n_classes} classes" if self.n_classes > len(self.names) else None
            ax.legend(frameon=False, title=title)


@dataclass(frozen=True)
class SimplexMapDisplay(Display):
    """Points of the simplex of three classes `before` and `after`, shape (points, 3)."""

    before: Floats
    after: Floats
    names: tuple[str, ...]

    @property
    def _size(self) -> tuple[float, float]:
        return (4.8, 4.4)

    def _paint(self, ax: Any) -> None:
        outline = np.vstack([_CORNERS, _CORNERS[:1]])
        ax.plot(outline[:, 0], outline[:, 1], color=self.ink.neutral, linewidth=1)
        start, move = self.before @ _CORNERS, (self.after - self.before) @ _CORNERS
        ax.quiver(
            start[:, 0],
            start[:, 1],
            move[:, 0],
            move[:, 1],
            angles="xy",
            scale_units="xy",
            scale=1,
            color=self.ink.under,
            width=0.004,
        )
        for (x, y), name, side in zip(_CORNERS, self.names, ("right", "left", "center"), strict=True):
            ax.text(x, y + (0.02 if y else -0.02), name, ha=side, va="bottom" if y else "top")
        ax.set_aspect("equal")
        ax.set_axis_off()


@document
def plot_calibration_map(
    calibrator: Any, *, points: int = 101, ax: Any = None, style: str = "calibrant"
) -> MapDisplay | SimplexMapDisplay:
    """Draw the map of a fitted calibrator.

    Parameters
    ----------
    calibrator : fitted calibrator
        With ``predict_proba`` and ``n_classes_``.
    points : int, default 101
        Points of a curve; the simplex uses a triangle of about a fifth as many per side.

    Returns
    -------
    MapDisplay or SimplexMapDisplay
        Two classes: probability of class 1 after against before. Three: arrows on the simplex. More: one curve for
        each of the first classes, the remaining probability spread evenly over the others.

    Examples
    --------
    >>> from calibrant.calibrators import TemperatureScaling
    >>> from calibrant.plots.displays import pyplot
    >>> fitted = TemperatureScaling().fit([0.1, 0.2, 0.7, 0.9, 0.6], [0, 1, 1, 1, 0])
    >>> plot_calibration_map(fitted, points=5).before
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> pyplot().close("all")
    """
    if not hasattr(calibrator, "n_classes_"):
        rule, hint = "be a fitted calibrator of class probabilities", "call fit first"
        raise input_error("calibrator", "plot_calibration_map", rule, repr(calibrator)[:200], hint)
    k, points = int(calibrator.n_classes_), check_count(points, "points", "plot_calibration_map", 2, "101")
    labels = getattr(calibrator, "classes_", None)
    names = tuple(str(name) for name in (range(k) if labels is None else labels))
    if k == 3:
        side = max(points // 5, 2)
        steps = [(i, j, side - i - j) for i in range(side + 1) for j in range(side + 1 - i)]
        before = np.array(steps) / side
        return SimplexMapDisplay(before, _apply(calibrator, before), names).draw(ax, style)
    grid = np.arange(points) / (points - 1)
    chosen = (1,) if k == 2 else tuple(range(min(k, _MOST_CURVES)))
    after = []
    for c in chosen:
        rows = np.repeat(((1 - grid) / (k - 1))[:, None], k, axis=1)
        rows[:, c] = grid
        after.append(_apply(calibrator, rows)[:, c])
    return MapDisplay(grid, np.array(after), tuple(names[c] for c in chosen), k).draw(ax, style)


def _apply(calibrator: Any, rows: Floats) -> Floats:
    """Map probabilities, through their logarithms where the calibrator takes logits."""
    inside = np.clip(rows, 1e-6, 1.0)
    inside /= inside.sum(axis=1, keepdims=True)
    scores = np.log(inside) if getattr(calibrator, "input_space", "proba") == "logit" else inside
    return np.asarray(calibrator.predict_proba(scores))
