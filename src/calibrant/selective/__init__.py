"""Refusing forecasts: rejection, risk against coverage, and detecting out-of-distribution data."""

from calibrant.selective.ood import OodDetection, ood_detection
from calibrant.selective.rejection import RejectionCurve, rejection_curve
from calibrant.selective.risk_coverage import (
    RiskCoverageCurve,
    SelectivePoint,
    coverage_at_risk,
    risk_coverage_curve,
    risk_coverage_interval,
)
from calibrant.selective.uncertainty import uncertainty

__all__ = [
    "OodDetection", "RejectionCurve", "RiskCoverageCurve", "SelectivePoint", "coverage_at_risk",
    "ood_detection", "rejection_curve", "risk_coverage_curve", "risk_coverage_interval", "uncertainty"
]  # fmt: skip
