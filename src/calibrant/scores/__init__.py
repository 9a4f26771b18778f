"""Proper scores and what they say about calibration: error, upper bound, decomposition, honest improvement."""

from calibrant.core.results import Decomposition, Difference
from calibrant.scores.differences import calibration_gain, improvement, paired_difference
from calibrant.scores.errors import calibration_error, decomposition, mean_score, upper_bound
from calibrant.scores.normal import DawidSebastiani, NormalCRPS
from calibrant.scores.rules import Brier, Log, ProperScore, RankedProbability, Spherical, as_score
from calibrant.scores.ustatistics import KernelScore

__all__ = [
    "Brier", "DawidSebastiani", "Decomposition", "Difference", "KernelScore", "Log", "NormalCRPS",
    "ProperScore", "RankedProbability", "Spherical", "as_score", "calibration_error", "calibration_gain",
    "decomposition", "improvement", "mean_score", "paired_difference", "upper_bound"
]  # fmt: skip
