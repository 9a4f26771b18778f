"""Sensitivity studies, the papers' tables and the speed comparison."""

# bound here once and for all: modules and functions share their names
from calibrant.studies.bins import bins
from calibrant.studies.coverage import coverage
from calibrant.studies.estimator_bias import estimator_bias
from calibrant.studies.frame import Study, StudyResult, run_study
from calibrant.studies.label_noise import label_noise
from calibrant.studies.learning_curves import learning_curves
from calibrant.studies.reproduce import list_targets, reproduce
from calibrant.studies.resolution import resolution
from calibrant.studies.sample_size import sample_size
from calibrant.studies.temperature_sweep import temperature_sweep

__all__ = [
    "Study",
    "StudyResult",
    "bins",
    "coverage",
    "estimator_bias",
    "label_noise",
    "learning_curves",
    "list_targets",
    "reproduce",
    "resolution",
    "run_study",
    "sample_size",
    "temperature_sweep",
]
