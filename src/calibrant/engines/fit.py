"""Fit calibrators on more rows than fit in memory: from cells, or by Newton with one pass over the rows per step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Floats, Space
from calibrant.calibrators import (
    BetaCalibration,
    HistogramBinning,
    IsotonicMulticlass,
    IsotonicOneVsRest,
    PlattScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators import _newton as newton
from calibrant.calibrators._common import BaseCalibrator
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators._multinomial import Diagonal, _solve, minimize
from calibrant.calibrators._natural_spline import fit_curve
from calibrant.calibrators._one_vs_rest import fit_each
from calibrant.calibrators._scores import Scores
from calibrant.calibrators.histogram import fit_bins
from calibrant.core.arguments import check_options
from calibrant.core.options import check_type
from calibrant.core.pav import Pieces, isotonic_knots, smooth_knots
from calibrant.core.tables import Table
from calibrant.engines.batches import Batch, first_length, reduce_rows
from calibrant.engines.expressions import choose
from calibrant.engines.frame_rows import LABEL, STACKED, WEIGHT, FrameRows, label_values, prepare
from calibrant.engines.frames import collect, summarize
from calibrant.engines.private import private
from calibrant.engines.spark import without_origins
from calibrant.errors import ConvergenceWarning, input_error
from calibrant.io.layout import Columns, Layout
from calibrant.io.resolver import find_columns
from calibrant.summary.summary import Summary
from calibrant.views import Classwise, Pooled, TopLabel

__all__ = ["fit_frame", "fit_summary", "uses_every_row"]

_LOW, _HIGH = 1e-4, 1e4
#: A pass over all rows is saved where a step is this small: what is left is of the order of its square.
_PASS_TOLERANCE = 1e-5
_BY_PASSES = (TemperatureScaling, VectorScaling)
_FROM_CELLS = (
    IsotonicOneVsRest,
    IsotonicMulticlass,
    HistogramBinning,
    SplineCalibration,
    PlattScaling,
    BetaCalibration,
)


def uses_every_row(calibrator: Any) -> bool:
    """Whether `fit_frame` can fit this method on all rows of a frame."""
    return isinstance(calibrator, _BY_PASSES + _FROM_CELLS)


def fit_summary(calibrator: Any, summary: Summary) -> Any:
    """Fit a calibrator on a summary's cells, and return it.

    Parameters
    ----------
    calibrator : Calibrator
        IsotonicOneVsRest, IsotonicMulticlass, HistogramBinning, SplineCalibration, PlattScaling or BetaCalibration.
        Its options are used; ``space`` is set to "proba": cells are cells of probabilities.
    summary : Summary
        With the class-wise view (the spline's default target needs only top-1).

    Notes
    -----
    A cell stands for its rows at their mean score; the fitted curve differs from the one of the rows by the
    width of a cell (1/1 200, far less at both ends) in score. Exact zeros take the smallest positive mean.

    Examples
    --------
    >>> from calibrant.calibrators import IsotonicOneVsRest
    >>> from calibrant.engines import Summary
    >>> scores = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.7, 0.3]]
    >>> summary = Summary(views=["classwise"], n_classes=2).update([0, 0, 1, 0], scores)
    >>> fit_summary(IsotonicOneVsRest(), summary).predict_proba([[0.3, 0.7]]).round(3).tolist()
    [[0.0, 1.0]]
    """
    if summary.pairs:
        raise input_error(
            "summary", "fit_summary", "know the probability vectors", "top-label pairs", "summarize p_* columns instead"
        )
    rule, hint = "be a calibrator of class probabilities", "pass for example TemperatureScaling()"
    check_type(calibrator, BaseCalibrator, "calibrator", "fit_summary", rule, hint)
    calibrator.set_params(space="proba", classes=summary.classes)
    calibrator._check_options("fit_summary")
    _finish(calibrator, summary.n_classes, summary.classes)
    if isinstance(calibrator, SplineCalibration):
        _fit_spline(calibrator, summary)
    elif isinstance(calibrator, IsotonicMulticlass):
        calibrator.thresholds_, calibrator.values_ = isotonic_knots(_pieces(summary.tables(Pooled())[0]))
    elif isinstance(calibrator, IsotonicOneVsRest | HistogramBinning):
        _fit_curves(calibrator, summary)
    elif isinstance(calibrator, PlattScaling | BetaCalibration):
        _fit_logistic(calibrator, summary)
    else:
        raise input_error(
            "calibrator",
            "fit_summary",
            "be isotonic, histogram, spline, Platt or beta",
            type(calibrator).__name__,
            "use fit_frame for temperature and vector scaling, or fit on a sample of rows",
        )
    return calibrator


def _finish(calibrator: Any, n_classes: int, classes: Any, floor: float = 0.0) -> None:
    calibrator.n_classes_ = calibrator.n_features_in_ = n_classes
    calibrator.classes_ = np.arange(n_classes) if classes is None else np.asarray(classes)
    calibrator.floor_, calibrator.smallest_ = floor, 1e-300


def _pieces(table: Table) -> Pieces:
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    return Pieces(score, score, table.w, table.wt)


def _fit_spline(calibrator: SplineCalibration, summary: Summary) -> None:
    if calibrator.target not in ("top-1", "classwise"):
        rule = "be 'top-1' or 'classwise'"
        raise input_error("target", "fit_summary", rule, repr(calibrator.target), "fit other ranks on a sample of rows")
    view = TopLabel() if calibrator.target == "top-1" else Classwise()
    curves = [fit_curve(_pieces(table), calibrator.n_knots, calibrator.monotone) for table in summary.tables(view)]
    calibrator.thresholds_, calibrator.values_, calibrator.coefficients_ = (list(x) for x in zip(*curves, strict=True))


def _fit_curves(calibrator: IsotonicOneVsRest | HistogramBinning, summary: Summary) -> None:
    tables = summary.tables(Classwise())

    def one(k: int) -> tuple[Floats, Floats]:
        pieces = _pieces(tables[k])
        if isinstance(calibrator, HistogramBinning):
            return fit_bins(pieces, calibrator.n_bins, calibrator.strategy)
        return smooth_knots(pieces, calibrator.smooth) if calibrator.smooth > 0 else isotonic_knots(pieces)

    curves = fit_each(summary.n_classes, one)
    first, values = [x for x, _ in curves], [x for _, x in curves]
    if isinstance(calibrator, HistogramBinning):
        calibrator.edges_, calibrator.values_ = first, values
    else:
        calibrator.thresholds_, calibrator.values_ = first, values


def _fit_logistic(calibrator: Any, summary: Summary) -> None:
    fitted = []
    smallest = np.inf
    for table in summary.tables(Classwise()):
        score = table.ws / table.w
        positive = score[score > 0]
        least = float(positive.min()) if len(positive) else 1e-12
        smallest = min(smallest, least)
        log_p = np.log(np.maximum(score, least))[:, None]
        log_rest = np.log(np.maximum((table.w - table.ws) / table.w, 1e-16))[:, None]
        hits, misses = table.wt, table.w - table.wt
        two = np.concatenate
        log_p, log_rest = two([log_p, log_p]), two([log_rest, log_rest])
        weights = two([hits, misses])
        hit = two([np.ones_like(hits), np.zeros_like(misses)])[:, None]
        if isinstance(calibrator, PlattScaling):
            theta, good = _platt(log_p - log_rest, hit, weights, calibrator.smooth)
        else:
            theta, good = calibrator._solve_block(log_p, log_rest, hit, weights)
        if not good:
            warnings.warn(
                f"{calibrator.title}: the solver stopped before its gradient tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )
        fitted.append(theta[:, 0])
    calibrator.smallest_ = float(smallest)
    columns = np.stack(fitted, axis=1)
    if isinstance(calibrator, PlattScaling):
        calibrator.slope_, calibrator.shift_ = columns
    else:
        calibrator.a_, calibrator.b_, calibrator.c_ = columns


def _platt(odds: Floats, hit: Floats, weights: Floats, smooth: bool) -> tuple[Floats, bool]:
    count = float(weights @ hit[:, 0])
    high, low = 1.0, 0.0
    if smooth:
        high, low = (count + 1) / (count + 2), 1 / (float(weights.sum()) - count + 2)
    start = np.array([[1.0], [0.0]])
    targets = np.where(hit > 0, high, low)
    theta, _, good = fit_logistic([odds, np.ones_like(odds)], targets, weights, start, np.ones((2, 1), dtype=bool))
    return theta, good


# -- distributed Newton ---------------------------------------------------------------------------


@without_origins()
def fit_frame(calibrator: Any, frame: Any, layout: Layout | None = None, *, normalize: bool = False) -> Any:
    """Fit temperature or vector scaling on a frame of any engine: sums of gradient and Hessian per pass.

    Other methods that work on cells are fitted by `fit_summary` after one pass.

    Parameters
    ----------
    calibrator : Calibrator
        ``TemperatureScaling`` (loss "nll"), ``VectorScaling``, or a method `fit_summary` takes.
    frame
        Any frame or relation Narwhals knows.
    layout : Layout, optional
        Names of the columns.
    normalize : bool, default False
        Rescale rows to sum 1.

    Notes
    -----
    Probabilities are read as logits log p, so exact zeros need ``floor=`` a number; logits have no such need.

    Examples
    --------
    >>> import polars as pl
    >>> from calibrant.calibrators import TemperatureScaling
    >>> frame = pl.LazyFrame({"p_0": [0.9] * 3 + [0.1] * 2, "p_1": [0.1] * 3 + [0.9] * 2, "label": [0, 0, 1, 1, 1]})
    >>> fitted = fit_frame(TemperatureScaling(), frame)
    >>> round(float(fitted.predict_proba([[0.9, 0.1]])[0, 0]), 3)  # four of five rows are right
    0.8
    """
    check_options(fit_frame, locals())
    if not isinstance(calibrator, _BY_PASSES):
        views = (TopLabel(), Classwise())
        return fit_summary(calibrator, summarize(frame, layout, views=views, normalize=normalize).whole)
    hidden = private(frame)
    columns = hidden.columns(find_columns(hidden.schema, layout or Layout(), values=label_values(hidden)))
    table = hidden.table
    if columns.kind == "pairs":
        raise input_error("frame", "fit_frame", "hold probabilities or logits", "top-label pairs", "keep the vectors")
    k = first_length(table, columns) if columns.kind == "list" else max(len(columns.scores), 2)
    calibrator.set_params(space=columns.space, classes=columns.classes or columns.names)
    floor = getattr(calibrator, "floor", None)
    share = float(floor) if isinstance(floor, int | float) else 0.0

    def reduce(function: Callable[[Floats, Any, Floats], Floats], size: int) -> Floats:
        def state(rows: Iterable[Batch]) -> Floats:
            total = np.zeros(size)
            for batch in rows:
                if len(batch.codes):
                    weights = np.ones(len(batch.codes)) if batch.weights is None else batch.weights
                    scores = batch.scores
                    if normalize and columns.space == "proba" and scores.ndim == 2:
                        scores = scores / scores.sum(axis=1, keepdims=True, dtype=np.float64)
                    total += function(_logits(scores, columns.space, share), batch.codes, weights)
            return total

        return np.asarray(reduce_rows(table, columns, k, normalize, state))

    kind = table.implementation
    inside = (kind.is_polars() or kind.is_duckdb() or kind.is_pyspark()) and columns.kind != "list" and k <= STACKED
    if isinstance(calibrator, TemperatureScaling) and inside:
        _newton_temperature(calibrator, _expression_sums(prepare(table, columns, normalize), columns, share))
    else:
        _refuse_zeros(_count_zeros(reduce, columns, share))
        if isinstance(calibrator, VectorScaling):
            _newton_vector(calibrator, reduce, k)
        else:
            _newton_temperature(calibrator, _batch_sums(reduce, columns.space), newton.STEP_TOLERANCE)
    _finish(calibrator, k, columns.classes or columns.names, share)
    return calibrator


def _logits(scores: Any, space: Space, share: float) -> Floats:
    """Return one batch as logits; one column is class 1 of two."""
    if scores.ndim == 1:
        one = scores.astype(np.float64)
        scores = np.stack([np.zeros_like(one), one] if space == "logit" else [1 - one, one], axis=1)
    if space == "logit":
        return np.asarray(scores, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(
            Scores(np.clip(scores, 0, 1), space, "proba").values() * (1 - share) + share / scores.shape[1]
        )


def _count_zeros(reduce: Any, columns: Columns, share: float) -> int:
    if columns.space == "logit" or share > 0:
        return 0
    return int(reduce(lambda p, _codes, _weights: np.array([float((p <= 0).any(axis=1).sum())]), 1)[0])


def _refuse_zeros(zeros: int) -> None:
    if zeros:
        rule = "hold positive probabilities, because their logarithm is scaled"
        hint = "give logits, or floor= a number to the calibrator"
        raise input_error("frame", "fit_frame", rule, f"{zeros} rows with an exact 0", hint)


def _batch_sums(reduce: Any, space: Space) -> Callable[[float], newton.Sums]:
    """Return the sums of loss, slope and curvature by batches of rows in NumPy."""

    def sums(beta: float) -> newton.Sums:
        def part(z: Floats, codes: Any, weights: Floats) -> Floats:
            one = newton.nll_sums(_log(z, space), codes, weights, 0.0, beta)
            return np.array([one.loss, one.slope, one.curve, *one.more])

        return newton.Sums.of(reduce(part, 1 + newton.ORDER))

    return sums


def _expression_sums(prepared: FrameRows, columns: Columns, share: float) -> Callable[[float], newton.Sums]:
    """Return the same sums as one query inside the engine; the first one counts exact zeros too."""
    frame, logs = prepared.logits_of(share)
    k = len(logs)
    gaps, tops = [nw.col(f"__d{i}") for i in range(k)], [nw.col(f"__e{i}") for i in range(k)]
    frame = frame.with_columns(nw.max_horizontal(*logs).alias("__peak"))
    frame = frame.with_columns(*((x - nw.col("__peak")).alias(f"__d{i}") for i, x in enumerate(logs)))
    frame = frame.with_columns(choose(gaps, nw.col(LABEL)).alias("__target"))
    mean, target, weight = nw.col("__mean"), nw.col("__target"), nw.col(WEIGHT)
    checked = columns.space == "logit" or share > 0

    def sums(beta: float) -> newton.Sums:
        work = frame.with_columns(*((gap * beta).exp().alias(f"__e{i}") for i, gap in enumerate(gaps)))
        first = [top * gap for top, gap in zip(tops, gaps, strict=True)]
        second = [one * gap for one, gap in zip(first, gaps, strict=True)]
        work = work.with_columns(nw.sum_horizontal(*tops).alias("__mass"))
        mass = nw.col("__mass")
        work = work.with_columns(
            (nw.sum_horizontal(*first) / mass).alias("__mean"), (nw.sum_horizontal(*second) / mass).alias("__second")
        )
        terms = [mass.log() - target * beta, mean - target, nw.col("__second") - mean * mean]
        terms = [weight * term for term in terms] if prepared.weighted else terms
        zeros = nw.when(nw.col("__least") <= 0.0).then(1.0).otherwise(0.0)
        held = work.select(*(x.alias(f"__x{i}") for i, x in enumerate([*terms, *([] if checked else [zeros])])))
        names = [f"__x{i}" for i in range(3 if checked else 4)]
        (found,) = collect([held.select(*(nw.col(name).sum() for name in names))])
        values = [float(found[name].to_list()[0] or 0.0) for name in names]
        _refuse_zeros(0 if checked else int(values[3]))
        return newton.Sums.of(values[:3])

    return sums


def _newton_temperature(
    calibrator: TemperatureScaling, sums: Callable[[float], newton.Sums], tolerance: float = _PASS_TOLERANCE
) -> None:
    if calibrator.loss != "nll":
        raise input_error("loss", "fit_frame", "be 'nll': it is convex", repr(calibrator.loss), "fit brier on a sample")
    start = 1.0 / getattr(calibrator, "temperature_", 1.0)  # of a sample, where there was one
    beta, inside = newton.solve(sums, start, _LOW, _HIGH, tolerance)
    if not inside:
        warnings.warn(
            f"temperature: the best T lies outside [{_LOW:g}, {_HIGH:g}]; T = {1 / beta:.3g} is used. Check that "
            "columns and labels match.",
            ConvergenceWarning,
            stacklevel=3,
        )
    calibrator.temperature_ = 1.0 / beta


def _log(values: Floats, space: Space) -> Floats:
    return values if space == "logit" else np.log(values)


class _DistributedDiagonal:
    """Vector scaling's problem with sums from one pass over all rows: value, gradient and Hessian together."""

    def __init__(self, reduce: Any, k: int, space: Space) -> None:
        self.reduce, self.k, self.space = reduce, k, space
        self.center = np.stack([np.ones(k), np.zeros(k)])
        self.hessian: Any = None

    def evaluate(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient; keeps the Hessian for the direction."""
        k, space = self.k, self.space
        none = np.zeros((2, k))

        def part(z: Floats, codes: Any, weights: Floats) -> Floats:
            problem = Diagonal(_log(z, space), codes, weights, none, none)
            loss, gradient = problem.evaluate(theta)
            total = weights.sum()
            return np.concatenate([[total], total * np.append(loss, gradient), total * problem._hessian().ravel()])

        sums = self.reduce(part, 2 + 2 * k + 4 * k * k)
        mean = sums[1:] / sums[0]
        ridge = sums[0] ** -2
        off = theta - self.center
        self.hessian = mean[1 + 2 * k :].reshape(2 * k, 2 * k) + 2 * ridge * np.eye(2 * k)
        return float(mean[0] + ridge * (off * off).sum()), mean[1 : 1 + 2 * k].reshape(2, k) + 2 * ridge * off

    def direction(self, gradient: Floats, accuracy: float) -> Floats:  # noqa: ARG002 -- the Hessian is at hand
        """Return −H⁻¹g."""
        return -_solve(self.hessian, gradient.ravel()).reshape(gradient.shape)


def _newton_vector(calibrator: VectorScaling, reduce: Any, k: int) -> None:
    problem = _DistributedDiagonal(reduce, k, calibrator.space)
    theta, _, converged = minimize(problem, problem.center)
    if not converged:
        warnings.warn(
            "vector scaling: the solver stopped before its gradient tolerance.", ConvergenceWarning, stacklevel=3
        )
    calibrator.scale_, calibrator.shift_ = theta[0].copy(), theta[1].copy()
