"""The reliability diagram: what the model says against how often it happens, with what a calibrated model shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Space
from calibrant.core.arguments import check_options
from calibrant.core.curves import isotonic_curve, local_curve, smooth_error
from calibrant.core.inputs import Forecast, check_n_bins, check_names
from calibrant.core.options import check_count, check_share
from calibrant.core.tables import Pairs, Table, sum_by, value_table
from calibrant.inference.evaluation import evaluate_evidence
from calibrant.inference.null import draw_outcomes
from calibrant.plots.displays import (
    Display,
    chosen_view,
    document,
    generator,
    new_grid,
    odds_ticks,
    to_forecast,
    unit_square,
)
from calibrant.views import View

Curve = Literal["bins", "isotonic", "smooth", "local"]
#: Points of the smooth curve, and cells of the strip of counts.
_SMOOTH_POINTS = 512
_STRIP = 30


@dataclass(frozen=True)
class ReliabilityDisplay(Display):
    """Frequency `y` at score `x`; `low` and `high` are what a calibrated model shows; `count` is the strip below."""

    x: Floats
    y: Floats
    weight: Floats
    low: Floats | None
    high: Floats | None
    count: Floats
    curve: str
    label: str
    level: float
    scale: str = "linear"
    strip: bool = True
    #: Rows (weights added up), the calibration error over the same bins, and its interval where one is known to hold.
    n: float = 0.0
    error: float | None = None
    error_low: float | None = None
    error_high: float | None = None

    @property
    def _size(self) -> tuple[float, float]:
        return (4.6, 5.7)

    @property
    def ribbon(self) -> str:
        """What the ribbon means, for a line on the figure."""
        return "" if self.low is None else f"ribbon: where {100 * self.level:g}% of calibrated models lie"

    @property
    def note(self) -> str:
        """The line above the picture: value with interval, rows, and the meaning of the ribbon."""
        value = "" if self.error is None else f"ECE {100 * self.error:.2f}%"
        if self.error_low is not None and self.error_high is not None:
            value += f" ({100 * self.error_low:.2f} to {100 * self.error_high:.2f})"
        first = f"{value}{' · ' if value else ''}n = {self.n:,.0f}"
        return "\n".join(filter(None, (first, self.ribbon)))

    def _paint(self, ax: Any) -> None:
        self.tidy(ax, "" if self.strip else self.label, "how often it happens")
        ax.set_title(self.note, loc="left", fontsize="small")
        unit_square(ax)
        if self.low is not None and self.high is not None:
            ax.fill_between(
                self.x,
                self.low,
                self.high,
                color=self.ink.band,
                alpha=0.35,
                linewidth=0,
                zorder=2,
                label=f"calibrated ({100 * self.level:g}%)",
                step="mid" if self.curve == "isotonic" else None,
            )
        if self.curve == "bins":
            colors = np.where(self.y < self.x, self.ink.over, self.ink.under)
            ax.vlines(self.x, self.x, self.y, colors=colors, linewidth=1.5, zorder=3)
            size = 12 + 90 * self.weight / self.weight.max()
            ax.scatter(self.x, self.y, s=size, c=colors, edgecolors="white", linewidths=0.6, zorder=4, clip_on=False)
        elif self.curve == "isotonic":
            ax.step(self.x, self.y, where="mid", color=self.ink.under, linewidth=1.8, zorder=4)
        else:
            ax.plot(self.x, self.y, color=self.ink.under, linewidth=1.8, zorder=4)
        if self.scale == "logit":
            edge = 10.0 ** np.floor(np.log10(max(min(self.x.min(), 1 - self.x.max()), 1e-4)))
            for axis in (ax.set_xscale, ax.set_yscale):
                axis("logit")
            ends = [edge, 0.5, 1 - edge]
            ax.plot(ends, ends, color=self.ink.neutral, linewidth=1, zorder=1)  # the square’s own line starts at 0
            ax.set_xlim(edge, 1 - edge)
            ax.set_ylim(edge, 1 - edge)
            odds_ticks(ax.xaxis, edge)
            odds_ticks(ax.yaxis, edge)
            ax.tick_params(axis="x", rotation=45)
        if self.strip and self.scale == "linear":
            below = ax.inset_axes([0.0, -0.17, 1.0, 0.13], sharex=ax)
            below.bar(
                (np.arange(_STRIP) + 0.5) / _STRIP, self.count, width=0.9 / _STRIP, color=self.ink.neutral, linewidth=0
            )
            below.set_xlabel(self.label)
            below.set_yticks([])
            below.set_ylabel("rows", rotation=0, ha="right", va="center", fontsize="small")
            for side in ("top", "right", "left"):
                below.spines[side].set_visible(False)
            ax.tick_params(labelbottom=False)
        elif self.strip:
            ax.set_xlabel(self.label)


@dataclass(frozen=True)
class ClasswiseReliabilityDisplay(Display):
    """Small multiples: one reliability display per class."""

    displays: tuple[ReliabilityDisplay, ...]

    def draw(self, ax: Any = None, style: str | None = None) -> Self:
        """Draw one small diagram per class on the axes given (at least as many) or on a new grid."""
        if style is not None:
            return self.styled(style).draw(ax)
        columns = min(5, len(self.displays))
        rows = -(-len(self.displays) // columns)
        grid = new_grid(ax, rows, columns, (2.2 * columns, 2.3 * rows), len(self.displays))
        drawn = tuple(display.draw(target, self.style) for display, target in zip(self.displays, grid, strict=False))
        for display, target in zip(drawn, grid, strict=False):
            target.set_title(display.label, loc="left", fontsize="small")
            target.set_xlabel("")
            target.set_ylabel("")
        for spare in grid[len(self.displays) :] if ax is None else ():
            spare.set_visible(False)
        if ax is None and drawn:  # one name for every axis of the grid
            figure = grid[0].figure
            figure.supxlabel("predicted probability of the class", fontsize="medium")
            figure.supylabel("how often it happens", fontsize="medium")
            for i, target in enumerate(grid[: len(drawn)]):
                target.label_outer() if i % columns or i + columns < len(drawn) else None
            first = drawn[0]
            figure.suptitle(
                ", ".join(filter(None, (f"n = {first.n:,.0f}", first.ribbon))), x=0.01, ha="left", fontsize="small"
            )
        return replace(self, displays=drawn, ax=grid[: len(drawn)])


def smooth_frequency(table: Table, sigma: float, points: int = _SMOOTH_POINTS) -> tuple[Floats, Floats]:
    """Return score and frequency smoothed by a Gaussian reflected at 0 and 1 (a cosine transform)."""
    from scipy.fft import dct, idct

    cell = np.minimum((table.score * points).astype(np.int64), points - 1)
    damp = np.exp(-0.5 * (np.pi * np.arange(points) * max(sigma, 1.0 / points)) ** 2)

    def smooth(values: Floats) -> Floats:
        return np.asarray(idct(dct(np.bincount(cell, values, points), type=2) * damp, type=2))

    mass = smooth(table.w)
    seen = mass > 1e-4 * mass.max()
    grid = (np.arange(points) + 0.5) / points
    return grid[seen], np.clip(smooth(table.wt)[seen] / mass[seen], 0.0, 1.0)


def _finder(table: Table, curve: str, n_bins: int, bins: str, decay: float) -> tuple[Floats, Callable[[Table], Floats]]:
    """Return the scores of a curve and how its frequencies follow from a table (one set of outcomes)."""
    if curve == "bins":

        def collect(t: Table) -> Any:
            return t.mass_bins(n_bins) if bins == "mass" else t.bins(n_bins)

        w, ws = collect(table).w[0], collect(table).ws[0]
        kept = w > 0
        return ws[kept] / w[kept], lambda t: np.asarray(collect(t).wt[0][kept] / w[kept])
    if curve == "isotonic":
        return table.score, lambda t: isotonic_curve(t.w, t.wt)
    if curve == "local":
        grid = local_curve(table.score, table.w, table.wt, decay)[0]
        return grid, lambda t: local_curve(t.score, t.w, t.wt, decay)[1]
    sigma = smooth_error(table.score, (table.wt - table.ws).__getitem__, 2**13, table.total)
    return smooth_frequency(table, sigma)[0], lambda t: smooth_frequency(t, sigma)[1]


def reliability_display(
    pairs: Pairs,
    label: str,
    *,
    curve: str,
    n_bins: int,
    bins: str,
    decay: float,
    level: float,
    n_resamples: int,
    rng: np.random.Generator,
    scale: str,
    strip: bool,
) -> ReliabilityDisplay:
    """Compute the numbers of one diagram."""
    table = value_table(pairs)
    x, frequency = _finder(table, curve, n_bins, bins, decay)
    low = high = None
    counts = bool((table.w == np.floor(table.w)).all())
    if n_resamples > 0 and counts and len(table):
        draws = draw_outcomes(table, n_resamples, rng)
        replicates = np.stack([frequency(table.with_outcomes(row)) for row in draws])
        low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    cell = np.minimum((table.score * _STRIP).astype(np.int64), _STRIP - 1)
    weight = np.ones(len(x))
    if curve == "bins":
        found = table.mass_bins(n_bins) if bins == "mass" else table.bins(n_bins)
        weight = found.w[0][found.w[0] > 0]
    count = sum_by(cell, table.w, _STRIP)
    y = frequency(table)
    total = table.total
    error = float((weight * np.abs(y - x)).sum() / weight.sum()) if curve == "bins" and len(x) else None
    return ReliabilityDisplay(x, y, weight, low, high, count, curve, label, level, scale, strip, n=total, error=error)


@document
def plot_reliability(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    view: View | str | None = None,
    curve: Curve = "bins",
    n_bins: int = 15,
    bins: Literal["width", "mass"] = "width",
    decay: float = 0.9,
    level: float = 0.95,
    n_resamples: int = 200,
    scale: Literal["linear", "logit"] = "linear",
    counts: bool = True,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = 0,
    ax: Any = None,
    style: str = "calibrant",
) -> ReliabilityDisplay | ClasswiseReliabilityDisplay:
    """Draw a reliability diagram with the band that a calibrated model stays in.

    Parameters
    ----------
    view : View or str, optional
        Which scores: "top-1", "within-2", "class-3", "classwise" (small multiples), …; default those of the verdict:
        class 1 of two classes, else the top label.
    curve : {"bins", "isotonic", "smooth", "local"}, default "bins"
        Dots per bin; the isotonic (CORP) curve; a Gaussian-smoothed curve; Nixon's datapoint-specific curve.
    n_bins, bins
        Number and kind ("width", "mass") of the bins.
    decay : float, default 0.9
        Of the local curve.
    level, n_resamples, rng
        Of the band; 0 resamplings leave it out.
    scale : {"linear", "logit"}
        "logit" spreads the ends, for sharp networks.
    counts : bool, default True
        Add the strip of counts.
    ax : matplotlib Axes, optional
        Where to draw; "classwise" takes as many axes as there are classes.

    Returns
    -------
    ReliabilityDisplay
        With `x`, `y`, `low`, `high`, `count`; one per class in `.displays` for "classwise".

    References
    ----------
    [1] Bröcker & Smith (2007), "Increasing the reliability of reliability diagrams", Weather and Forecasting (bands).
    [2] Dimitriadis, Gneiting & Jordan (2021), "Stable reliability diagrams …", PNAS (isotonic curve).
    [3] Błasiok & Nakkiran (2023), "Smooth ECE" (smooth curve). [4] Nixon et al. (2019), section 7 (local curve).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> display = plot_reliability([0, 1, 1, 0], [0.1, 0.8, 0.9, 0.2], n_bins=2, n_resamples=0)
    >>> display.x.round(2), display.y
    (array([0.15, 0.85]), array([0., 1.]))
    >>> pyplot().close("all")
    """
    check_options(plot_reliability, locals())
    caller = "plot_reliability"
    check_names(curve, ("bins", "isotonic", "smooth", "local"), "curve", caller)
    check_names(bins, ("width", "mass"), "bins", caller)
    check_names(scale, ("linear", "logit"), "scale", caller)
    forecast = to_forecast(y_true, y_proba, caller, sample_weight=sample_weight, classes=classes, space=space)
    question, random = chosen_view(view, forecast, caller), generator(rng, caller)
    check_count(n_resamples, "n_resamples", caller)
    check_share(level, "level", caller)
    settings: dict[str, Any] = {
        "curve": curve,
        "n_bins": check_n_bins(n_bins, caller),
        "bins": bins,
        "decay": decay,
        "level": level,
        "n_resamples": n_resamples,
        "rng": random,
        "scale": scale,
    }
    if question.per_class:
        names = _names(forecast)
        parts = tuple(
            reliability_display(pairs, f"class {name}", **settings, strip=False)
            for name, pairs in zip(names, question.groups(forecast), strict=True)
        )
        return ClasswiseReliabilityDisplay(parts).draw(ax, style)
    display = reliability_display(question.pairs(forecast), question.label(_names(forecast)), **settings, strip=counts)
    if curve == "bins" and bins == "width" and n_resamples > 0 and question.single_group:
        name = f"ece@{question.name}"
        found = evaluate_evidence(
            forecast, metrics=[name], n_bins=n_bins, level=level, n_resamples=n_resamples, rng=rng
        )
        interval = found[name].interval
        if interval is not None:
            display = replace(display, error_low=interval.low, error_high=interval.high)
    return display.draw(ax, style)


def _names(forecast: Forecast) -> tuple[Any, ...]:
    return forecast.classes or tuple(range(forecast.n_classes))
