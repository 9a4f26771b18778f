"""Rows that a calibrator cannot map: found by one rule for every map and engine, and counted by reason."""

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
from calibrant.calibrators.application import is_regression
from calibrant.core.options import check_type
from calibrant.engines.batches import _floats, _matrix, first_length, reduce_raw, score_reasons
from calibrant.engines.expressions import is_nan, outside_of
from calibrant.engines.private import private
from calibrant.errors import input_error
from calibrant.io.layout import Columns, Layout
from calibrant.io.resolver import find_columns
from calibrant.summary.summary import REASONS

__all__ = ["count_unusable", "find_scores", "moment_reasons", "unusable"]


def find_scores(calibrator: Any, frame: Any, layout: Layout) -> Columns:
    """Return the columns that a calibrator replaces; the truth and the weights are not needed."""
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
    return replace(found, label="", weight=None)


def unusable(table: Any, columns: Columns, normalize: bool) -> tuple[nw.Expr, nw.Expr]:
    """Return whether a score of a row is missing, and whether one is out of range."""
    raw = [nw.col(name).cast(nw.Float64).fill_null(float("nan")) for name in columns.scores]
    missing = reduce(or_, [is_nan(x, table) for x in raw])
    return missing, outside_of(raw, columns, normalize)


def count_unusable(
    calibrator: Any, frame: Any, layout: Layout | None = None, *, normalize: bool = False
) -> tuple[int, dict[str, int]]:
    """Return the number of rows and how many of them cannot be mapped, by reason; their result is NULL."""
    hidden = private(frame)
    table, columns = hidden.table, hidden.columns(find_scores(calibrator, frame, layout or Layout()))
    if columns.kind in ("list", "regression"):
        found = _count_batches(table, columns, normalize)
    else:
        missing, outside = unusable(table, columns, normalize)
        code = nw.when(missing).then(1).otherwise(nw.when(outside).then(3).otherwise(0))
        counted = table.select(code.alias("code")).group_by("code").agg(nw.len().alias("n"))
        held = counted.collect() if isinstance(counted, nw.LazyFrame) else counted
        found = dict(zip(map(int, held["code"].to_list()), map(int, held["n"].to_list()), strict=True))
    reasons = {REASONS[code - 1]: n for code, n in found.items() if code}
    return sum(found.values()), {
        reason: reasons.get(reason, 0) for reason in REASONS if reason in ("missing", "outside")
    }


def _count_batches(table: Any, columns: Columns, normalize: bool) -> dict[int, int]:
    names = [*columns.scores, *([columns.variance] if columns.variance else [])]
    k = first_length(table, columns) if columns.kind == "list" else 0

    def codes(raw: dict[str, Any]) -> Ints:
        if columns.kind == "regression":
            return moment_reasons(_floats(raw[names[0]]), _floats(raw[names[1]]))
        return score_reasons(_matrix(raw[names[0]], k), columns, normalize)

    def count(stream: Iterable[dict[str, Any]]) -> Floats:
        return sum((np.bincount(codes(raw), minlength=4).astype(np.float64) for raw in stream), np.zeros(4))

    return {code: int(n) for code, n in enumerate(reduce_raw(table, names, count)) if n}


def moment_reasons(mean: Array, spread: Array) -> Ints:
    """Return 0 for a usable mean with its spread, else 1 + the place in REASONS."""
    reason = np.zeros(len(mean), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        reason[~(np.isfinite(mean) & np.isfinite(spread) & (spread > 0))] = 3
    reason[np.isnan(mean) | np.isnan(spread)] = 1
    return reason
