"""Simulated forecasts whose true calibration errors are known."""

from calibrant.datasets.constructions import accuracy_replaced, collapsed, hidden_miscalibration
from calibrant.datasets.forecasts import SimulatedForecast, draw_labels
from calibrant.datasets.simulations import dirichlet_temperature, two_gaussians

__all__ = [
    "SimulatedForecast", "accuracy_replaced", "collapsed", "dirichlet_temperature", "draw_labels",
    "hidden_miscalibration", "two_gaussians"
]  # fmt: skip
