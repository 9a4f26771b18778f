"""Rows that a calibrator cannot map, by one rule for every map and engine, and rows that it was fitted on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.calibrators._common import BaseCalibrator
from calibrant.calibrators.application import check_applicable, class_order, is_regression
from calibrant.core.fingerprint import moment_rows, row_hashes, seen_counts, share_of_counts
from calibrant.core.inputs import TOLERANCE
from calibrant.core.links import input_scores
from calibrant.core.options import check_type
from calibrant.engines.batches import _floats, first_length, raw_scores, reduce_raw, score_reasons
from calibrant.engines.expressions import is_nan, outside_of
from calibrant.engines.private import private
from calibrant.errors import input_error
from calibrant.io.layout import Columns, Layout
from calibrant.io.resolver import find_columns
from calibrant.summary.summary import REASONS

__all__ = ["find_scores", "is_loose", "look_through", "moment_reasons", "unusable"]


def find_scores(calibrator: Any, frame: Any, layout: Layout) -> Columns:
    """Return the columns that a calibrator replaces, in its order; the truth and the weights are not needed."""
    rule, hint = "be a fitted calibrator", "call fit or load first"
    check_type(calibrator, BaseCalibrator, "calibrator", "apply", rule, hint)._check_fitted("apply")
    regression = is_regression(calibrator)
    table = nw.from_native(frame, pass_through=True)
    classes = None if regression else tuple(np.asarray(calibrator.classes_).tolist())
    wanted = replace(layout, labels_needed=False, classes=classes)
    found = find_columns(table.collect_schema(), wanted, regression=regression)
    if regression and found.kind != "regression":
        raise input_error("data", "apply", "hold means and variances", "none", "columns mean and variance (or std)")
    if found.kind == "pairs":
        raise input_error("data", "apply", "hold probabilities or logits", "top-label pairs", "keep the vectors")
    if found.kind == "wide":  # classes meet by name
        check_applicable(calibrator, found.space, len(found.scores))
        names, ordered = found.classes or found.names, len(layout.patterns) > 1
        order = class_order(calibrator, names, ordered=ordered, columns=found.scores)
        if order is not None:
            found = replace(found, scores=tuple(found.scores[i] for i in order), classes=None, names=None)
    return replace(found, label="", weight=None)


def unusable(table: Any, columns: Columns, normalize: bool) -> tuple[nw.Expr, nw.Expr]:
    """Return whether a score of a row is missing, and whether one is out of range."""
    raw = [nw.col(name).cast(nw.Float64).fill_null(float("nan")) for name in columns.scores]
    missing = reduce(or_, [is_nan(x, table) for x in raw])
    return missing, outside_of(raw, columns, normalize)


def look_through(
    calibrator: Any, frame: Any, layout: Layout | None = None, *, normalize: bool = False
) -> tuple[int, dict[str, int], float]:
    """Return the number of rows, how many of them cannot be mapped by reason, and which share was fitted on."""
    hidden = private(frame)
    table, columns = hidden.table, hidden.columns(find_scores(calibrator, frame, layout or Layout()))
    names = [*columns.scores, *([columns.variance] if columns.variance else [])]
    k = first_length(table, columns) if columns.kind == "list" else len(columns.scores)
    known, space = calibrator.fitted_on_, getattr(calibrator, "input_space", "proba")

    def read(raw: dict[str, Any]) -> tuple[Array, Ints]:
        """Return scores as a calibrator takes them, with why they cannot be used."""
        if columns.kind == "regression":
            mean, spread = (_floats(raw[name]).astype(np.float64) for name in names)
            return moment_rows(mean, np.square(spread) if columns.std else spread), moment_reasons(mean, spread)
        scores = raw_scores(raw, columns, k)
        loose = normalize or is_loose(columns, scores.dtype == np.float32)
        with np.errstate(all="ignore"):  # rows that cannot be used are left out below
            return input_scores(scores, columns.space, space, normalize=loose), score_reasons(
                scores, columns, normalize
            )

    def count(stream: Iterable[dict[str, Any]]) -> Floats:
        total = np.zeros(9)
        for raw in stream:
            scores, reason = read(raw)
            total[:4] += np.bincount(reason, minlength=4)
            if known:
                total[4:] += seen_counts(known, row_hashes(scores[reason == 0], space))
        return total

    found = reduce_raw(table, names, count)
    rejected = {name: int(found[1 + place]) for place, name in enumerate(REASONS) if name in ("missing", "outside")}
    return int(found[:4].sum()), rejected, share_of_counts(known, found[4:]) if known else 0.0


def is_loose(columns: Columns, single: bool) -> bool:
    """Whether sums may miss 1 by more than numbers of 32 or 64 bits show: they were declared less precise."""
    wide = columns.kind in ("wide", "list") and columns.space == "proba"
    return wide and columns.tolerance > TOLERANCE["float32" if single else "float64"]


def moment_reasons(mean: Array, spread: Array) -> Ints:
    """Return 0 for a usable mean with its spread, else 1 + the place in REASONS."""
    reason = np.zeros(len(mean), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        reason[~(np.isfinite(mean) & np.isfinite(spread) & (spread > 0))] = 3
    reason[np.isnan(mean) | np.isnan(spread)] = 1
    return reason
