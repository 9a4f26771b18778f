"""Pictures on matplotlib axes: every function computes its numbers first and returns the display that holds them.

matplotlib loads when something is drawn (``pip install 'calibrant[plots]'``); no default of it is changed.
"""

from __future__ import annotations

from calibrant.plots.against import plot_against_bins, plot_against_sample_size, plot_against_temperature
from calibrant.plots.calibration_map import plot_calibration_map
from calibrant.plots.class_errors import plot_class_errors
from calibrant.plots.displays import Display
from calibrant.plots.ks import plot_ks
from calibrant.plots.local import plot_local
from calibrant.plots.methods import plot_methods
from calibrant.plots.regression import plot_pit, plot_variance
from calibrant.plots.reliability import plot_reliability
from calibrant.plots.selective import plot_rejection, plot_risk_coverage
from calibrant.plots.training import plot_training

__all__ = [
    "Display", "plot_against_bins", "plot_against_sample_size", "plot_against_temperature", "plot_calibration_map",
    "plot_class_errors", "plot_ks", "plot_local", "plot_methods", "plot_pit", "plot_rejection", "plot_reliability",
    "plot_risk_coverage", "plot_training", "plot_variance"
]  # fmt: skip
