"""What every picture shares: numbers first (a frozen display), drawing second (on axes given or made)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.inputs import Forecast, check_forecast, check_rng
from calibrant.errors import require
from calibrant.plots.palette import NEUTRAL

#: Colour of axes and text: readable on white and on dark paper alike.
INK = "#4B5563"
GRID = "#D1D5DB"


@dataclass(frozen=True)
class Display:
    """Numbers of one picture; `draw` puts them on axes and gives back the display that knows them.

    `ax` is the main axes it was drawn on (None before); `to_dict()` holds the numbers alone.
    """

    ax: Any = field(default=None, kw_only=True, repr=False, compare=False)

    def draw(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on new axes."""
        target = new_axes(ax, self._size)
        self._paint(target)
        return replace(self, ax=target)

    @property
    def _size(self) -> tuple[float, float]:
        return (5.0, 4.0)

    def _paint(self, ax: Any) -> None:
        raise TypeError(f"{type(self).__name__} has nothing to paint on {ax!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name != "ax"}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Display):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def pyplot() -> Any:
    """Return matplotlib's drawing interface, or say what to install."""
    return require("matplotlib.pyplot", "plots", "drawing")


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes given, or new ones of this size (inches)."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def new_grid(ax: Any, rows: int, columns: int, size: tuple[float, float]) -> np.ndarray[Any, Any]:
    """Return a grid of axes: the ones given (any shape with enough of them) or new ones."""
    if ax is not None:
        return np.asarray(ax, dtype=object).ravel()
    made = pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1]
    return np.asarray(made, dtype=object).ravel()


def tidy(ax: Any, xlabel: str, ylabel: str, title: str | None = None) -> None:
    """Name the axes and take away what carries no number; nothing outside these axes changes."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if title:
        ax.set_title(title, loc="left", fontsize="medium")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(visible=True, color=GRID, linewidth=0.6, alpha=0.6)
    ax.set_axisbelow(True)


def unit_square(ax: Any) -> None:
    """Make the axes 0 to 1 both ways, square, with a thin diagonal."""
    ax.plot([0, 1], [0, 1], color=NEUTRAL, linewidth=1, zorder=1, label="_diagonal")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")


def to_forecast(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    caller: str,
    *,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    space: Space,
) -> Forecast:
    """Check the predictions of a picture."""
    return check_forecast(
        y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space
    )


def generator(rng: RNG, caller: str) -> np.random.Generator:
    """Return the generator behind a band."""
    return check_rng(rng, caller)
