"""Rows of a frame made ready for cells: checked, clipped, softmaxed, with top label and row scores, as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array, Ints
from calibrant.core.inputs import TOLERANCE
from calibrant.engines.columns import Columns
from calibrant.engines.row_sums import MOMENTS, PAIR_SCORES, VECTOR_SCORES, RowSums
from calibrant.engines.summary import REASONS, Summary
from calibrant.metrics.recipes import ScoreSums

SCORE, OUTCOME, WEIGHT, EXPECTED = "__s", "__t", "__w", "__e"
_LABEL, _BAD, _LOG = "__y", "__bad", "__log"


def _p(k: int) -> str:
    return f"__p{k}"


def _log(k: int) -> str:
    return f"__l{k}"


def _named(name: str, suffix: str = "") -> str:
    """Return a column name every engine takes."""
    return "__" + "".join(c if c.isalnum() else "_" for c in name) + suffix


def _any(tests: Sequence[nw.Expr]) -> nw.Expr:
    return reduce(or_, tests)


def _choose(values: Sequence[Any], label: nw.Expr) -> nw.Expr:
    """Return values[label], as a chain of cases."""
    chosen: nw.Expr = values[-1]
    for k in range(len(values) - 2, -1, -1):
        chosen = nw.when(label == float(k)).then(values[k]).otherwise(chosen)
    return chosen


@dataclass(frozen=True)
class Rows:
    """A checked frame: probabilities ``__p0`` …, label, weight, reason for leaving a row out, slice columns."""

    frame: Any
    usable: nw.Expr
    n_classes: int
    pairs: bool
    weighted: bool
    logits: bool

    @cached_property
    def good(self) -> Any:
        """Rows that count."""
        return self.frame.filter(self.usable)

    @cached_property
    def good_top(self) -> Any:
        """Rows that count, with their top label."""
        return self._with_top(self.good)

    def _keep(self, by: Sequence[str]) -> list[Any]:
        return [*(nw.col(name) for name in by), *([nw.col(WEIGHT)] if self.weighted else [])]

    def _ps(self) -> list[nw.Expr]:
        return [nw.col(_p(k)) for k in range(self.n_classes)]

    def _with_top(self, frame: Any) -> Any:
        """Add the largest probability and whether it names the truth (ties: the lowest index)."""
        if self.pairs:
            return frame
        ps = self._ps()
        frame = frame.with_columns(nw.max_horizontal(*ps).alias(SCORE))
        predicted: Any = nw.lit(float(self.n_classes - 1))
        for k in range(self.n_classes - 2, -1, -1):
            predicted = nw.when(ps[k] == nw.col(SCORE)).then(float(k)).otherwise(predicted)
        frame = frame.with_columns(predicted.alias("__top"))
        return frame.with_columns((nw.col("__top") == nw.col(_LABEL)).cast(nw.Int32).cast(nw.Float64).alias(OUTCOME))

    def _with_logs(self, frame: Any) -> Any:
        """Add log p of every class, in two steps: Spark writes an expression out wherever it is named."""
        clipped = [p.clip(lower_bound=1e-300).alias(_log(k)) for k, p in enumerate(self._ps())]
        return frame.with_columns(*clipped).with_columns(*(nw.col(_log(k)).log() for k in range(self.n_classes)))

    def top(self, by: Sequence[str]) -> Any:
        """Return the pairs (confidence, correct)."""
        return self.good_top.select(nw.col(SCORE), nw.col(OUTCOME), *self._keep(by))

    def one_class(self, by: Sequence[str], k: int) -> Any:
        """Return the pairs (p_k, y == k)."""
        hit = (nw.col(_LABEL) == float(k)).cast(nw.Int32).cast(nw.Float64)
        return self.good.select(nw.col(_p(k)).alias(SCORE), hit.alias(OUTCOME), *self._keep(by))

    def classes(self, by: Sequence[str], group: str) -> Any:
        """Return the pairs of all classes in long form, their class in `group`."""
        if self.frame.implementation.is_duckdb():  # its unpivot works on the default connection only
            return nw.concat(
                [self.one_class(by, k).with_columns(nw.lit(k).alias(group)) for k in range(self.n_classes)]
            )
        # the sign carries the outcome through the unpivot, so that no label is repeated and compared per class
        tiny = 1e-300
        signed = [
            nw.when(nw.col(_LABEL) == float(k))
            .then(-nw.col(_p(k)).clip(lower_bound=tiny))
            .otherwise(nw.col(_p(k)))
            .alias(_p(k))
            for k in range(self.n_classes)
        ]
        index = [*by, *([WEIGHT] if self.weighted else [])]
        long = self.good.select(*signed, *self._keep(by)).unpivot(
            on=[_p(k) for k in range(self.n_classes)], index=index or None, variable_name=group, value_name=SCORE
        )
        hit = (nw.col(SCORE) < 0).cast(nw.Int32).cast(nw.Float64).alias(OUTCOME)
        return long.with_columns(hit, nw.col(SCORE).abs().alias(SCORE))

    def entropy(self, by: Sequence[str], group: str | None) -> Any:
        """Return the pairs (normalised entropy, wrong) and the error the forecast expects, 1 − max p."""
        frame = self._with_logs(self.good_top)
        terms = [p * nw.col(_log(k)) for k, p in enumerate(self._ps())]
        entropy = (nw.sum_horizontal(*terms) * (-1.0 / float(np.log(self.n_classes)))).clip(0.0, 1.0)
        entropy = (entropy * 1e12 + 0.5).floor() / 1e12  # Spark's own round takes decimals: ten times as long
        frame = frame.with_columns(
            (1.0 - nw.col(SCORE)).alias(EXPECTED), (1.0 - nw.col(OUTCOME)).alias(OUTCOME), entropy.alias("__h")
        )
        named = [] if group is None else [nw.col("__top").cast(nw.Int32).alias(group)]
        return frame.select(nw.col("__h").alias(SCORE), nw.col(OUTCOME), nw.col(EXPECTED), *named, *self._keep(by))

    def sums(self, by: Sequence[str]) -> Any:
        """Return one row (per slice) with counts, reasons and the sums of row scores."""
        frame = self._with_top(self.frame)
        weight = nw.col(WEIGHT) if self.weighted else nw.lit(1.0)
        s, t = nw.col(SCORE), nw.col(OUTCOME)
        scores: dict[str, Any] = {"accuracy": t, "confidence": s, "brier@top-1": (s - t) * (s - t)}
        moments: dict[str, Any] = {}
        if not self.pairs:
            frame = self._with_row_scores(frame)
            scores |= {name: nw.col(_named(name)) for name in VECTOR_SCORES}
            moments = {name: nw.col(_named(name)) for name in MOMENTS}
        good = nw.col(_BAD) == 0
        counts = {"n": good, **{reason: nw.col(_BAD) == i + 1 for i, reason in enumerate(REASONS)}}
        if self.weighted:
            counts["fractional"] = good & (weight != weight.floor())
        if not self.pairs:
            counts["infinite"] = good & (nw.col("__zero") > 0) & (weight > 0)
        columns = [nw.when(test).then(1).otherwise(0).alias(_named(name, "_n")) for name, test in counts.items()]
        values = {"__total_w": weight, **{_named(name, "_x"): weight * x for name, x in (scores | moments).items()}}
        values |= {_named(name, "_xx"): weight * x * x for name, x in scores.items()}
        columns += [nw.when(good).then(x).otherwise(0.0).alias(name) for name, x in values.items()]
        names = [*(_named(name, "_n") for name in counts), *values]
        chosen = frame.select(*(nw.col(name) for name in by), *columns)
        totals = [nw.col(name).sum().alias(name) for name in names]
        return chosen.group_by(*by).agg(*totals) if by else chosen.select(*totals)

    def _with_row_scores(self, frame: Any) -> Any:
        """Add the proper scores of each row; see `core.row_scores` for the formulas."""
        ps, y = self._ps(), nw.col(_LABEL)
        logs = [nw.col(_log(k)) for k in range(self.n_classes)]
        frame = self._with_logs(frame).with_columns(
            nw.sum_horizontal(*ps).alias("__sum"),
            nw.sum_horizontal(*(p * p for p in ps)).alias("__square"),
            nw.sum_horizontal(*(p * p * p for p in ps)).alias("__cube"),
            nw.sum_horizontal(*(p * log for p, log in zip(ps, logs, strict=True))).alias("__plogp"),
            nw.sum_horizontal(*(p * log * log for p, log in zip(ps, logs, strict=True))).alias("__plog2p"),
            _choose(ps, y).alias("__true"),
            ps[0].alias("__c0"),
        )
        for k in range(1, self.n_classes - 1):  # running sums, one step each, so that expressions stay short
            frame = frame.with_columns((nw.col(f"__c{k - 1}") + ps[k]).alias(f"__c{k}"))
        truth, square = nw.col("__true"), nw.col("__square")
        ranks = [nw.col(f"__c{k}") - nw.when(y <= float(k)).then(1.0).otherwise(0.0) for k in range(self.n_classes - 1)]
        mean = nw.col("__sum") * (1.0 + square) - 2.0 * square
        again = (
            (1.0 + square) * (1.0 + square) * nw.col("__sum") - 4.0 * (1.0 + square) * square + 4.0 * nw.col("__cube")
        )
        zero = nw.lit(0.0) if self.logits else nw.when(truth > 0).then(0.0).otherwise(1.0)
        log_true = nw.col(_LOG) if self.logits else truth.clip(lower_bound=1e-300).log()
        return frame.with_columns(
            (square - 2.0 * truth + 1.0).alias("__brier"),
            zero.alias("__zero"),
            (log_true * -1.0).alias("__nll"),
            (truth * -1.0 / square.sqrt()).alias("__spherical"),
            nw.sum_horizontal(*(r * r for r in ranks)).alias("__rps"),
            (nw.col("__plogp") * -1.0).alias("__entropy"),
            mean.alias("__brier_mean"),
            (again - mean * mean).alias("__brier_var"),
            (nw.col("__plog2p") - nw.col("__plogp") * nw.col("__plogp")).alias("__nll_var"),
        )


def prepare(table: Any, columns: Columns, normalize: bool) -> Rows:
    """Check every row of a frame inside its engine and make its probabilities ready."""
    schema = table.collect_schema()
    raw = [f"__r{i}" for i in range(len(columns.scores))]
    nan = float("nan")
    weight = [] if columns.weight is None else [_float(columns.weight, schema).fill_null(nan).alias(WEIGHT)]
    k = 0 if columns.kind == "pairs" else len(columns.scores) if columns.kind == "wide" else 2
    frame = table.select(
        *(_float(name, schema).fill_null(nan).alias(r) for name, r in zip(columns.scores, raw, strict=True)),
        _label(columns, schema).alias(_LABEL),
        *weight,
        *(nw.col(name) for name in columns.by),
    )
    kinds = [str(schema[name]) for name in columns.scores]
    single = all(kind == "Float32" for kind in kinds)
    tolerance = TOLERANCE["float32" if single else "float64"]
    frame = frame.with_columns(_reason(columns, raw, k, tolerance, normalize).alias(_BAD))
    rs = [nw.col(r) for r in raw]
    logits = columns.space == "logit"
    if columns.kind == "pairs":
        frame = frame.with_columns(rs[0].clip(0.0, 1.0).alias(SCORE), nw.col(_LABEL).alias(OUTCOME))
    elif columns.kind == "binary":
        frame = _binary(frame, rs[0], logits, single)
    elif logits:
        frame = frame.with_columns(nw.max_horizontal(*rs).alias("__max"))
        mass = nw.sum_horizontal(*((r - nw.col("__max")).exp() for r in rs))
        frame = frame.with_columns((nw.col("__max") + mass.log()).alias("__lse"))
        frame = frame.with_columns(
            *((r - nw.col("__lse")).exp().alias(_p(i)) for i, r in enumerate(rs)),
            (_choose(rs, nw.col(_LABEL)) - nw.col("__lse")).alias(_LOG),
        )
    elif normalize:
        frame = frame.with_columns(nw.sum_horizontal(*rs).alias("__total"))
        frame = frame.with_columns(
            *((r * (1.0 / nw.col("__total"))).clip(0.0, 1.0).alias(_p(i)) for i, r in enumerate(rs))
        )
    else:
        frame = frame.with_columns(*(r.clip(0.0, 1.0).alias(_p(i)) for i, r in enumerate(rs)))
    usable = _usable(columns, raw, k, tolerance, normalize, schema[columns.label])
    return Rows(frame, usable, k, columns.kind == "pairs", columns.weight is not None, logits)


def _float(name: str, schema: Any) -> nw.Expr:
    column = nw.col(name)
    return column.cast(nw.Int32).cast(nw.Float64) if schema[name] == nw.Boolean else column.cast(nw.Float64)


def _label(columns: Columns, schema: Any) -> nw.Expr:
    """Return the class index of the label as a float: NaN where it is missing, −1 where it names no class."""
    if columns.classes is None:
        return _float(columns.label, schema).fill_null(float("nan"))
    column = nw.col(columns.label)
    names = columns.classes if schema[columns.label].is_numeric() else tuple(str(name) for name in columns.classes)
    code: Any = nw.lit(-1.0)
    for k, name in reversed(list(enumerate(names))):
        code = nw.when(column == name).then(float(k)).otherwise(code)
    return nw.when(column.is_null()).then(float("nan")).otherwise(code)


def _reason(columns: Columns, raw: Sequence[str], k: int, tolerance: float, normalize: bool) -> nw.Expr:
    """Return 0 for a good row, else 1 + the place of the reason in REASONS."""
    rs, y = [nw.col(r) for r in raw], nw.col(_LABEL)
    need = [*rs, y, *([] if columns.weight is None else [nw.col(WEIGHT)])]
    missing = _any([x.is_nan() for x in need])
    no_label = (y < 0.0) | (y > max(k, 2) - 1.0) | (y != y.floor())
    if columns.space == "logit":
        outside = _any([r.abs() > 1.7e308 for r in rs])
    elif normalize and columns.kind == "wide":
        total = nw.sum_horizontal(*rs)
        outside = _any([r < 0.0 for r in rs]) | (total <= 0.0) | (total > 1.7e308)
    else:
        outside = _any([(r < -tolerance) | (r > 1.0 + tolerance) for r in rs])
        if columns.kind == "wide":
            outside = outside | ((nw.sum_horizontal(*rs) - 1.0).abs() > tolerance)
    reason: Any = nw.when(outside).then(3).otherwise(0)
    if columns.weight is not None:
        weight = nw.col(WEIGHT)
        reason = nw.when((weight < 0.0) | (weight > 1.7e308)).then(4).otherwise(reason)
    reason = nw.when(no_label).then(2).otherwise(reason)
    return nw.when(missing).then(1).otherwise(reason)


def _usable(columns: Columns, raw: Sequence[str], k: int, tolerance: float, normalize: bool, label: Any) -> nw.Expr:
    """Return whether a row counts: the same as no reason against it, in fewer steps (NaN fails every ≤)."""
    rs, y = [nw.col(r) for r in raw], nw.col(_LABEL)
    tests = [y <= max(k, 2) - 1.0]
    if label != nw.Boolean:
        tests.append(y >= 0.0)
        if not label.is_integer():
            tests.append(y == y.floor())
    if columns.space == "logit":
        tests += [r.abs() <= 1.7e308 for r in rs]
    elif normalize and columns.kind == "wide":
        total = nw.sum_horizontal(*rs)
        tests += [*(r >= 0.0 for r in rs), total > 0.0, total <= 1.7e308]
    else:
        tests += [test for r in rs for test in (r >= -tolerance, r <= 1.0 + tolerance)]
        if columns.kind == "wide":
            tests.append((nw.sum_horizontal(*rs) - 1.0).abs() <= tolerance)
    if columns.weight is not None:
        tests += [nw.col(WEIGHT) >= 0.0, nw.col(WEIGHT) <= 1.7e308]
    return reduce(and_, tests)


def _binary(frame: Any, r: nw.Expr, logits: bool, single: bool) -> Any:
    """Two columns 1 − p and p from one; the difference is rounded as its own dtype does."""
    if logits:
        signed = nw.when(nw.col(_LABEL) > 0.5).then(r).otherwise(r * -1.0)
        small = (signed.abs() * -1.0).exp()
        log_true = (1.0 + small).log() * -1.0 - (signed * -1.0).clip(lower_bound=0.0)
        half = (r.abs() * -1.0).exp()  # sigmoid without overflow
        one = nw.when(r >= 0.0).then(1.0 / (1.0 + half)).otherwise(half / (1.0 + half))
        frame = frame.with_columns(one.alias(_p(1)), log_true.alias(_LOG))
        return frame.with_columns((1.0 - nw.col(_p(1))).alias(_p(0)))
    frame = frame.with_columns(r.clip(0.0, 1.0).alias(_p(1)))
    zero = 1.0 - nw.col(_p(1))
    return frame.with_columns((zero.cast(nw.Float32).cast(nw.Float64) if single else zero).alias(_p(0)))


def read_sums(summary: Summary, chunk: dict[str, Array]) -> None:
    """Put a row of sums into a summary."""

    def number(name: str) -> float:
        value = float(np.asarray(chunk[name], dtype=np.float64)[0]) if name in chunk else 0.0
        return 0.0 if np.isnan(value) else value  # an empty frame sums to NULL in SQL

    names = PAIR_SCORES + (() if summary.pairs else VECTOR_SCORES)
    w = number("__total_w")
    sums: RowSums = {name: ScoreSums(w, number(_named(name, "_x")), number(_named(name, "_xx"))) for name in names}
    if not summary.pairs:
        sums |= {name: ScoreSums(w, number(_named(name, "_x")), 0.0) for name in MOMENTS}
        if number("__infinite_n"):
            sums["nll"] = ScoreSums(w, float("inf"), float("inf"))
    rejected = {reason: round(number(_named(reason, "_n"))) for reason in REASONS}
    summary.add_rows(round(number("__n_n")), round(number("__fractional_n")), sums, rejected)


def group_numbers(groups: Array) -> Ints:
    """Return class numbers from a column of numbers or of names ``__p3``."""
    if groups.dtype.kind in "iuf":
        return groups.astype(np.int64)
    names, where = np.unique(groups.astype(str), return_inverse=True)
    return np.array([int(name.removeprefix("__p")) for name in names], dtype=np.int64)[where]
