"""A metric against something that is turned: softmax temperature, number of bins, number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import metrics as _metrics  # noqa: F401  -- declares every metric
from calibrant._typing import RNG, Array, ArrayLike, Floats, Space
from calibrant.core.declare import Recipe, lookup
from calibrant.core.inputs import Forecast, check_forecast, check_words, to_array, to_float
from calibrant.core.options import check_count
from calibrant.errors import input_error
from calibrant.inference.facts import judged_name
from calibrant.inference.null import null_distribution
from calibrant.plots.displays import Display, document, generator, log_ticks, to_forecast

Names = str | Sequence[str]


@dataclass(frozen=True)
class AgainstDisplay(Display):
    """Values of each metric at the points `x`; bands where the picture has them."""

    x: Floats
    values: dict[str, Floats]
    low: dict[str, Floats]
    high: dict[str, Floats]
    label: str
    log: bool
    #: What the dashed lines (`reference`) show.
    reference: dict[str, Floats]
    reference_label: str

    def _paint(self, ax: Any) -> None:
        for i, (name, values) in enumerate(self.values.items()):
            color = self.ink.cycle[i % len(self.ink.cycle)]
            ax.plot(self.x, values, color=color, marker="o", markersize=3, label=name)
            if name in self.low:
                ax.fill_between(self.x, self.low[name], self.high[name], color=color, alpha=0.15, linewidth=0)
            if name in self.reference:
                label = f"{name}, {self.reference_label}"
                ax.plot(self.x, self.reference[name], color=color, linestyle="--", linewidth=1, label=label)
        if self.log:
            ax.set_xscale("log")
            log_ticks(ax.xaxis, float(self.x.min()), float(self.x.max()))
        self.tidy(ax, self.label, "value")
        ax.legend(frameon=False)


def _recipe(name: str, forecast: Forecast, caller: str, **chosen: Any) -> Recipe:
    """Return the recipe of a metric through the view of the verdict, unless its name has another: ``"ece@top-1"``."""
    short, _, view = judged_name(forecast, name).partition("@")
    return lookup(short, caller, "classes").build(caller=caller, **chosen, **({"view": view} if view else {}))


def _points(values: ArrayLike, argument: str, caller: str) -> Floats:
    points = np.asarray(to_float(to_array(values, argument, caller), argument, caller), dtype=np.float64)
    if points.ndim != 1 or not len(points) or not (np.isfinite(points) & (points > 0)).all():
        raise input_error(argument, caller, "be positive numbers", repr(values)[:80], "leave it out")
    return points


@document
def plot_against_temperature(
    y_true: Any,
    logits: ArrayLike | None = None,
    *,
    metrics: Names = ("ece", "ks", "uce", "mmce"),
    temperatures: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    ax: Any = None,
    style: str = "calibrant",
) -> AgainstDisplay:
    """Draw metrics against the softmax temperature the logits are divided by.

    Parameters
    ----------
    y_true, sample_weight, classes
        As in `calibrant.evaluate`: arrays, or a frame, a path or evidence in place of `y_true`.
    logits : array-like of shape (n, K)
        Before the softmax.
    metrics : short names
        What to draw, through the view of the verdict unless the name has another (``"ece@top-1"``).
    temperatures : array-like, optional
        By default 25 values from 0.2 to 5, evenly on a logarithmic axis.

    References
    ----------
    [1] "Uncertainty Calibration Error" (2020), figures 5-8.
    """
    caller = "plot_against_temperature"
    grid = _points(np.geomspace(0.2, 5.0, 25) if temperatures is None else temperatures, "temperatures", caller)
    if logits is None:
        read = to_forecast(y_true, None, caller, sample_weight=None, classes=None, space="logit")
        y_true = read.codes
        with np.errstate(divide="ignore"):
            logits = read.matrix if read.space == "logit" else np.maximum(np.log(read.proba()), -700.0)
    raw = to_float(to_array(logits, "logits", caller), "logits", caller).astype(np.float64)
    values: dict[str, list[float]] = {name: [] for name in check_words(metrics, "metrics", caller, 1)}
    for temperature in grid:
        forecast = check_forecast(
            y_true, raw / temperature, caller=caller, sample_weight=sample_weight, classes=classes, space="logit"
        )
        for name, found in values.items():
            found.append(_recipe(name, forecast, caller).value(forecast))
    arrays = {name: np.array(found) for name, found in values.items()}
    caption = f"n = {len(raw):,}"
    return AgainstDisplay(grid, arrays, {}, {}, "temperature", True, {}, "", caption=caption).draw(ax, style)


@document
def plot_against_bins(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    metrics: Names = "ece",
    n_bins: ArrayLike = (5, 10, 15, 20, 30, 50, 75, 100),
    n_resamples: int = 100,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = 0,
    ax: Any = None,
    style: str = "calibrant",
) -> AgainstDisplay:
    """Draw binned metrics against the number of bins, beside what a calibrated model would show (dashed).

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space
        As in `calibrant.evaluate`.
    metrics : short names of metrics that have ``n_bins``
        What to draw, through the view of the verdict unless the name has another (``"ece@top-1"``).
    n_bins : array-like of int
        Numbers of bins.
    n_resamples, rng
        Label resamplings of the dashed line; 0 leaves it out.

    References
    ----------
    [1] "Uncertainty Calibration Error" (2020), figures 1 and 10.
    """
    caller = "plot_against_bins"
    grid = _points(n_bins, "n_bins", caller)
    forecast = to_forecast(y_true, y_proba, caller, sample_weight=sample_weight, classes=classes, space=space)
    check_count(n_resamples, "n_resamples", caller)
    random = generator(rng, caller)
    names = check_words(metrics, "metrics", caller, 1)
    recipes = {(name, int(m)): _recipe(name, forecast, caller, n_bins=int(m)) for name in names for m in grid}
    values = {name: np.array([recipes[name, int(m)].value(forecast) for m in grid]) for name in names}
    reference: dict[str, Floats] = {}
    if n_resamples > 0:
        nulls = null_distribution({f"{name} {m}": r for (name, m), r in recipes.items()}, forecast, n_resamples, random)
        reference = {name: np.array([nulls[f"{name} {int(m)}"].mean for m in grid]) for name in names}
    caption = f"n = {forecast.n:,}{'; dashed: average of a calibrated model' if reference else ''}"
    return AgainstDisplay(grid, values, {}, {}, "bins", False, reference, "if calibrated", caption=caption).draw(
        ax, style
    )


@document
def plot_against_sample_size(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    metrics: Names = ("ece", "ks"),
    sizes: ArrayLike | None = None,
    n_repeats: int = 20,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = 0,
    ax: Any = None,
    style: str = "calibrant",
) -> AgainstDisplay:
    """Draw metrics of random parts of the rows against their size: mean and 90% range.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space
        As in `calibrant.evaluate`.
    metrics : short names
        What to draw, through the view of the verdict unless the name has another (``"ece@top-1"``).
    sizes : array-like of int, optional
        By default ten sizes from 100 (or all rows, if fewer) to n, evenly on a logarithmic axis.
    n_repeats, rng
        Random parts per size, drawn without replacement.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, figures 1-3.
    """
    caller = "plot_against_sample_size"
    forecast = to_forecast(y_true, y_proba, caller, sample_weight=sample_weight, classes=classes, space=space)
    default = np.unique(np.geomspace(min(100, forecast.n), forecast.n, 10).round())
    grid = _points(default if sizes is None else sizes, "sizes", caller).astype(np.int64)
    if grid.max() > forecast.n:
        raise input_error("sizes", caller, f"be at most the {forecast.n} rows", str(int(grid.max())), "leave it out")
    random = generator(rng, caller)
    names = check_words(metrics, "metrics", caller, 1)
    recipes = {name: _recipe(name, forecast, caller) for name in names}
    found = np.empty((len(recipes), len(grid), check_count(n_repeats, "n_repeats", caller, 1, "20")))
    for i, size in enumerate(grid):
        for j in range(n_repeats):
            rows: Array = random.permutation(forecast.n)[:size]
            part = forecast.take(rows)
            found[:, i, j] = [recipe.value(part) for recipe in recipes.values()]
    low, high = np.quantile(found, [0.05, 0.95], axis=-1)

    def by_name(values: Floats) -> dict[str, Floats]:
        return dict(zip(recipes, values, strict=True))

    caption = f"{forecast.n:,} rows; band: 90% of {n_repeats} samples of each size"
    ends = by_name(found.mean(axis=-1)), by_name(low), by_name(high)
    return AgainstDisplay(grid.astype(np.float64), *ends, "rows", True, {}, "", caption=caption).draw(ax, style)
