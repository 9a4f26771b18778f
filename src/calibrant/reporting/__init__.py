"""The report: a plain summary, rendered by templates into one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant import metrics as _metrics  # noqa: F401  -- declares every metric
from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.arguments import check_options
from calibrant.core.inputs import Forecast, check_forecast, check_pairs, to_array
from calibrant.reporting.page import Report
from calibrant.reporting.recalibration import apply_named, compare_methods_on
from calibrant.reporting.regression import summarize_rows
from calibrant.reporting.summary import summarize

__all__ = ["Report", "report", "report_evidence", "report_forecast", "summarize"]


def report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    after: ArrayLike | None = None,
    calibrator: Any | None = None,
    compare_methods: bool = True,
    by: Mapping[str, ArrayLike] | None = None,
    title: str = "Calibration report",
    source: str | None = None,
    command: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
    pairs: bool = False,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: RNG = 0,
    output: str | Path | None = None,
    league: bool | None = None,
) -> Report:
    """Write a report: verdict, interactive reliability diagram, table, repair, classes, slices, methods.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space, normalize, pairs
        As in `calibrant.evaluate`.
    after : array-like, optional
        Repaired probabilities of the same rows.
    calibrator : fitted calibrator, optional
        Makes `after`, and says whether the map is one-to-one.
    compare_methods : bool, default True
        Without `after` and `calibrator`: compare methods of recalibration by cross-validation on these rows.
    by : mapping of str to array-like, optional
        Columns whose values make slices.
    title, source, command : str
        What stands at the top, where the data came from, how to repeat it.
    level, n_resamples, rng
        As in `calibrant.evaluate`.
    output : path, optional
        Where to write the page.
    league
        The name of `compare_methods` in version 0.1.

    Returns
    -------
    Report
        ``.html``, ``.markdown``, ``.to_dict()``, ``.save(path)``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 200)
    >>> page = report(rng.random(200) < p, p, compare_methods=False, n_resamples=50)
    >>> page.html.startswith("<!doctype html>")
    True
    """
    check_options(report, locals())
    if pairs:
        forecast = check_pairs(y_true, y_proba, caller="report", sample_weight=sample_weight)
    else:
        forecast = check_forecast(
            y_true,
            y_proba,
            caller="report",
            sample_weight=sample_weight,
            classes=classes,
            space=space,
            normalize=normalize,
        )
    columns = {name: to_array(values, name, "report") for name, values in (by or {}).items()}
    repaired = None
    if after is not None:
        repaired = (
            check_pairs(y_true, after, caller="report", sample_weight=sample_weight)
            if pairs
            else check_forecast(y_true, after, caller="report", sample_weight=sample_weight, classes=classes)
        )
    page = report_evidence(
        forecast,
        after=repaired,
        calibrator=calibrator,
        compare_methods=compare_methods if league is None else league,
        by=columns,
        title=title,
        source=source,
        command=command,
        level=level,
        n_resamples=n_resamples,
        rng=rng,
    )
    if output is not None:
        page.save(output)
    return page


def report_evidence(
    evidence: Any,
    *,
    after: Forecast | None = None,
    calibrator: Any | None = None,
    compare_methods: bool = True,
    league: bool | None = None,
    **settings: Any,
) -> Report:
    """Return the report on evidence: checked rows, a `Summary`, or the `Slices` of an engine.

    Sections that a form cannot answer are left out: cells know no recalibration of single rows.

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
        return Report(summarize_rows(evidence, **settings), kind="regression")
    repair: dict[str, Any] | None = None
    if calibrator is not None:
        after, repair = apply_named(evidence, calibrator)
    elif after is None and (compare_methods if league is None else league) and getattr(evidence, "has_vectors", False):
        repair = compare_methods_on(evidence)
    return Report(summarize(evidence, after=after, repair=repair, **settings))


report_forecast = report_evidence
