"""The training experiment of the UCE paper and the traces of Nixon's, end to end (needs torch)."""

from calibrant.errors import require

require("torch", "torch", "calibrant train")

from calibrant_papers.training.plan import METHODS, PENALTIES, Cell, Plan  # noqa: E402  # torch is checked first
from calibrant_papers.training.report import Finding, TrainingReport  # noqa: E402
from calibrant_papers.training.run import Progress, report_of, run, write_report  # noqa: E402

__all__ = [
    "METHODS",
    "PENALTIES",
    "Cell",
    "Finding",
    "Plan",
    "Progress",
    "TrainingReport",
    "report_of",
    "run",
    "write_report",
]
