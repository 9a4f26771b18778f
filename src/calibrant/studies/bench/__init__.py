"""Our speed against other libraries, side by side in one run (``calibrant bench``).

A family is a module of this package with a tuple ``RACES``; a new one is found by itself.
"""

from __future__ import annotations

from calibrant.studies.bench.report import BenchReport, list_races, run

__all__ = ["BenchReport", "list_races", "run"]
