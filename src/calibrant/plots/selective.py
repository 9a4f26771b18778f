"""Pictures of selective prediction: risk against coverage, error against rejection threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant._typing import ArrayLike, Floats
from calibrant.plots.displays import Display, tidy
from calibrant.plots.palette import BAND, NEUTRAL, UNDER
from calibrant.selective import rejection_curve, risk_coverage_curve


@dataclass(frozen=True)
class RiskCoverageDisplay(Display):
    """Error rate of the surest rows (`risk`) against the share kept (`coverage`)."""

    coverage: Floats
    risk: Floats
    aurc: float

    def _paint(self, ax: Any) -> None:
        ax.plot(self.coverage, self.risk, color=UNDER, label=f"AURC {self.aurc:.4f}")
        ax.axhline(float(self.risk[-1]), color=NEUTRAL, linewidth=1, linestyle="--", label="all rows kept")
        ax.set_xlim(0, 1)
        ax.set_ylim(bottom=0)
        tidy(ax, "share of rows kept", "error rate of the kept")
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
        ax.fill_between(self.threshold, self.low, self.high, color=BAND, alpha=0.35, linewidth=0)
        ax.plot(self.threshold, self.error, color=UNDER, marker="o", markersize=3, label="error of the kept")
        ax.plot(self.threshold, 1 - self.coverage, color=NEUTRAL, linestyle="--", label="share rejected")
        ax.set_ylim(bottom=0)
        tidy(ax, "uncertainty threshold", "share")
        ax.legend(frameon=False)


def plot_risk_coverage(y_true: ArrayLike, y_proba: ArrayLike, *, ax: Any = None, **options: Any) -> RiskCoverageDisplay:
    """Draw the error rate of the surest rows against the share kept.

    `options` go to `calibrant.selective.risk_coverage_curve` (`by`, `sample_weight`, `classes`, `space`).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> plot_risk_coverage([0, 0, 0, 1], p).risk
    array([0.  , 0.  , 0.  , 0.25])
    >>> pyplot().close("all")
    """
    curve = risk_coverage_curve(y_true, y_proba, **options)
    return RiskCoverageDisplay(curve.coverage, curve.risk, curve.aurc).draw(ax)


def plot_rejection(y_true: ArrayLike, y_proba: ArrayLike, *, ax: Any = None, **options: Any) -> RejectionDisplay:
    """Draw error and share of the rejected against the uncertainty threshold.

    `options` go to `calibrant.selective.rejection_curve` (`by`, `thresholds`, `level`, …).

    Examples
    --------
    >>> from calibrant.plots.displays import pyplot
    >>> p = [[0.95, 0.05], [0.9, 0.1], [0.6, 0.4], [0.55, 0.45]]
    >>> plot_rejection([0, 0, 1, 0], p, by="confidence", thresholds=[1.0, 0.1]).coverage
    array([1. , 0.5])
    >>> pyplot().close("all")
    """
    curve = rejection_curve(y_true, y_proba, **options)
    return RejectionDisplay(curve.threshold, curve.error, curve.low, curve.high, curve.coverage).draw(ax)
