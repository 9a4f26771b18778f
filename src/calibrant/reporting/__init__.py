"""The report: a plain summary, rendered by templates into one self-contained page."""

from __future__ import annotations

from typing import Any

from calibrant._typing import Floats
from calibrant.core.inputs import Forecast
from calibrant.reporting.page import Report
from calibrant.reporting.recalibration import apply_named, apply_to_rows, compare_methods_on
from calibrant.reporting.regression import summarize_rows
from calibrant.reporting.summary import summarize

__all__ = ["Report", "report_evidence", "summarize"]


def report_evidence(
    evidence: Any,
    *,
    after: Forecast | None = None,
    calibrator: Any | None = None,
    calibrated: Floats | None = None,
    compare_methods: bool = True,
    **settings: Any,
) -> Report:
    """Return the report on evidence: checked rows, a `Summary`, or the `Slices` of an engine.

    Sections that a form cannot answer are left out. `calibrated` holds what the calibrator made of the rows, if known.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import Summary
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> page = report_evidence(Summary(2).update(rng.random(1000) < p, p), n_resamples=50)
    >>> page.html.startswith("<!")
    True
    """
    if hasattr(evidence, "sorted_parts"):
        parts = (evidence.by, evidence.sorted_parts()) if evidence.by else None
        return report_evidence(evidence.whole, parts=parts, **settings)
    if evidence.task == "regression":
        rows, how = (None, None) if calibrator is None else apply_to_rows(evidence, calibrator)
        return Report(summarize_rows(evidence, after=rows, repair=how, **settings), kind="regression")
    repair: dict[str, Any] | None = None
    if calibrator is not None:
        after, repair = apply_named(evidence, calibrator, calibrated)
    elif after is None and compare_methods and getattr(evidence, "has_vectors", False):
        repair = compare_methods_on(evidence)
    return Report(summarize(evidence, after=after, repair=repair, **settings))
