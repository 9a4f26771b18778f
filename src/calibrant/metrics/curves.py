"""Curves behind the numbers: reliability, cumulative, isotonic, local and class tables, as named arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core import curves
from calibrant.core.inputs import Forecast, check_forecast, check_n_bins, check_names
from calibrant.core.moments import normal_quantile, wilson
from calibrant.core.options import check_share
from calibrant.core.results import Record
from calibrant.core.tables import Pairs, Table, value_table, width_bins
from calibrant.core.weights import are_counts
from calibrant.errors import input_error
from calibrant.estimators import check_decay
from calibrant.views import Classwise, View, as_view

__all__ = [
    "ClassTable", "CumulativeCurve", "IsotonicCurve", "LocalCurve", "ReliabilityCurve", "class_table",
    "cumulative_curve", "isotonic_curve", "local_curve", "reliability_curve"
]  # fmt: skip


@dataclass(frozen=True)
class ReliabilityCurve(Record):
    """Per non-empty bin: mean score, frequency, count, Wilson ends, and what a calibrated model shows."""

    score: Floats
    frequency: Floats
    count: Floats
    low: Floats
    high: Floats
    expected_low: Floats
    expected_high: Floats
    level: float
    #: How weights were read.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CumulativeCurve(Record):
    """Cumulative score and outcome against the fraction of rows, their signed `gap`, and its largest size `ks`."""

    fractile: Floats
    score: Floats
    cumulative_score: Floats
    cumulative_outcome: Floats
    gap: Floats
    ks: float


@dataclass(frozen=True)
class IsotonicCurve(Record):
    """CORP curve; the mean (s − t)² = miscalibration − discrimination + uncertainty."""

    score: Floats
    frequency: Floats
    count: Floats
    miscalibration: float
    discrimination: float
    uncertainty: float


@dataclass(frozen=True)
class LocalCurve(Record):
    """Exponentially weighted frequency at the points k/100; calling it gives the value at any score."""

    score: Floats
    frequency: Floats

    def __call__(self, score: ArrayLike) -> Floats:
        """Return the local frequency at any scores, linear between the points."""
        return np.interp(np.asarray(score, dtype=np.float64), self.score, self.frequency)


@dataclass(frozen=True)
class ClassTable(Record):
    """Per class: name, fraction of rows, mean probability, their difference, and the binned error of order 1."""

    name: tuple[Any, ...]
    share: Floats
    mean: Floats
    gap: Floats
    error: Floats


def _pairs(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    view: View | str,
    caller: str,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    space: Space,
) -> Pairs:
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    return one_group(forecast, as_view(view, caller), caller)


def one_group(forecast: Forecast, view: View, caller: str) -> Pairs:
    """Return the pairs of a view with one group, or say that a curve needs one."""
    if not view.single_group or view.canonical:
        raise input_error("view", caller, "have one group of pairs", view.name, "ask for one class: view='class-0'")
    return view.pairs(forecast)


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    n_bins: int = 15,
    bins: str = "width",
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> ReliabilityCurve:
    """Compute the points of a reliability diagram with Wilson ends and the band of a calibrated model.

    Weights that are no counts are worth Kish's number of rows in every bin.

    Examples
    --------
    >>> curve = reliability_curve([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])
    >>> curve.score.tolist(), curve.frequency.tolist()
    ([0.6, 0.9], [1.0, 0.5])
    """
    check_n_bins(n_bins, "reliability_curve")
    check_names(bins, ("width", "mass"), "bins", "reliability_curve")
    check_share(level, "level", "reliability_curve")
    caller = "reliability_curve"
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    pairs = one_group(forecast, as_view(view, caller), caller)
    return replace(pairs_reliability(pairs, n_bins, bins, level), notes=forecast.notes)


def pairs_reliability(pairs: Pairs, n_bins: int = 15, bins: str = "width", level: float = 0.95) -> ReliabilityCurve:
    """Compute the reliability points of given pairs."""
    table = value_table(pairs)
    found = table.mass_bins(n_bins) if bins == "mass" else width_bins(pairs, n_bins)
    expected, counts = np.clip(table.we / table.w, 0.0, 1.0), are_counts(pairs.weight)
    square = table.w if counts else table.w2
    sums = table.with_outcomes(np.stack([square, square * expected * (1 - expected)]))
    squares, noise = (sums.mass_bins(n_bins) if bins == "mass" else sums.bins(n_bins)).wt[:, 0]
    w = found.w[0]
    kept = w > 0
    w, score, frequency = w[kept], found.ws[0][kept] / w[kept], found.wt[0][kept] / w[kept]
    low, high = wilson(frequency, w if counts else w**2 / squares[kept], level)
    half = normal_quantile(0.5 + level / 2) * np.sqrt(noise[kept]) / w
    return ReliabilityCurve(
        score, frequency, w, low, high, np.maximum(score - half, 0.0), np.minimum(score + half, 1.0), level
    )


def cumulative_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> CumulativeCurve:
    """Compute the KS path: cumulative score against cumulative outcome (Gupta et al. 2021, eq. 11).

    Examples
    --------
    >>> cumulative_curve([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6]).gap.tolist()
    [0.0, 0.2, 0.0]
    """
    return table_cumulative(
        value_table(_pairs(y_true, y_proba, view, "cumulative_curve", sample_weight, classes, space))
    )


def table_cumulative(table: Table) -> CumulativeCurve:
    """Compute the KS path of a table."""
    total = table.total

    def path(values: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(values) / total])

    claimed, happened = path(table.ws), path(table.wt)
    gap = happened - claimed
    score = np.concatenate([table.score[:1], table.score])
    return CumulativeCurve(path(table.w), score, claimed, happened, gap, float(np.abs(gap).max()))


def isotonic_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> IsotonicCurve:
    """Compute the CORP curve and its decomposition of the mean (s − t)² (Dimitriadis et al. 2021).

    Examples
    --------
    >>> curve = isotonic_curve([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])
    >>> curve.frequency.tolist()  # the two scores pool: higher score, lower frequency
    [0.75, 0.75]
    """
    table = value_table(_pairs(y_true, y_proba, view, "isotonic_curve", sample_weight, classes, space))
    frequency = curves.isotonic_curve(table.w, table.wt)
    total = table.total
    base = float(table.wt.sum()) / total

    def brier(forecast: Floats) -> float:
        # Σ (f − t)² with t in {0, 1}: w·f² − 2·f·wt + wt
        return float((table.w * forecast**2 - 2 * forecast * table.wt + table.wt).sum()) / total

    score = table.score
    uncertainty = brier(np.full(len(table), base))
    return IsotonicCurve(
        score, frequency, table.w, brier(score) - brier(frequency), uncertainty - brier(frequency), uncertainty
    )


def local_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    decay: float = 0.9,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> LocalCurve:
    """Compute the datapoint-specific curve of Nixon et al. (2019, section 7); call it for any score.

    Examples
    --------
    >>> curve = local_curve([1, 1, 0, 0], [0.9, 0.9, 0.6, 0.6])
    >>> float(curve(0.9)) > float(curve(0.6))
    True
    """
    check_decay(decay, "local_curve")
    table = value_table(_pairs(y_true, y_proba, view, "local_curve", sample_weight, classes, space))
    return LocalCurve(*curves.local_curve(table.score, table.w, table.wt, decay))


def class_table(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    bins: str = "width",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> ClassTable:
    """Compute one row per class: how often it occurs, how often it is predicted, and its binned error.

    Examples
    --------
    >>> class_table([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6]).gap.tolist()
    [0.0, 0.0]
    """
    forecast = check_forecast(
        y_true, y_proba, caller="class_table", sample_weight=sample_weight, classes=classes, space=space
    )
    check_n_bins(n_bins, "class_table")
    check_names(bins, ("width", "mass"), "bins", "class_table")
    view = Classwise()
    found = view.mass_bins(forecast, n_bins) if bins == "mass" else view.width_bins(forecast, n_bins)
    total = found.w.sum(axis=1)
    share, mean = found.wt.sum(axis=1) / total, found.ws.sum(axis=1) / total
    error = np.abs(found.wt - found.ws).sum(axis=1) / total
    return ClassTable(forecast.classes or tuple(range(forecast.n_classes)), share, mean, mean - share, error)
