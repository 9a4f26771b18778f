"""The two ways a metric is made: view × estimator × norm, and the mean of a row score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core import conventions
from calibrant.core.clusters import few_surprises
from calibrant.core.declare import Recipe, declared
from calibrant.core.inputs import Forecast, check_flag, check_forecast, check_groups
from calibrant.core.moments import Moments, NullMoments, clustered_null, mean_moments, skewness_of
from calibrant.core.parallel import CHUNK_SCORES, map_chunks, row_chunks
from calibrant.core.row_scores import RowScore, array_sources, depends_on_truth, infinite_at_zero, pair_block, program
from calibrant.errors import input_error
from calibrant.estimators import Binned, CalibrationError, Estimator
from calibrant.views import TopLabel, View, as_view


class ScoreSums(NamedTuple):
    """State of a mean score: weight, sum, central sums of the second and third power, and the same under calibration.

    `w` = Σw, `wx` = Σw·x, `c2` = Σw·(x − x̄)², `c3` = Σw·(x − x̄)³. Under calibration, with the truth of each row drawn
    from its own forecast, the score has mean m1, variance m2 and third central moment m3: `excess` = Σw·(x − m1),
    `v2` = Σw·m2, `v3` = Σw·m3. What was not counted is nan and stays nan in sums. `zeros` counts the rows that would
    be infinite for a class of probability 0.

    The powers are central because raw third powers cancel: a million scores near a constant would leave no digit of
    the skewness. States add up by the formulas of parallel variance [1], [2]; for the same reason the excess is
    summed row by row and not as the difference of two means.

    References
    ----------
    [1] Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37.
    [2] Pébay (2008), Formulas for robust, one-pass parallel computation of covariances and arbitrary-order
        statistical moments, Sandia report SAND2008-6212, eq. (2.1) and (2.2).
    """

    w: float
    wx: float
    c2: float = math.nan
    c3: float = math.nan
    excess: float = math.nan
    v2: float = math.nan
    v3: float = math.nan
    zeros: float = 0.0

    def __add__(self, other: object) -> ScoreSums:
        if not isinstance(other, ScoreSums):
            return NotImplemented
        if not self.w or not other.w:
            return other if not self.w else self
        w = self.w + other.w
        gap = other.wx / other.w - self.wx / self.w
        joint = gap * gap * self.w * other.w / w
        c2 = self.c2 + other.c2 + joint  # [2] eq. (2.1)
        skewed = joint * gap * (self.w - other.w) / w
        c3 = self.c3 + other.c3 + skewed + 3.0 * gap * (self.w * other.c2 - other.w * self.c2) / w  # [2] eq. (2.2)
        null = (mine + theirs for mine, theirs in zip(self[4:], other[4:], strict=True))
        return ScoreSums(w, self.wx + other.wx, c2, c3, *null)

    @classmethod
    def of(cls, x: Floats, weights: Floats | None, null: Sequence[float] = ()) -> ScoreSums:
        """Count row scores, with their sums under calibration if those are known."""
        w = np.ones(len(x)) if weights is None else weights
        x = x if weights is None else np.where(w > 0, x, 0.0)  # a row of weight 0 is absent, even if infinite
        total, wx = float(w.sum()), float(np.dot(w, x))
        if not math.isfinite(wx) or not total:
            return cls(total, wx, math.nan, math.nan, *null)
        gap = x - wx / total
        squares = gap * gap if weights is None else w * gap * gap
        return cls(total, wx, float(squares.sum()), float(np.dot(squares, gap)), *null)

    @classmethod
    def of_columns(cls, columns: Sequence[Floats], weights: Floats | None, zeros: float = 0.0) -> ScoreSums:
        """Count the four columns of a score: see `calibrant.core.row_scores.COLUMNS`."""
        x, *null = columns
        if weights is None:
            return cls.of(x, None, [*(float(values.sum()) for values in null), float(zeros)])
        used = [np.where(weights > 0, values, 0.0) for values in null]
        return cls.of(x, weights, [*(float(np.dot(weights, values)) for values in used), float(zeros)])

    @classmethod
    def about(cls, reference: float, w: float, powers: Sequence[float], null: Sequence[float] = ()) -> ScoreSums:
        """Read sums Σw·(x − c)^j, j = 1, 2, 3, about a reference c near the scores, as an engine gives them."""
        first, second, third = powers
        if not w or not math.isfinite(first):
            return cls(w, first, math.nan, math.nan, *null)
        gap = first / w
        c2 = max(second - first * gap, 0.0)
        return cls(w, first + reference * w, c2, third - 3.0 * gap * second + 2.0 * gap * gap * first, *null)

    def moments(self) -> Moments | None:
        """Return the moments of the mean; None where they were not counted or a score is or may be infinite."""
        if not self.w or not math.isfinite(self.c3) or self.zeros:
            return None
        second, third = self.c2 / self.w, self.c3 / self.w
        error = math.sqrt(second / max(self.w - 1.0, 1.0))
        return Moments(self.wx / self.w, error, skewness_of(second, third), self.w)

    def null_moments(self) -> NullMoments | None:
        """Return the moments of the mean under calibration; None where they were not counted."""
        if not self.w or math.isnan(self.v3):
            return None
        infinite = not math.isfinite(self.wx)
        mean = math.nan if infinite else (self.wx - self.excess) / self.w
        skewness = skewness_of(self.v2, self.v3) * math.sqrt(self.w)
        return NullMoments(mean, math.sqrt(max(self.v2, 0.0)) / self.w, skewness, self.w, self.excess / self.w)


@dataclass(frozen=True)
class MeanScore(Recipe):
    """The mean of a score of single rows, e.g. a proper score; `link` is applied to the mean.

    `score` describes the possible scores of a row as a program (see `calibrant.core.row_scores`): that alone makes it
    work on rows, summaries, frames of every engine, list batches, torch streams and as a criterion of `fit`.
    `pairs_suffice` says that it is described on the block (1 − s, s) of the top label, with the outcome wrong or right.
    """

    score: RowScore
    link: Callable[[float], float] | None = None
    pairs_suffice: bool = False

    def rows(self, forecast: Forecast) -> Floats:
        """Return the observed score of each row."""
        return self._columns(forecast, null=False)[0]

    def fill(self, forecast: Forecast) -> ScoreSums:
        """Return the sums of the row scores, without those under calibration."""
        key = ("sums", self.score, self.pairs_suffice)  # whatever the link
        return forecast.keep(key, lambda: ScoreSums.of(self.rows(forecast), forecast.weights))

    def once(self, forecast: Forecast) -> float:
        """Return the mean; where there are many rows, their scores are not kept."""
        if forecast.weights is not None or forecast.n <= CHUNK_SCORES:
            return self.value(forecast)
        parts = score_parts((self.score,), forecast, pairs=self.pairs_suffice, null=False)
        return self.linked(sum(float(part.sum()) for part in parts) / forecast.n)

    def fill_null(self, forecast: Forecast) -> ScoreSums:
        """Return the sums of the row scores and of their moments under calibration."""
        key = ("sums", self.score, self.pairs_suffice)

        def sums() -> ScoreSums:
            return ScoreSums.of_columns(self._columns(forecast, null=True), forecast.weights)

        found: ScoreSums = forecast.keep(("null", *key), sums)
        forecast.keep(key, lambda: ScoreSums(*found[:4]))  # the value is known with them
        return found

    def finish(self, state: ScoreSums) -> float:
        """Return the (linked) mean."""
        return self.linked(state.wx / state.w)

    def linked(self, mean: float) -> float:
        """Return the value shown for a mean."""
        return mean if self.link is None else self.link(mean)

    def moments(self, forecast: Forecast, groups: ArrayLike | None = None) -> Moments | None:
        """Return the moments of the mean, of whole clusters if there are any; None if a score is or may be infinite."""
        clusters = check_groups(groups, forecast)
        if self.zeros(forecast):
            return None
        if clusters is None:
            return self.fill(forecast).moments()
        if few_surprises(TopLabel().pairs(forecast), clusters):
            return None
        x = self.rows(forecast)
        return mean_moments(x, forecast.weights, clusters) if np.isfinite(x).all() else None

    def zeros(self, forecast: Forecast) -> int:
        """Return how many rows give probability 0 to a class that would make the score infinite."""
        if not infinite_at_zero(self.score) or (forecast.space == "logit" and not self.pairs_suffice):
            return 0

        def count(rows: slice) -> int:
            p = pair_block(forecast.top_score[rows]) if self.pairs_suffice else forecast.block(rows)
            if p.min() > 0:
                return 0
            found = p.min(axis=1) <= 0
            return int((found if forecast.weights is None else found & (forecast.weights[rows] > 0)).sum())

        return int(forecast.keep(("zeros", self), lambda: sum(map_chunks(count, forecast.chunks()))))

    def null_moments(self, forecast: Forecast, groups: ArrayLike | None = None) -> NullMoments | None:
        """Return the moments of the mean under calibration; None for a score that ignores the truth.

        With clusters the spread is that of the observed excess over whole clusters.
        """
        if not depends_on_truth(self.score):
            return None
        clusters = check_groups(groups, forecast)
        if clusters is None:
            return self.fill_null(forecast).null_moments()
        x, *null = self._columns(forecast, null=True)
        if few_surprises(TopLabel().pairs(forecast), clusters) or not np.isfinite(null[0]).all():
            return None
        return clustered_null(float(np.average(x, weights=forecast.weights)), null, forecast.weights, clusters)

    @property
    def top_label_only(self) -> bool:
        """Whether top-label pairs suffice."""
        return self.pairs_suffice

    @property
    def is_mean(self) -> bool:
        """A mean of row scores."""
        return True

    def _columns(self, forecast: Forecast, *, null: bool) -> list[Floats]:
        return score_columns((self.score,), forecast, pairs=self.pairs_suffice, null=null)


def criteria() -> tuple[str, ...]:
    """Return the names of the proper scores a calibrator can be fitted by: means of row scores of the whole vector."""
    names = []
    for metric in declared():
        if metric.proper:
            recipe = metric.build()
            if isinstance(recipe, MeanScore) and recipe.link is None and not recipe.pairs_suffice:
                names.append(metric.name)
    return tuple(names)


def score_columns(scores: tuple[RowScore, ...], forecast: Forecast, *, pairs: bool, null: bool) -> list[Floats]:
    """Return the columns of `calibrant.core.row_scores.program` for checked predictions."""
    return list(np.concatenate(list(score_parts(scores, forecast, pairs=pairs, null=null)), axis=1))


def score_parts(scores: tuple[RowScore, ...], forecast: Forecast, *, pairs: bool, null: bool) -> Iterator[Floats]:
    """Yield these columns chunk by chunk, each a row."""
    steps = program(scores, 2 if pairs else forecast.n_classes, null=null)
    few = pairs or not any(0 in step.inputs for step in steps.steps)  # the row itself is not read

    def visit(rows: slice) -> Floats:
        p, sources = _pair_sources(forecast, rows) if pairs else _vector_sources(forecast, rows, not few)
        found = steps.run(p, sources)
        return np.ascontiguousarray(np.broadcast_to(found, (len(p), found.shape[-1])).T)

    whole = row_chunks(forecast.n) if few else forecast.chunks()
    # moments take many steps, whose blocks stay in the cache together
    return map_chunks(visit, row_chunks(forecast.n, 32 * (2 if pairs else forecast.n_classes)) if null else whole)


def _pair_sources(forecast: Forecast, rows: slice) -> tuple[Floats, Mapping[str, Callable[[], Any]]]:
    p = pair_block(forecast.top_score[rows])
    return p, array_sources(p, forecast.hit[rows].astype(np.int64)[:, None])


def _vector_sources(forecast: Forecast, rows: slice, whole: bool) -> tuple[Floats, Mapping[str, Callable[[], Any]]]:
    p = forecast.block(rows).astype(np.float64, order="C") if whole else np.empty((len(forecast.codes[rows]), 0))
    return p, {
        "log_input": lambda: forecast.log_block(rows),
        "truth": lambda: forecast.true_score[rows, None],
        "log_truth": lambda: forecast.true_log_score[rows, None],
        "label": lambda: forecast.codes[rows, None],
    }


def top_label_or(view: View | str, otherwise: Recipe, top: Recipe, caller: str) -> Recipe:
    """Choose between the whole-vector score and its top-label form by view."""
    chosen = as_view(view, caller)
    if chosen.plain() == TopLabel():
        return top
    if not chosen.canonical:
        raise input_error("view", caller, "be 'canonical' (whole vector) or 'top-1'", repr(view), "use one of the two")
    return otherwise


def class_reduction(convention: str | None, ours: str) -> str:
    """Return how errors are joined over classes: our way, or that of the named code."""
    return ours if convention is None else conventions.convention(convention).reduce


def calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    estimator: Estimator | None = None,
    norm: float = 1,
    root: bool = True,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Measure a calibration error as view × estimator × norm.

    Every calibration error of the field is one combination: ECE is ``TopLabel × Binned(15)``, SCE is
    ``Classwise × Binned(15)``, KS is ``TopLabel × Cumulative``. 0 is perfect; smaller is better. What it
    misses depends on the view: an error seen through one view may vanish in another.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    view : View or str, default "top-1"
        Which pairs (score, outcome) are judged.
    estimator : Estimator, default Binned(15)
        How the frequency given the score is found.
    norm : float, default 1
        p ≥ 1, or inf for the maximum.
    root : bool, default True
        False gives the p-th power.
    sample_weight, classes, space, normalize
        As everywhere: frequencies, class order, "proba" or "logit", rescale rows rounded in a file.

    Returns
    -------
    float
        (E |s − E[t | s]|^p)^(1/p) as estimated.

    Examples
    --------
    >>> from calibrant.estimators import Cumulative
    >>> calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], view="top-1")
    0.4
    >>> calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], estimator=Cumulative())
    0.2
    """
    check_flag(root, "root", "calibration_error")
    recipe = CalibrationError(as_view(view), Binned() if estimator is None else estimator, norm, root)
    named: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes, "space": space}
    return recipe.value(check_forecast(y_true, y_proba, caller="calibration_error", normalize=normalize, **named))


__all__ = [
    "MeanScore", "ScoreSums", "calibration_error", "class_reduction", "criteria", "score_columns", "top_label_or"
]  # fmt: skip
