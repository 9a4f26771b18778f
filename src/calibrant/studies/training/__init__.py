"""The training experiment of the UCE paper and the traces of Nixon's, end to end (needs torch)."""

from calibrant.errors import require

require("torch", "torch", "calibrant train")

from calibrant.studies.training.plan import METHODS, PENALTIES, Cell, Plan  # noqa: E402  # torch is checked first
from calibrant.studies.training.report import Finding, TrainingReport  # noqa: E402
from calibrant.studies.training.run import Progress, run, write_report  # noqa: E402

__all__ = ["METHODS", "PENALTIES", "Cell", "Finding", "Plan", "Progress", "TrainingReport", "run", "write_report"]
