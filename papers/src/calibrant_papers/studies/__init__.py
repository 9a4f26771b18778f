"""Sensitivity studies of metrics and calibrators: sample size, bins, temperature, label noise and others."""

from __future__ import annotations

from calibrant_papers.studies.bins import bins
from calibrant_papers.studies.estimator_bias import estimator_bias
from calibrant_papers.studies.frame import Study, StudyResult, run_study
from calibrant_papers.studies.label_noise import label_noise
from calibrant_papers.studies.learning_curves import learning_curves
from calibrant_papers.studies.resolution import resolution
from calibrant_papers.studies.sample_size import sample_size
from calibrant_papers.studies.temperature_sweep import temperature_sweep

__all__ = [
    "Study",
    "StudyResult",
    "bins",
    "estimator_bias",
    "label_noise",
    "learning_curves",
    "resolution",
    "run_study",
    "sample_size",
    "temperature_sweep",
]
