"""Sensitivity studies: how far a number can be trusted on your own predictions."""

from __future__ import annotations

from typing import Any

# bound here once and for all: modules and functions share their names
import calibrant.studies.reproduce  # noqa: F401 -- the old module, loaded before its name means the function below
from calibrant._deprecated import moved_attribute
from calibrant.studies.bins import bins
from calibrant.studies.coverage import coverage
from calibrant.studies.estimator_bias import estimator_bias
from calibrant.studies.frame import Study, StudyResult, run_study
from calibrant.studies.label_noise import label_noise
from calibrant.studies.learning_curves import learning_curves
from calibrant.studies.resolution import resolution
from calibrant.studies.sample_size import sample_size
from calibrant.studies.temperature_sweep import temperature_sweep

__all__ = [
    "Study", "StudyResult", "adversarial", "bins", "coverage", "estimator_bias", "label_noise", "learning_curves",
    "resolution", "run_study", "sample_size", "temperature_sweep"
]  # fmt: skip


def adversarial(**options: Any) -> Any:
    """Return the study of the adversarial grid (old address of `calibrant_benchmarks.adversarial.adversarial`)."""
    return moved_attribute(__name__, "calibrant_benchmarks.adversarial", "adversarial")(**options)


def list_targets() -> Any:
    """Return every table and figure of the papers by name (old address of `calibrant_papers.list_targets`)."""
    return moved_attribute(__name__, "calibrant_papers", "list_targets")()


def reproduce(*args: Any, **options: Any) -> Any:
    """Return one table or figure of the papers (old address of `calibrant_papers.reproduce`)."""
    return moved_attribute(__name__, "calibrant_papers", "reproduce")(*args, **options)
