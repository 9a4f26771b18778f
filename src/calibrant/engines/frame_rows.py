"""Rows of a frame made ready for cells: checked, clipped, softmaxed, with top label and row scores, as expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import and_, or_
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array, Ints
from calibrant.core.inputs import check_forecast, check_pairs
from calibrant.core.refusals import counted_from_one
from calibrant.core.row_scores import depends_on_truth, infinite_at_zero, program
from calibrant.engines.expressions import Block, choose, expr, is_nan, outside_of, write_program
from calibrant.engines.private import Private
from calibrant.io.layout import Columns
from calibrant.metrics.recipes import MeanScore, ScoreSums
from calibrant.summary.summary import REASONS, Summary
from calibrant.summary.sums import RowSums, scores_of

SCORE, OUTCOME, WEIGHT, EXPECTED = "__s", "__t", "__w", "__e"
LABEL, _BAD = "__y", "__bad"
#: Smallest probability whose logarithm is taken.
TINY = 1e-300
#: Rows that give the references of the sums.
_SAMPLE = 256
#: Sums of a score: powers about its reference; excess, variance and third moment under calibration.
_POWERS, _NULL = ("_x1", "_x2", "_x3"), ("_d", "_v2", "_v3")
#: Classes whose pairs Polars takes one after the other: faster than an unpivot, but a plan for each.
STACKED = 32
#: Rows in which a label −1 beside 1 is looked for.
FIRST = 1_000


def _p(k: int) -> str:
    return f"__p{k}"


def _log(k: int) -> str:
    return f"__l{k}"


def _named(name: str, suffix: str = "") -> str:
    """Return a column name every engine takes."""
    return "__" + "".join(c if c.isalnum() else "_" for c in name) + suffix


@dataclass(frozen=True)
class FrameRows:
    """A checked frame: probabilities ``__p0`` …, label, weight, reason for leaving a row out, slice columns."""

    frame: Any
    usable: nw.Expr
    reason: nw.Expr
    n_classes: int
    pairs: bool
    weighted: bool
    logits: bool
    #: Names of the scores whose sums are kept; None: all.
    scores: frozenset[str] | None = None

    def recipes(self) -> list[dict[str, MeanScore]]:
        """Return the scores to add up: of top-label pairs, and of whole vectors."""
        return [
            {name: one for name, one in group.items() if self.scores is None or name in self.scores}
            for group in scores_of(pairs=self.pairs)
        ]

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
        return frame.with_columns((nw.col("__top") == nw.col(LABEL)).cast(nw.Int32).cast(nw.Float64).alias(OUTCOME))

    def _with_logs(self, frame: Any) -> Any:
        """Add log p of every class, in two steps: Spark writes an expression out wherever it is named."""
        clipped = [p.clip(lower_bound=TINY).alias(_log(k)) for k, p in enumerate(self._ps())]
        return frame.with_columns(*clipped).with_columns(*(nw.col(_log(k)).log() for k in range(self.n_classes)))

    def logits_of(self, share: float) -> tuple[Any, list[nw.Expr]]:
        """Return the rows that count with log p of every class, mixed with this `share` of even probabilities.

        The smallest probability of a row is in ``__least``.
        """
        frame, logs = self.good, [nw.col(_log(k)) for k in range(self.n_classes)]
        if self.logits:
            return frame, logs
        if share:
            even = share / self.n_classes
            mixed = (p * (1.0 - share) + even for p in self._ps())
            frame = frame.with_columns(*(p.alias(_p(k)) for k, p in enumerate(mixed)))
        return self._with_logs(frame.with_columns(nw.min_horizontal(*self._ps()).alias("__least"))), logs

    def top(self, by: Sequence[str]) -> Any:
        """Return the pairs (confidence, correct)."""
        return self.good_top.select(nw.col(SCORE), nw.col(OUTCOME), *self._keep(by))

    def one_class(self, by: Sequence[str], k: int) -> Any:
        """Return the pairs (p_k, y == k)."""
        hit = (nw.col(LABEL) == float(k)).cast(nw.Int32).cast(nw.Float64)
        return self.good.select(nw.col(_p(k)).alias(SCORE), hit.alias(OUTCOME), *self._keep(by))

    def classes(self, by: Sequence[str], group: str) -> Any:
        """Return the pairs of all classes in long form, their class in `group`."""
        kind = self.frame.implementation  # DuckDB's unpivot works on the default connection only
        if kind.is_duckdb() or (kind.is_polars() and self.n_classes <= STACKED):
            return nw.concat(
                [self.one_class(by, k).with_columns(nw.lit(k).alias(group)) for k in range(self.n_classes)]
            )
        return self.stacked([(k, _p(k), LABEL) for k in range(self.n_classes)], by, group)

    def stacked(self, pairs: Sequence[tuple[int, str, str]], by: Sequence[str], group: str) -> Any:
        """Return pairs (a score, whether an outcome is that number) in long form, their place ``__p0`` … in `group`."""
        # the sign carries the outcome through the unpivot, so that no label is repeated and compared per pair
        signed = [
            nw.when(nw.col(outcome) == float(number))
            .then(-nw.col(score).clip(lower_bound=TINY))
            .otherwise(nw.col(score))
            .alias(_p(place))
            for place, (number, score, outcome) in enumerate(pairs)
        ]
        index = [*by, *([WEIGHT] if self.weighted else [])]
        long = self.good_top.select(*signed, *self._keep(by)).unpivot(
            on=[_p(place) for place in range(len(pairs))], index=index or None, variable_name=group, value_name=SCORE
        )
        hit = (nw.col(SCORE) < 0).cast(nw.Int32).cast(nw.Float64).alias(OUTCOME)
        return long.with_columns(hit, nw.col(SCORE).abs().alias(SCORE))

    def entropy(self, by: Sequence[str], group: str | None) -> Any:
        """Return the pairs (normalized entropy, wrong) and the error the forecast expects, 1 − max p."""
        frame = self._with_logs(self.good_top)
        terms = [p * nw.col(_log(k)) for k, p in enumerate(self._ps())]
        entropy = (nw.sum_horizontal(*terms) * (-1.0 / float(np.log(self.n_classes)))).clip(0.0, 1.0)
        entropy = (entropy * 1e12 + 0.5).floor() / 1e12  # Spark's own round takes decimals: ten times as long
        frame = frame.with_columns(
            (1.0 - nw.col(SCORE)).alias(EXPECTED), (1.0 - nw.col(OUTCOME)).alias(OUTCOME), entropy.alias("__h")
        )
        named = [] if group is None else [nw.col("__top").cast(nw.Int32).alias(group)]
        return frame.select(nw.col("__h").alias(SCORE), nw.col(OUTCOME), nw.col(EXPECTED), *named, *self._keep(by))

    @cached_property
    def references(self) -> dict[str, float]:
        """Return a value near each score, from the first rows: sums of powers about it keep their digits."""
        if not any(self.recipes()):
            return {}
        wanted = [SCORE, OUTCOME] if self.pairs else [*(_p(k) for k in range(self.n_classes)), LABEL]
        head = self.good.select(*wanted).head(_SAMPLE)
        head = head.collect() if isinstance(head, nw.LazyFrame) else head
        columns = [np.asarray(head[name].to_numpy(), dtype=np.float64) for name in wanted]
        if not len(columns[0]):
            return {}
        if self.pairs:
            sample = check_pairs(columns[1] > 0.5, columns[0], caller="summarize")
        else:
            p = np.stack(columns[:-1], axis=1)
            sample = check_forecast(columns[-1].astype(np.int64), p, caller="summarize", normalize=True)
        found = {}
        for recipes in self.recipes():
            for name, recipe in recipes.items():
                x = recipe.rows(sample)
                found[name] = float(np.median(x[np.isfinite(x)])) if np.isfinite(x).any() else 0.0
        return found

    def reasons(self, by: Sequence[str]) -> Any:
        """Return one row (per slice) with the number of rows left out, by reason."""
        bad = nw.col(_BAD)
        tests = {_named(reason, "_n"): bad == i + 1 for i, reason in enumerate(REASONS)}
        counted = [nw.when(test).then(1).otherwise(0).alias(name) for name, test in tests.items()]
        chosen = self.frame.with_columns(self.reason.alias(_BAD)).select(*(nw.col(name) for name in by), *counted)
        totals = [nw.col(name).sum().alias(name) for name in tests]
        return chosen.group_by(*by).agg(*totals) if by else chosen.select(*totals)

    @property
    def summed(self) -> list[str]:
        """The columns that `sums` reads of rows that count."""
        if self.pairs:
            return [SCORE, OUTCOME]
        logs = map(_log, range(self.n_classes)) if self.logits else ()
        return [SCORE, OUTCOME, LABEL, *map(_p, range(self.n_classes)), *logs]

    def sums(self, by: Sequence[str], frame: Any = None) -> Any:
        """Return one row (per slice) with the number of usable rows and the sums of row scores, of a batch if given."""
        frame = self.good_top if frame is None else frame
        top, vector = self.recipes()
        columns: dict[str, dict[str, nw.Expr]] = {}
        if top:
            s = nw.col(SCORE)
            frame = frame.with_columns((1.0 - s).alias("__miss"))
            pair = {"input": [nw.col("__miss"), s], "label": [nw.col(OUTCOME)]}
            pair["truth"] = [nw.when(nw.col(OUTCOME) > 0.5).then(s).otherwise(nw.col("__miss"))]
            frame, columns = self._write(frame, top, pair, "top")
        counts: dict[str, nw.Expr] = {}
        if any(infinite_at_zero(one.score) for one in top.values()):
            counts["sure"] = (s <= 0.0) | (s >= 1.0)
        if vector:
            frame, inputs = self._vector_inputs(frame)
            frame, more = self._write(frame, vector, inputs, "vec")
            columns |= more
            if not self.logits:
                counts["infinite"] = nw.col("__truth") <= 0.0
                counts["zero"] = nw.min_horizontal(*self._ps()) <= 0.0
        values = {_named(name, suffix): x for name, found in columns.items() for suffix, x in found.items()}
        if self.weighted:
            weight = nw.col(WEIGHT)
            counts = {name: test & (weight > 0) for name, test in counts.items()}
            counts["fractional"] = weight != weight.floor()
            values = {"__total_w": weight} | {name: weight * x for name, x in values.items()}
        chosen = frame.select(
            *(nw.col(name) for name in by),
            nw.col(SCORE).alias("__any"),
            *(nw.when(test).then(1).otherwise(0).alias(_named(name, "_n")) for name, test in counts.items()),
            *(x.alias(name) for name, x in values.items()),
        )
        totals = [nw.col(name).sum().alias(name) for name in (*(_named(name, "_n") for name in counts), *values)]
        totals.append(nw.col("__any").count().alias("__n_n"))
        return chosen.group_by(*by).agg(*totals) if by else chosen.select(*totals)

    def _vector_inputs(self, frame: Any) -> tuple[Any, dict[str, Block]]:
        """Add log p of every class, and p and log p of the truth, from the logits themselves where they are known."""
        y, logs = nw.col(LABEL), [nw.col(_log(k)) for k in range(self.n_classes)]
        frame = frame if self.logits else self._with_logs(frame)
        frame = frame.with_columns(choose(self._ps(), y).alias("__truth"), choose(logs, y).alias("__log_truth"))
        return frame, {
            "input": list(self._ps()),
            "log_input": list(logs),
            "truth": [nw.col("__truth")],
            "log_truth": [nw.col("__log_truth")],
            "label": [y],
        }

    def _write(
        self, frame: Any, recipes: Mapping[str, MeanScore], inputs: Mapping[str, Block], prefix: str
    ) -> tuple[Any, dict[str, dict[str, nw.Expr]]]:
        """Add the columns of some scores; return what is to be summed, by score and suffix."""
        steps = program(tuple(r.score for r in recipes.values()), len(inputs["input"]), null=True)
        frame, block = write_program(steps, frame, inputs, prefix)
        gaps = {
            name: (expr(block[4 * i]) - self.references.get(name, 0.0)).alias(_named(name, "_gap"))
            for i, name in enumerate(recipes)
        }
        frame = frame.with_columns(*gaps.values())
        found: dict[str, dict[str, nw.Expr]] = {}
        for i, (name, recipe) in enumerate(recipes.items()):
            gap = nw.col(_named(name, "_gap"))
            found[name] = dict(zip(_POWERS, (gap, gap * gap, gap * gap * gap), strict=True))
            if depends_on_truth(recipe.score):
                found[name] |= dict(zip(_NULL, map(expr, block[4 * i + 1 : 4 * i + 4]), strict=True))
        return frame, found


def prepare(table: Any, columns: Columns, normalize: bool, scores: frozenset[str] | None = None) -> FrameRows:
    """Check every row of a frame inside its engine and make its probabilities ready."""
    schema = table.collect_schema()
    raw = [f"__r{i}" for i in range(len(columns.scores))]
    nan = float("nan")
    weight = [] if columns.weight is None else [_float(columns.weight, schema).fill_null(nan).alias(WEIGHT)]
    k = 0 if columns.kind == "pairs" else len(columns.scores) if columns.kind == "wide" else 2
    frame = table.select(
        *(_float(name, schema).fill_null(nan).alias(r) for name, r in zip(columns.scores, raw, strict=True)),
        _label(columns, schema).alias(LABEL),
        *weight,
        *(nw.col(name) for name in columns.by),
    )
    kinds = [str(schema[name]) for name in columns.scores]
    single = all(kind == "Float32" for kind in kinds)
    tolerance = columns.tolerance
    reason = _reason(table, columns, raw, k, normalize)
    rs = [nw.col(r) for r in raw]
    logits = columns.space == "logit"
    if columns.kind == "pairs":
        frame = frame.with_columns(rs[0].clip(0.0, 1.0).alias(SCORE), nw.col(LABEL).alias(OUTCOME))
    elif columns.kind == "binary":
        frame = _binary(frame, rs[0], logits, single)
    elif logits:
        frame = frame.with_columns(nw.max_horizontal(*rs).alias("__max"))
        mass = nw.sum_horizontal(*((r - nw.col("__max")).exp() for r in rs))
        frame = frame.with_columns((nw.col("__max") + mass.log()).alias("__lse"))
        frame = frame.with_columns(
            *((r - nw.col("__lse")).exp().alias(_p(i)) for i, r in enumerate(rs)),
            *((r - nw.col("__lse")).alias(_log(i)) for i, r in enumerate(rs)),
        )
    elif normalize:
        frame = frame.with_columns(nw.sum_horizontal(*rs).alias("__total"))
        frame = frame.with_columns(
            *((r * (1.0 / nw.col("__total"))).clip(0.0, 1.0).alias(_p(i)) for i, r in enumerate(rs))
        )
    else:
        frame = frame.with_columns(*(r.clip(0.0, 1.0).alias(_p(i)) for i, r in enumerate(rs)))
    usable = _usable(table, columns, raw, k, tolerance, normalize, schema[columns.label])
    pairs, weighted = columns.kind == "pairs", columns.weight is not None
    return FrameRows(frame, usable, reason, k, pairs, weighted, logits, scores)


def _float(name: str, schema: Any) -> nw.Expr:
    column = nw.col(name)
    return column.cast(nw.Int32).cast(nw.Float64) if schema[name] == nw.Boolean else column.cast(nw.Float64)


def _label(columns: Columns, schema: Any) -> nw.Expr:
    """Return the class index of the label as a float: NaN where it is missing, −1 where it names no class."""
    if columns.classes is None:
        return _float(columns.label, schema).fill_null(float("nan"))
    column, dtype = nw.col(columns.label), schema[columns.label]
    plain = dtype.is_numeric() or dtype == nw.Boolean
    names = columns.classes if plain else tuple(str(name) for name in columns.classes)
    code: Any = nw.lit(-1.0)
    for k, name in reversed(list(enumerate(names))):
        code = nw.when(column == name).then(float(k)).otherwise(code)
    return nw.when(column.is_null()).then(float("nan")).otherwise(code)


def label_values(*tables: Private) -> Callable[[str, bool], set[Any]]:
    """Return a function that gives the distinct values of a column, of the first rows alone or of all."""

    def values(name: str, few: bool) -> set[Any]:
        found: set[Any] = set()
        for table in tables:
            column = table.table.select(nw.col(table.names[name]))
            distinct = (column.head(FIRST) if few else column).unique()
            frame = distinct.collect() if isinstance(distinct, nw.LazyFrame) else distinct
            found.update(frame[table.names[name]].to_list())
        return found

    return values


def refuse_counted(
    columns: Columns, k: int, rejected: Mapping[str, int], values: Callable[[str, bool], set[Any]]
) -> None:
    """Refuse labels that count K classes from 1, as rows do, where some named no class: all would be one off."""
    if rejected.get("label") and columns.classes is None and columns.names is None:
        held = {value for value in values(columns.label, False) if isinstance(value, int | float)}
        if held and min(held) == 1 and max(held) == k:
            raise counted_from_one(k, "evaluate")


def _reason(table: Any, columns: Columns, raw: Sequence[str], k: int, normalize: bool) -> nw.Expr:
    """Return 0 for a good row, else 1 + the place of the reason in REASONS."""
    rs, y = [nw.col(r) for r in raw], nw.col(LABEL)
    need = [*rs, y, *([] if columns.weight is None else [nw.col(WEIGHT)])]
    missing = reduce(or_, [is_nan(x, table) for x in need])
    no_label = (y < 0.0) | (y > max(k, 2) - 1.0) | (y != y.floor())
    outside = outside_of(rs, columns, normalize)
    reason: Any = nw.when(outside).then(3).otherwise(0)
    if columns.weight is not None:
        weight = nw.col(WEIGHT)
        reason = nw.when((weight < 0.0) | (weight > 1.7e308)).then(4).otherwise(reason)
    reason = nw.when(no_label).then(2).otherwise(reason)
    return nw.when(missing).then(1).otherwise(reason)


def _usable(
    table: Any, columns: Columns, raw: Sequence[str], k: int, tolerance: float, normalize: bool, label: Any
) -> nw.Expr:
    """Return whether a row counts: the same as no reason against it, in fewer steps (NaN fails every ≤)."""
    rs, y = [nw.col(r) for r in raw], nw.col(LABEL)
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
    if table.implementation.is_duckdb():  # which may drop the tests that only NaN fails
        need = [*rs, y, *([] if columns.weight is None else [nw.col(WEIGHT)])]
        tests += [~is_nan(x, table) for x in need]
    return reduce(and_, tests)


def _binary(frame: Any, r: nw.Expr, logits: bool, single: bool) -> Any:
    """Two columns 1 − p and p from one; the difference is rounded as its own dtype does."""
    if logits:
        frame = frame.with_columns((r.abs() * -1.0).exp().alias("__small"))
        small = nw.col("__small")  # sigmoid and its logarithm without overflow
        one = nw.when(r >= 0.0).then(1.0 / (1.0 + small)).otherwise(small / (1.0 + small))
        frame = frame.with_columns(one.alias(_p(1)), ((1.0 + small).log() * -1.0).alias("__half"))
        half = nw.col("__half")
        frame = frame.with_columns(
            nw.when(r > 0.0).then(half - r).otherwise(half).alias(_log(0)),
            nw.when(r > 0.0).then(half).otherwise(half + r).alias(_log(1)),
        )
        return frame.with_columns((1.0 - nw.col(_p(1))).alias(_p(0)))
    frame = frame.with_columns(r.clip(0.0, 1.0).alias(_p(1)))
    zero = 1.0 - nw.col(_p(1))
    return frame.with_columns((zero.cast(nw.Float32).cast(nw.Float64) if single else zero).alias(_p(0)))


def _number(chunk: dict[str, Array], name: str) -> float:
    """Return the total of a column of sums; an empty frame sums to NULL in SQL."""
    values = (float(value) for value in chunk.get(name, ()) if value is not None)
    return sum(value for value in values if not math.isnan(value))


def read_sums(prepared: FrameRows, summary: Summary, chunk: dict[str, Array]) -> None:
    """Put sums about the references of the scores into a summary."""
    number = partial(_number, chunk)
    n = round(number("__n_n"))
    w = number("__total_w") if prepared.weighted else float(n)
    sums: RowSums = {}
    for recipes in prepared.recipes():
        for name, recipe in recipes.items():
            powers = [number(_named(name, suffix)) for suffix in _POWERS]
            null = [number(_named(name, suffix)) for suffix in _NULL] if depends_on_truth(recipe.score) else [0.0] * 3
            possible = infinite_at_zero(recipe.score)
            null.append(number("__sure_n" if recipe.pairs_suffice else "__zero_n") if possible else 0.0)
            if number("__infinite_n") and possible and not recipe.pairs_suffice:
                sums[name] = ScoreSums(w, math.inf, math.nan, math.nan, math.inf, *null[1:])
            else:
                sums[name] = ScoreSums.about(prepared.references.get(name, 0.0), w, powers, null)
    summary.add_rows(n, round(number("__fractional_n")), sums)


def read_reasons(summary: Summary, chunk: dict[str, Array]) -> None:
    """Put counts of rows left out into a summary."""
    summary.add_rows(0, 0, {}, {reason: round(_number(chunk, _named(reason, "_n"))) for reason in REASONS})


def group_numbers(groups: Array) -> Ints:
    """Return class numbers from a column of numbers or of names ``__p3``."""
    if groups.dtype.kind in "iuf":
        return groups.astype(np.int64)
    names, where = np.unique(groups.astype(str), return_inverse=True)
    return np.array([int(name.removeprefix("__p")) for name in names], dtype=np.int64)[where]
