"""`report`: one self-contained page about predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.calibrators.application import is_regression
from calibrant.calibrators.reader import load
from calibrant.core.arguments import check_options
from calibrant.core.inputs import check_pairs
from calibrant.core.weights import WeightKind
from calibrant.errors import input_error
from calibrant.inference.verdict import TOLERANCE
from calibrant.io.paths import is_path
from calibrant.io.predictions import Predictions, to_evidence
from calibrant.reporting import Report, report_evidence
from calibrant.reporting.recalibration import APPLY
from calibrant.workflows.in_sample import find_mark, known_rows
from calibrant.workflows.next_step import named, quoted, reading_words, repaired_name
from calibrant.workflows.second import aligned, calibrated_rows
from calibrant.workflows.sources import Opened, Reading, array_rows, left_out, open_data, title_of

__all__ = ["report"]


def report(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    after: ArrayLike | None = None,
    calibrator: Any | None = None,
    compare_methods: bool = True,
    by: str | Sequence[str] | Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | str | None = None,
    title: str | None = None,
    source: str | None = None,
    command: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space | None = None,
    normalize: bool = False,
    pairs: bool = False,
    level: float = 0.95,
    n_resamples: int = 1000,
    tolerance: float = TOLERANCE,
    rng: RNG = 0,
    output: str | Path | None = None,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    weight_kind: WeightKind | None = None,
    mean: str | None = None,
    variance: str | None = None,
    std: str | None = None,
    part: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float | str | None = None,
    input_format: str | None = None,
    positive: Any = None,
    percent: bool = False,
    confidence: str | None = None,
    correct: str | None = None,
) -> Report:
    """Return a report: verdict, interactive reliability diagram, table, recalibration, classes, slices, methods.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space, normalize, pairs
        As in `calibrant.evaluate`: arrays, or a path, pattern or frame.
    after : array-like, optional
        Recalibrated probabilities of the same rows, for arrays.
    calibrator : fitted calibrator or path, optional
        Makes `after`, and says whether the map is one-to-one.
    compare_methods : bool, default True
        Without `after` and `calibrator`: compare methods of recalibration by cross-validation on these rows. Cells,
        top-label pairs, and means with variances have no such comparison.
    by : str, sequence of str, or mapping of str to array-like, optional
        Columns whose values make slices.
    groups, weight_kind
        As in `calibrant.evaluate`.
    title, source, command : str, optional
        What stands at the top, where the data came from, how to repeat it.
    level, n_resamples, tolerance, rng
        As in `calibrant.evaluate`.
    output : path, optional
        Where to write the page.
    proba, label, weight, mean, variance, std, part, engine, master, strict, input_format
        As in `calibrant.evaluate`.
    positive, percent, confidence, correct
        As in `calibrant.evaluate`.

    Returns
    -------
    Report
        ``.html``, ``.markdown``, ``.to_dict()``, ``.save(path)``; ``str()`` is the terminal text.

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
    how = Reading.of("report", locals())
    opened = open_data(y_true, y_proba, how, by=by, groups=groups)
    about: dict[str, Any] = {
        "title": title or (f"Calibration of {title_of(y_true, '')}" if is_path(y_true) else "Calibration report"),
        "source": source or (title_of(y_true, "") if is_path(y_true) else None),
        "command": command,
        "level": level,
        "n_resamples": n_resamples,
        "tolerance": tolerance,
        "rng": rng,
        "advise": _commands(y_true, calibrator, how),
    }
    _refuse_for(opened, after, calibrator)
    fitted: Any = load(str(calibrator)) if is_path(calibrator) else calibrator
    _check_task(opened, fitted)
    rows = opened.predictions
    if y_proba is not None and not pairs and (fitted is not None or after is not None):
        rows = array_rows(y_true, y_proba, how)
    if fitted is not None and rows is not None and not is_regression(fitted):  # names meet as in apply and compare
        ordered = len(how.layout.patterns) > 1
        about["calibrated"], _ = calibrated_rows(fitted, rows, normalize=normalize, ordered=ordered)
    if after is not None:
        if y_proba is None:
            raise left_out("after", "report", "next to a file or frame", "an array", "give {calibrator}")
        after = _after(y_true, after, rows, how)
    page = _page(opened, after, fitted, compare_methods, about)
    _say_in_sample(page, y_true, fitted, rows, normalize)
    if compare_methods and fitted is None and (opened.cells is not None or opened.evidence.task != "classes"):
        what = "cells" if opened.cells is not None else _WORDS[opened.evidence.task]
        page.summary["notes"].append(f"methods of recalibration are not compared on {what}")
    if opened.cells is not None:
        more = {"rejected": opened.evidence.rejected, "skipped_files": list(opened.evidence.skipped)}
        page.summary.update(more)
    if output is not None:
        page.save(output)
    return page


