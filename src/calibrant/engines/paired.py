"""Two forecasts of the same rows on an engine, paired: cells of both and sums of their differences in one pass.

A second pass finds how two errors move together, which depends on the cells of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array, Floats
from calibrant.calibrators.application import calibrate, check_applicable, class_order, is_regression
from calibrant.core.fingerprint import row_hashes, seen_counts, share_of_counts
from calibrant.core.inputs import Forecast, check_forecast
from calibrant.core.links import input_scores
from calibrant.core.tables import Pairs, cell_key
from calibrant.core.text import count
from calibrant.engines.batches import _codes, _off_simplex, clean, first_length, raw_scores, reduce_raw, score_reasons
from calibrant.engines.frame_rows import label_values
from calibrant.engines.frames import _length, check_rejected
from calibrant.engines.private import private
from calibrant.errors import FileError, input_error
from calibrant.inference.changes import slopes
from calibrant.inference.comparison import Comparison, compare_evidence, compared_metrics
from calibrant.inference.evaluation import needed
from calibrant.io.layout import Columns, Layout, listed
from calibrant.io.predictions import PAIR_CLASSES
from calibrant.io.resolver import find_columns
from calibrant.metrics.recipes import MeanScore, ScoreSums, score_columns
from calibrant.summary.slices import Slices
from calibrant.summary.summary import REASONS, Summary
from calibrant.summary.sums import kept_scores, scores_of

__all__ = ["compare_frames"]

_AFTER, _MOVED = ("after",), ("moved",)


def compare_frames(
    first: Any,
    second: Any = None,
    layout: Layout | None = None,
    *,
    calibrator: Any = None,
    key: Sequence[str] = (),
    metrics: Iterable[str] | None = None,
    injective: bool = False,
    normalize: bool = False,
    strict: bool = False,
    level: float = 0.95,
    n_bins: int = 15,
    rng: Any = 0,
) -> tuple[Comparison, float]:
    """Return the comparison of two forecasts of the same rows of an engine, and the fraction of known rows.

    The second one is what a `calibrator` makes of the first, or a frame whose columns `key` name the row. The fraction
    is that of rows which the calibrator was fitted on, 0 where it does not know.
    """
    hidden = private(first)
    names = layout or Layout()
    found = find_columns(hidden.schema, names, values=label_values(hidden))
    columns, table = hidden.columns(found), hidden.table
    if columns.kind == "regression":
        raise input_error("data", "compare", "hold class probabilities on an engine", "means", "leave out {engine}")
    k = first_length(table, columns) if columns.kind == "list" else 2 if columns.kind == "binary" else len(found.scores)
    k = 0 if columns.kind == "pairs" else k
    sides = _Sides(columns, k, normalize, calibrator)
    if calibrator is None:
        table, sides = _joined(hidden, second, names, list(key), found, sides)
    else:
        sides = replace(sides, order=_order(calibrator, found, k, ordered=len(names.patterns) > 1))
    empty = Summary(k or None, pairs=not k, classes=columns.classes or columns.names)
    empty.sums = {name: ScoreSums(0.0, 0.0) for group in scores_of(pairs=not k) for name in group}
    empty.caller = "compare"
    built = compared_metrics(empty, metrics, n_bins)
    views, scores = needed(empty, list(built), inference=True)
    kept = {"accuracy", "confidence", *(kept_scores() if scores is None else scores)} & empty.sums.keys()
    fits = [n_bins] if any(empty.grid_of(view) % n_bins for view in views) else []
    model = Summary(k or None, views=views, pairs=not k, classes=empty.classes, n_bins=fits)
    model.caller = "compare"
    states: Slices = reduce_raw(table, sides.used, lambda raws: _fold(raws, sides, model, kept))
    before, after, moved = states.whole, states.parts[_AFTER], states.parts[_MOVED]
    if moved.rejected["label"]:
        raise FileError(
            f"the labels of the two differ in {count(moved.rejected['label'])} rows with the same {listed(key)}",
            hint="compare forecasts of the same rows",
        )
    check_rejected(before.rejected, strict)
    if not before.n:
        raise input_error("data", "compare", "hold at least one usable row", "none", "check the columns")
    before.caller = after.caller = moved.caller = "compare"
    errors = {name: recipe for name, (_, recipe) in built.items() if not recipe.is_mean}
    known = getattr(calibrator, "fitted_on_", None) if before.counts else None
    paired = _Paired(moved, {}) if before.counts else _Paired(moved, dict.fromkeys(errors.values()))
    share = 0.0
    curves = _curves(errors.values(), before, after) if before.counts else {}
    if curves or known:
        sums = reduce_raw(table, sides.used, lambda raws: _moves(raws, sides, list(curves.values()), known))
        share = share_of_counts(known, sums[:5]) if known else 0.0
        found_r = {
            recipe: _correlation(part, before.total)
            for recipe, part in zip(curves, sums[5:].reshape(-1, 5), strict=True)
        }
        paired = _Paired(moved, found_r)
    settings = {"metrics": list(built), "level": level, "n_bins": n_bins, "rng": rng}
    return compare_evidence(before, after, injective=injective, paired=paired, **settings), share


@dataclass(frozen=True)
class _Paired:
    """What cells cannot tell: sums of the differences row by row, and the correlation of two errors."""

    moved: Summary
    found: Mapping[Any, float | None]

    def score_sums(self, recipe: Any) -> ScoreSums:
        return self.moved.score_sums(recipe)

    def correlation(self, recipe: Any) -> float | None:
        return self.found.get(recipe)


@dataclass(frozen=True)
class _Sides:
    """How raw columns become two checked forecasts of the same rows."""

    columns: Columns
    n_classes: int
    normalize: bool
    calibrator: Any = None
    #: Where the classes of the calibrator, or of the first forecast, stand in the columns.
    order: list[int] | None = None
    #: Columns of the second forecast in the same table.
    other: Columns | None = None

    @property
    def used(self) -> tuple[str, ...]:
        return (*self.columns.used, *(() if self.other is None else self.other.used))

    def read(self, raws: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, Any, Array, dict[str, int], int]]:
        """Yield both forecasts, what the calibrator was given, rows left out, and rows whose labels differ."""
        for raw in raws:
            batch = clean(raw, self.columns, self.n_classes, self.normalize)
            left, keep, differ = dict(batch.rejected), np.ones(len(batch.codes), dtype=bool), 0
            given = batch.scores
            if self.other is not None:
                given = raw_scores(raw, self.other, self.n_classes)[batch.good]
                reason = score_reasons(given, self.other, self.normalize)
                keep = reason == 0
                for number, name in enumerate(REASONS):
                    left[name] += int((reason == number + 1).sum())
                if self.other.label:
                    truth = _codes(raw[self.other.label], self.other)[batch.good]
                    differ = int((truth != batch.codes)[keep].sum())
            codes, scores, given = batch.codes[keep], batch.scores[keep], given[keep]
            weights = None if batch.weights is None else batch.weights[keep]
            if not len(codes) or (weights is not None and not weights.any()):
                yield None, None, given, left, differ
                continue
            one = self._forecast(codes, scores, weights, self.columns.space)
            if self.other is not None:
                given = given if self.order is None else _matrix(given, self.other.space)[:, self.order]
                yield one, self._forecast(codes, given, weights, self.other.space), given, left, differ
                continue
            given = scores if self.order is None else _matrix(scores, self.columns.space)[:, self.order]
            loose = self.columns.space == "proba" and _off_simplex(given)
            q = calibrate(self.calibrator, given, self.columns.space, normalize=loose)
            if self.order is not None:
                turned = np.empty_like(q)
                turned[:, self.order] = q
                q = turned
            q = q if self.n_classes else q[:, 1]
            yield one, self._forecast(codes, q, weights, "proba"), given, left, 0

    def _forecast(self, codes: Any, scores: Array, weights: Any, space: Any) -> Forecast:
        more: dict[str, Any] = {"caller": "compare", "sample_weight": weights}
        if not self.n_classes:
            return check_forecast(codes.astype(bool), scores, pairs=True, **more)
        return check_forecast(codes, scores, space=space, normalize=space == "proba" and _off_simplex(scores), **more)


def _matrix(scores: Array, space: str) -> Array:
    if scores.ndim == 2:
        return scores
    return np.stack([np.zeros_like(scores) if space == "logit" else 1 - scores, scores], axis=1)


def _order(calibrator: Any, found: Columns, k: int, *, ordered: bool) -> list[int] | None:
    """Return where the classes of a calibrator stand in the columns; refuse one that cannot map them."""
    if is_regression(calibrator):
        raise input_error("calibrator", "compare", "map class probabilities", "one of variances", "use another")
    pairs = tuple(np.asarray(calibrator.classes_).tolist()) == PAIR_CLASSES
    if pairs != (not k):
        words = ["probabilities of classes", "a confidence in the top label"]
        raise input_error(
            "calibrator", "compare", f"map {words[not k]}", f"one of {words[pairs]}", "fit one on such rows"
        )
    check_applicable(calibrator, found.space, k or 2, caller="compare")
    if pairs or found.kind == "list":
        return None
    order = class_order(
        calibrator, found.classes or found.names, caller="compare", ordered=ordered, columns=found.scores
    )
    return None if order is None or order == sorted(order) else order


def _joined(
    hidden: Any, second: Any, layout: Layout, key: list[str], found: Columns, sides: _Sides
) -> tuple[Any, _Sides]:
    """Join the second forecast to the rows of the first by the columns of a key, each value once in both."""
    other = private(second)
    for name in key:
        for side, word in ((hidden, "first"), (other, "second")):
            if name not in side.schema:
                raise input_error("key", "compare", f"name columns of the {word} forecast", repr(name), "name another")
    known = replace(layout, labels_needed=False, classes=found.classes or found.names)
    mine = find_columns(other.schema, known, values=label_values(other))
    mine = replace(mine, weight=None)
    if (mine.kind == "pairs") != (found.kind == "pairs"):
        raise input_error("before", "compare", "hold what the first holds", f"{mine.kind} columns", "compare alike")
    names = {name: f"o{i}" for i, name in enumerate(mine.used)}
    right = other.table.select(
        *(nw.col(other.names[name]).alias(f"k{i}") for i, name in enumerate(key)),
        *(nw.col(other.names[name]).alias(new) for name, new in names.items()),
    )
    on = [hidden.names[name] for name in key]
    joined = hidden.table.join(right, left_on=on, right_on=[f"k{i}" for i in range(len(key))], how="inner")
    left_keys, right_keys = hidden.table.select(*on), right.select(*(f"k{i}" for i in range(len(key))))
    sizes = [_length(one) for one in (left_keys, right_keys, left_keys.unique(), right_keys.unique(), joined)]
    if len(set(sizes)) > 1:
        raise FileError(
            f"{listed(key)} does not pair the rows one to one: {count(sizes[0])} and {count(sizes[1])} rows with "
            f"{count(sizes[2])} and {count(sizes[3])} values, of which {count(sizes[4])} pairs meet",
            hint="name the columns of {key} that tell every row of both apart, and the same rows",
        )
    shown = Columns(mine.kind, tuple(names[name] for name in mine.scores), names.get(mine.label, ""), mine.space)
    shown = replace(shown, classes=mine.classes, tolerance=mine.tolerance)
    classes, others = (one.classes or one.names for one in (found, mine))
    order = None
    if (classes is None) != (others is None) and len(found.scores) > 2 and len(layout.patterns) < 2:
        hint = "call the columns of both alike"
        shown_names = [listed(one) if one else "no names" for one in (classes, others)]
        raise input_error(
            "before", "compare", f"have the classes of the first ({shown_names[0]})", shown_names[1], hint
        )
    if classes and others and list(map(str, classes)) != list(map(str, others)):
        if set(map(str, classes)) != set(map(str, others)):
            raise input_error(
                "before", "compare", f"have the classes {listed(classes)}", listed(others), "compare one problem"
            )
        order = [list(map(str, others)).index(str(name)) for name in classes]
        shown = replace(shown, classes=tuple(classes))
    return joined, replace(sides, other=shown, order=order)


def _fold(raws: Iterable[dict[str, Any]], sides: _Sides, model: Summary, kept: set[str]) -> Slices:
    """Put batches into the cells of both forecasts and the sums of their scores and differences."""
    before, after = model.empty(), model.empty()
    moved = Summary(model.n_classes or None, views=(), classes=model.classes, pairs=model.pairs)
    groups = [
        {name: recipe for name, recipe in group.items() if name in kept} for group in scores_of(pairs=model.pairs)
    ]
    for one, two, _, left, differ in sides.read(raws):
        before.add_rows(0, 0, {}, left)
        moved.add_rows(0, 0, {}, {"label": differ})
        if one is None:
            continue
        a, b = _scores(one, groups), _scores(two, groups)
        w = one.weights
        fractional = 0 if w is None else int((w != np.floor(w)).sum())
        zeros: list[dict[str, int]] = []
        for summary, forecast, rows in ((before, one, a), (after, two, b)):
            summary.add_tables(forecast)
            zeros.append({name: recipe.zeros(forecast) for group in groups for name, recipe in group.items()})
            sums = {name: ScoreSums.of(x, w)._replace(zeros=float(zeros[-1][name])) for name, x in rows.items()}
            summary.add_rows(one.n, fractional, sums)
        with np.errstate(invalid="ignore"):  # ∞ − ∞: no interval
            sums = {name: ScoreSums.of(a[name] - b[name], w) for name in a}
        moved.add_rows(one.n, 0, {k: v._replace(zeros=float(zeros[0][k] + zeros[1][k])) for k, v in sums.items()})
    return Slices(before, ("side",), {_AFTER: after, _MOVED: moved})


def _scores(forecast: Forecast, groups: Sequence[Mapping[str, MeanScore]]) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for pairs, group in zip((True, False), groups, strict=True):
        if group:
            columns = score_columns(tuple(r.score for r in group.values()), forecast, pairs=pairs, null=False)
            found |= dict(zip(group, columns, strict=True))
    return found


# -- how two errors move together ------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """How much a row moves an error: the slope of its cell times its residual."""

    grid: int
    keys: Array
    slope: Floats

    def of(self, pairs: Pairs) -> Floats:
        place = np.searchsorted(self.keys, cell_key(pairs.score, self.grid)).clip(0, len(self.keys) - 1)
        return np.asarray(self.slope[place] * (pairs.outcome - pairs.score.astype(np.float64)))


def _curves(recipes: Iterable[Any], before: Summary, after: Summary) -> dict[Any, tuple[Any, _Curve, _Curve]]:
    found = {}
    for recipe in recipes:
        view = recipe.resampled_view()
        if view is None or not view.has_interval or not recipe.on_tables:
            continue
        curves = []
        for side in (before, after):
            table = side.resampling_table(view)
            score = np.clip(table.ws / table.w, 0.0, 1.0)
            share: Any = table.wt / table.w  # outcomes of a cell, on average
            slope = slopes(recipe, Pairs(score, share, table.w))
            curves += [] if slope is None else [_Curve(table.grid, table.key, slope)]
        if len(curves) == 2:
            found[recipe] = (view, *curves)
    return found


def _moves(raws: Iterable[dict[str, Any]], sides: _Sides, curves: Sequence[Any], known: Any) -> Floats:
    """Return the counts of a fingerprint, and Σw·(uv, u, v, u², v²) of every pair of errors."""
    total = np.zeros(5 + 5 * len(curves))
    for one, two, given, *_ in sides.read(raws):
        if one is None:
            continue
        if known:
            space = sides.calibrator.input_space
            loose = sides.columns.space == "proba" and _off_simplex(given)
            fed = input_scores(given, sides.columns.space, space, normalize=loose)
            total[:5] += seen_counts(known, row_hashes(fed, space))
        w = np.ones(one.n) if one.weights is None else one.weights
        for place, (view, mine, yours) in enumerate(curves):
            u, v = mine.of(one.pairs_of(view)), yours.of(two.pairs_of(view))
            total[5 + 5 * place :][:5] += [w @ (u * v), w @ u, w @ v, w @ (u * u), w @ (v * v)]
    return total


def _correlation(sums: Floats, total: float) -> float:
    uv, u, v, uu, vv = sums
    spread = max(uu - u * u / total, 0.0) * max(vv - v * v / total, 0.0)
    return float(np.clip((uv - u * v / total) / np.sqrt(spread), -1.0, 1.0)) if spread > 0 else 0.0
