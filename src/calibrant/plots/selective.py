"""Pictures of selective prediction: risk against coverage, error against rejection threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant._typing import ArrayLike, Floats
from calibrant.plots.displays import Display, to_forecast
from calibrant.selective import rejection_curve, risk_coverage_curve


@dataclass(frozen=True)
class RiskCoverageDisplay(Display):
    """Error rate of the surest rows (`risk`) against the fraction kept (`coverage`)."""

    coverage: Floats
    risk: Floats
    aurc: float

    def _paint(self, ax: Any) -> None:
        ax.plot(self.coverage, self.risk, color=self.ink.under, label=f"AURC {self.aurc:.4f}")
        ax.axhline(float(self.risk[-1]), color=self.ink.neutral, linewidth=1, linestyle="--", label="all rows kept")
        ax.set_xlim(0, 1)
        ax.set_ylim(bottom=0)
        self.tidy(ax, "fraction of rows kept", "error rate of the kept")
        ax.legend(frameon=False)


@dataclass(frozen=True)
class RejectionDisplay(Display):
    """Error (with Wilson bounds) and coverage of the rows whose uncertainty is at most the threshold."""

    threshold: Floats
    error: Floats
    low: Floats
    high: Floats
    coverage: Floats

    def _paint(self, ax: Any) -> None:
        ax.fill_between(self.threshold, self.low, self.high, color=self.ink.band, alpha=0.35, linewidth=0)
        ax.plot(self.threshold, self.error, color=self.ink.under, marker="o", markersize=3, label="error of the kept")
        ax.plot(self.threshold, 1 - self.coverage, color=self.ink.neutral, linestyle="--", label="fraction rejected")
        ax.set_ylim(bottom=0)
        self.tidy(ax, "uncertainty threshold", "fraction")
        ax.legend(frameon=False)


def _arrays(y_true: Any, y_proba: ArrayLike | None, caller: str) -> tuple[Any, Any]:
    """Return arrays as they are; those of evidence, a frame or a path."""
    if y_proba is not None:
        return y_true, y_proba
    read = to_forecast(y_true, None, caller, sample_weight=None, classes=None, space="proba")
    return read.codes, read.proba()


def plot_risk_coverage(
    y_true: Any, y_proba: ArrayLike | None = None, *, ax: Any = None, style: str = "calibrant", **options: Any
) -> RiskCoverageDisplay:
    """Draw the error rate of the surest rows against the fraction kept.

    `options` go to `calibrant.selective.risk_coverage_curve` (`by`, `sample_weight`, `classes`, `space`).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> plot_risk_coverage([0, 0, 0, 1], p).risk
    array([0.  , 0.  , 0.  , 0.25])
    >>> pyplot().close("all")
    """
    y_true, y_proba = _arrays(y_true, y_proba, "plot_risk_coverage")
    curve = risk_coverage_curve(y_true, y_proba, **options)
    return RiskCoverageDisplay(curve.coverage, curve.risk, curve.aurc, caption=f"n = {curve.n:,}").draw(ax, style)


def plot_rejection(
    y_true: Any, y_proba: ArrayLike | None = None, *, ax: Any = None, style: str = "calibrant", **options: Any
) -> RejectionDisplay:
    """Draw error and fraction of the rejected against the uncertainty threshold.

    `options` go to `calibrant.selective.rejection_curve` (`by`, `thresholds`, `level`, …).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> p = [[0.95, 0.05], [0.9, 0.1], [0.6, 0.4], [0.55, 0.45]]
    >>> plot_rejection([0, 0, 1, 0], p, by="confidence", thresholds=[1.0, 0.1]).coverage
    array([1. , 0.5])
    >>> pyplot().close("all")
    """
    y_true, y_proba = _arrays(y_true, y_proba, "plot_rejection")
    curve = rejection_curve(y_true, y_proba, **options)
    caption = f"n = {curve.n:,}; ribbon: {100 * curve.level:g}% interval"
    columns = (curve.threshold, curve.error, curve.low, curve.high, curve.coverage)
    return RejectionDisplay(*columns, caption=caption).draw(ax, style)