_WORDS = {"pairs": "top-label pairs", "regression": "means and variances"}


def _commands(data: Any, calibrator: Any, how: Reading) -> Callable[[str], str]:
    """Return what puts the names of the files at hand into a command; a page to be shared has no folders in it."""
    if not is_path(data):
        return str
    file, name = quoted(data), quoted(title_of(data, ""))
    scores, out = reading_words(vars(how), str(data), "apply"), quoted(repaired_name(str(data)))
    apply = f"calibrant apply {quoted(title_of(calibrator, 'cal.json'))} {name}{scores} -o {out}"

    def advise(text: str) -> str:
        return apply if text == APPLY else named(text, data, vars(how)).replace(file, name)

    return advise


def _refuse_for(opened: Opened, after: Any, calibrator: Any) -> None:
    """Refuse a second state where the evidence cannot show one, before any file of it is read."""
    if opened.cells is not None:
        _refuse("on cells: they know no single rows", after=after, calibrator=calibrator)
    if opened.evidence.task == "regression":
        _refuse("for means and variances", after=after)
        if opened.evidence.table is not None:
            _refuse("for quantiles: calibrators take means with variances", calibrator=calibrator)
    if opened.evidence.task == "pairs":
        _refuse("for top-label pairs", calibrator=calibrator)


def _check_task(opened: Opened, fitted: Any) -> None:
    """Refuse a calibrator of means and variances next to class probabilities, and the other way round."""
    kinds = {True: _WORDS["regression"], False: "class probabilities"}
    wanted = opened.evidence.task == "regression"
    if fitted is not None and is_regression(fitted) != wanted:
        rule = f"map {kinds[wanted]}, which the file holds"
        raise input_error("calibrator", "report", rule, f"one of {kinds[not wanted]}", "fit one")


def _after(y_true: Any, after: Any, rows: Predictions | None, how: Reading) -> Any:
    """Return the evidence after a recalibration, its classes in the order of those before."""
    if rows is None:
        found = check_pairs(y_true, after, caller="report", sample_weight=how.sample_weight)
    else:
        second = aligned(array_rows(y_true, after, replace(how, space=None, percent=False)), rows, how)
        found = to_evidence(replace(second, truth=rows.truth, classes=second.classes or rows.classes), caller="report")
    return found.read_weights(how.weight_kind)


def _page(opened: Opened, after: Any, calibrator: Any, compare_methods: bool, about: dict[str, Any]) -> Report:
    evidence = opened.evidence
    if opened.cells is not None:
        return report_evidence(opened.cells, **about)
    if evidence.task == "regression":
        settings = about | {"by": dict(opened.columns), "groups": opened.clusters}
        return report_evidence(evidence, calibrator=calibrator, **settings)
    settings = about | {"by": dict(opened.columns), "groups": opened.clusters}
    return report_evidence(evidence, after=after, calibrator=calibrator, compare_methods=compare_methods, **settings)


def _say_in_sample(page: Report, y_true: Any, fitted: Any, rows: Predictions | None, normalize: bool) -> None:
    """Say on the page that the calibrator was fitted on these rows, in place of calling the change better."""
    seen = find_mark(y_true)
    if fitted is not None:
        seen = None if rows is None else known_rows(fitted, rows, normalize=normalize)
    if seen is None:
        return
    page.summary["in_sample"] = seen.to_dict()
    page.summary["notes"].append(seen.sentence.rstrip("."))
    if page.summary.get("comparison"):
        page.summary["comparison"]["verdict"] = seen.sentence
        page.summary["comparison"]["json"] |= {"verdict": seen.sentence, "in_sample": seen.to_dict()}
    elif fitted is None:
        page.summary["verdict"] = seen.verdict


def _refuse(why: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise left_out(name, "report", why, str(value) if is_path(value) else value)
