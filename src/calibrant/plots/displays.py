"""What every picture shares: numbers first (a frozen display), drawing second (on axes given or made)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.docstrings import fill
from calibrant.core.inputs import Forecast, check_forecast, check_names
from calibrant.core.options import check_rng
from calibrant.errors import input_error, require
from calibrant.inference.facts import judged
from calibrant.io.layout import Layout
from calibrant.io.paths import is_path
from calibrant.io.predictions import frame_predictions, to_evidence
from calibrant.io.predictions import to_forecast as read_forecast
from calibrant.io.readers import read_predictions
from calibrant.plots.palette import NEUTRAL, OURS, Ink, reader_ink
from calibrant.views import View, as_view

#: Color of axes and text: readable on white and on dark paper alike.
INK = "#4B5563"
GRID = "#D1D5DB"
_Plot = TypeVar("_Plot")
#: What most pictures take; a function describes only what it takes otherwise.
_SHARED = """
Parameters
----------
y_true, y_proba, sample_weight, classes, space
    As in `calibrant.evaluate`: arrays, or a frame, a path or evidence in place of `y_true`.
view : View or str, optional
    Which scores; default those of the verdict: class 1 of two classes, else the top label.
ax : matplotlib Axes, optional
    Where to draw.
style : {"calibrant", "matplotlib"}
    Our look, or the reader's own matplotlib settings for colors, grid and spines.
"""


def document(function: _Plot) -> _Plot:
    """Complete the docstring of a function that draws (a decorator)."""
    return fill(function, _SHARED)


@dataclass(frozen=True)
class Display:
    """Numbers of one picture; `draw` puts them on axes and gives back the display that knows them.

    `ax` is the main axes it was drawn on (None before); `to_dict()` holds the numbers alone.
    """

    ax: Any = field(default=None, kw_only=True, repr=False, compare=False)
    #: "calibrant", or "matplotlib": the reader's own settings for colors, grid and spines.
    style: str = field(default="calibrant", kw_only=True, repr=False, compare=False)
    #: The small line above the picture: rows, and what bands mean.
    caption: str = field(default="", kw_only=True, repr=False, compare=False)

    def draw(self, ax: Any = None, style: str | None = None) -> Self:
        """Draw on `ax`, or on new axes, in this style."""
        styled = self.styled(style)
        if ax is not None and not hasattr(ax, "plot"):
            raise input_error("ax", "draw", "be matplotlib axes", repr(ax), "leave it out")
        target = new_axes(ax, self._size)
        styled._paint(target)
        return replace(styled, ax=target)

    def styled(self, style: str | None) -> Self:
        """Return the display in another style."""
        return self if style is None else replace(self, style=check_style(style, "draw"))

    @property
    def _size(self) -> tuple[float, float]:
        return (5.0, 4.0)

    @property
    def ink(self) -> Ink:
        """The colors to draw with."""
        return OURS if self.style == "calibrant" else reader_ink()

    def tidy(self, ax: Any, xlabel: str, ylabel: str, title: str | None = None) -> None:
        """Name the axes; in our own style also take away what carries no number."""
        if self.style == "calibrant":
            tidy(ax, xlabel, ylabel, title)
        else:
            ax.set(xlabel=xlabel, ylabel=ylabel)
            if title:
                ax.set_title(title, loc="left", fontsize="medium")
        if self.caption and not title:
            ax.set_title(self.caption, loc="left", fontsize="small")

    def _paint(self, ax: Any) -> None:
        raise TypeError(f"{type(self).__name__} has nothing to paint on {ax!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in ("ax", "style", "caption")}


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


def new_grid(ax: Any, rows: int, columns: int, size: tuple[float, float], least: int) -> np.ndarray[Any, Any]:
    """Return a grid of axes: the ones given (any shape with enough of them) or new ones."""
    if ax is not None:
        given = np.asarray(ax, dtype=object).ravel()
        if len(given) < least or not all(hasattr(one, "plot") for one in given):
            raise input_error("ax", "draw", f"be at least {least} axes of matplotlib", repr(ax)[:80], "leave it out")
        return given
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


def check_style(style: str, caller: str) -> str:
    """Return the style if it is one."""
    return check_names(style, ("calibrant", "matplotlib"), "style", caller)


def to_forecast(
    y_true: Any,
    y_proba: ArrayLike | None,
    caller: str,
    *,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    space: Space,
) -> Forecast:
    """Check the predictions of a picture: arrays, or evidence, a frame or a path in place of `y_true`."""
    if y_proba is not None:
        return check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    if hasattr(y_true, "pairs_of"):
        if not hasattr(y_true, "codes"):
            raise input_error("y_true", caller, "hold rows", "a summary", "use calibrant.report, which draws cells")
        forecast: Forecast = y_true
        return forecast
    if is_path(y_true):
        return read_forecast(read_predictions(y_true), caller=caller)
    if hasattr(y_true, "columns"):
        return read_forecast(frame_predictions(_polars(y_true), Layout()), caller=caller)
    raise input_error("y_proba", caller, "be given next to arrays", "None", "pass probabilities, a frame or a path")


def chosen_view(view: View | str | None, forecast: Forecast, caller: str) -> View:
    """Return the view a picture shows: that of the verdict unless another is named."""
    return judged(forecast) if view is None else as_view(view, caller)


def to_rows(y_true: Any, mean: Any, variance: Any, caller: str) -> tuple[Any, Any, Any]:
    """Return arrays as they are; truth and forecast of evidence, a frame or a path."""
    if mean is not None:
        return y_true, mean, variance
    if hasattr(y_true, "forecast"):
        return y_true.y, y_true.forecast, None
    read = read_predictions(y_true) if is_path(y_true) else frame_predictions(_polars(y_true), Layout())
    rows = to_evidence(read, caller=caller)
    if rows.task != "regression":
        raise input_error("y_true", caller, "hold means and variances", "class probabilities", "use plot_reliability")
    return rows.y, rows.forecast, None


def _polars(frame: Any) -> Any:
    """Return a pandas, PyArrow or Polars frame as Polars."""
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    return pl.from_pandas(frame) if hasattr(frame, "iloc") else pl.DataFrame(frame)


def log_ticks(axis: Any, low: float, high: float) -> None:
    """Put plain numbers at round places of a logarithmic axis, eight at most, and nothing between them."""
    ends = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [m * 10.0**e for e in ends for m in (1, 2, 5) if low * 0.999 <= m * 10.0**e <= high * 1.001]
    values = ticks[:: -(-len(ticks) // 8)] if ticks else [low, high]
    axis.set_major_locator(mticker().FixedLocator(values))
    axis.set_major_formatter(mticker().FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(mticker().NullLocator())


def odds_ticks(axis: Any, edge: float) -> None:
    """Put percentages at round places of a log-odds axis, and nothing between them."""
    ends = [value for value in (0.0001, 0.001, 0.01, 0.1) if value >= edge * 0.999]
    values = [*ends, 0.5, *(1 - value for value in reversed(ends))]
    axis.set_major_locator(mticker().FixedLocator(values))
    axis.set_major_formatter(mticker().FuncFormatter(lambda value, _: f"{100 * value:.6g}%"))
    axis.set_minor_locator(mticker().NullLocator())


def mticker() -> Any:
    """Return matplotlib's ticks."""
    return require("matplotlib.ticker", "plots", "drawing")


def generator(rng: RNG, caller: str) -> np.random.Generator:
    """Return the generator behind a band."""
    return check_rng(rng, caller)
