"""The cross-fitted comparison: every candidate forecasts rows it was not fitted on."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant._typing import Array, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._multinomial import one_blas_thread
from calibrant.calibrators._scores import Scores, pool_rows
from calibrant.calibrators.beta import BetaCalibration
from calibrant.calibrators.dirichlet import DirichletCalibration
from calibrant.calibrators.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.calibrators.identity import Identity
from calibrant.calibrators.isotonic import IsotonicOneVsRest
from calibrant.calibrators.isotonic_multiclass import IsotonicMulticlass
from calibrant.calibrators.order_preserving import OrderPreserving
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.structured_matrix import StructuredMatrixScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.vector import VectorScaling
from calibrant.calibrators.venn_abers import VennAbers
from calibrant.core.folds import class_order
from calibrant.core.parallel import map_chunks
from calibrant.errors import ConvergenceWarning

#: Most scores (rows times classes) the comparison looks at; the winners are fitted on all rows.
LEAGUE_SCORES = 2_000_000
COMPARED_ROWS = 2_000
#: Most copies of rows that are dealt to folds; where weights say more, a card is worth several.
MOST_CARDS = 1_000_000
#: Rows below which folds are drawn twice.
TWICE = 2_000
#: Most classes for which a full matrix is fitted without structure.
DIRICHLET_CLASSES = 30
#: Strength of its penalty in rows; no cross-validation inside the comparison's own.
DIRICHLET_WORTH = 5.0
#: A probability of the truth counts as no less than this.
LEAST = 1e-15
#: Largest uniform weight put under exact zeros: above, the logarithm is all but linear and maps near T = 1 do not fit.
MOST_FLOOR = 0.5
#: Rows from which one smoothed curve per class takes part.
CURVE_ROWS = 1_000
#: Fractions of the pool before any row is seen; the rest is spread evenly.
PRIOR_SHARES = {"structured-matrix": 0.4, "order-preserving": 0.25, "platt": 0.15, "identity": 0.15}


@dataclass(frozen=True)
class Entry:
    """One candidate: its name in the table and how to build it for so many rows and classes."""

    name: str
    build: Callable[[float, int], Calibrator]
    #: Free numbers: fewer is simpler.
    size: float
    preserves_argmax: bool
    preserves_order: bool
    title: str
    #: Share in the pool before any row is seen: what was good on many data sets, most of all with few rows.
    prior: float


def entry_of(calibrator: Calibrator, n_classes: int, name: str | None = None) -> Entry:
    """Make a candidate of an unfitted calibrator."""
    kind = type(calibrator)
    return Entry(
        name or kind.short_name,
        lambda _n, _k: clone(calibrator),
        kind.n_parameters(n_classes),
        calibrator.preserves_argmax,
        calibrator.preserves_order,
        kind.title if name in (None, kind.short_name) else name,
        PRIOR_SHARES.get(kind.short_name, 0.0),
    )


def name_apart(calibrators: Sequence[Calibrator]) -> list[str]:
    """Return the short names of candidates; where several have one, with the options in which they differ.

    A class that inherits its short name goes by its own name there. Equal calibrators keep one name.
    """
    short = [part.short_name for part in calibrators]
    return [name if short.count(name) == 1 else _long_name(part) for name, part in zip(short, calibrators, strict=True)]


def _long_name(calibrator: Any) -> str:
    kind = type(calibrator)
    options = " ".join(calibrator.__repr__(N_CHAR_MAX=10_000).split()).removeprefix(kind.__name__)
    return (kind.short_name if "short_name" in vars(kind) else kind.__name__) + options.removesuffix("()")


def default_entries(n_classes: int, rows: float, *, fast: bool) -> list[Entry]:
    """Return the methods that earned their place with so many classes and rows, simplest first."""
    quick: list[Calibrator] = [Identity(), TemperatureScaling(), OrderPreserving(), VectorScaling()]
    if fast:
        return [entry_of(part, n_classes) for part in quick]
    parts: list[Calibrator] = [
        *quick,
        EnsembleTemperatureScaling(loss="nll"),
        BetaCalibration(),
        StructuredMatrixScaling(),
        IsotonicMulticlass(),
    ]
    if n_classes == 2:
        parts += [PlattScaling(), VennAbers()]
    if rows >= CURVE_ROWS:
        parts.append(IsotonicOneVsRest(smooth=1.0))
    entries = [entry_of(part, n_classes) for part in parts]
    if n_classes <= DIRICHLET_CLASSES:
        entries.append(
            replace(
                entry_of(DirichletCalibration(), n_classes),
                build=lambda n, _k: DirichletCalibration(odir=(DIRICHLET_WORTH / n, DIRICHLET_WORTH / n)),
            )
        )
    return sorted(entries, key=lambda entry: entry.size)


@dataclass(frozen=True)
class Split:
    """Rows to fit on and rows held out, with weights: a row of weight 5 may have 4 parts in one and 1 in the other."""

    fit: Ints
    fit_weights: Floats
    held: Ints
    held_weights: Floats


def deal(codes: Ints, weights: Floats, n_folds: int, rng: np.random.Generator) -> list[Split]:
    """Folds of weighted rows: every row is repeated as its weight says, and all are dealt like shuffled cards.

    Only classes with fewer rows than folds are dealt by themselves. If all were, or if the copies of a row were spread
    evenly, every held-out part would look like the rows a method was fitted on, and to learn their chance deviations
    would pass for a gain: up to a nat for each class.
    """
    unit = max(min(1.0, float(weights.mean())), float(weights.sum()) / MOST_CARDS)
    copies = np.maximum(np.ceil(weights / unit - 1e-9), 1).astype(np.int64)
    row = np.repeat(np.arange(len(codes)), copies)
    few = np.bincount(codes, weights) < n_folds
    order = class_order(np.where(few[codes], codes + 1, 0)[row], rng)
    ends = np.concatenate([[0.0], np.cumsum((weights / copies)[row][order]) / unit])
    ends = np.where(np.abs(ends - np.round(ends)) < 1e-9 * np.maximum(ends, 1.0), np.round(ends), ends)
    splits = []
    for fold in range(n_folds):
        before = np.floor(ends / n_folds) + np.clip(ends % n_folds - fold, 0.0, 1.0)  # units of this fold up to here
        share: Floats = np.asarray(np.bincount(row[order], np.diff(before) * unit, len(codes)), dtype=np.float64)
        rest = weights - share
        fit, held = np.flatnonzero(rest > 1e-9 * weights), np.flatnonzero(share > 1e-9 * weights)
        if len(fit) and len(held):
            splits.append(Split(fit, rest[fit], held, share[held]))
    return splits


@dataclass
class Held:
    """What all M candidates said about N held-out rows; a row may come several times."""

    #: Probability of the truth, (N, M).
    truth: Floats
    #: Whole forecasts, (M, N, K), where the score needs them.
    forecasts: Floats | None
    codes: Ints
    weights: Floats
    fold: Ints
    #: Which row of the calibration set it is.
    row: Ints
    #: Which of the repeated draws of folds it belongs to: within one, no unit of weight comes twice.
    draw: Ints
    seconds: Floats

    def mean_and_error(self, values: Floats) -> tuple[float, float]:
        """Weighted mean of N values and its standard error; values of one row are averaged first."""
        weight = np.bincount(self.row, weights=self.weights)
        value = np.bincount(self.row, weights=self.weights * values) / np.where(weight > 0, weight, 1.0)
        total = float(weight.sum())
        mean = float(weight @ value / total)
        return mean, float(np.sqrt(weight @ (value - mean) ** 2 / total / total))


def settle_rows(scores: Scores, codes: Ints, weights: Floats) -> tuple[Scores, Ints, Floats]:
    """Join equal rows and sort all by class and scores, so that folds depend on content and not on order.

    Scores count as equal up to nine digits: a model refitted on weighted instead of repeated rows gives the same
    scores but for rounding, and must get the same folds. Very large matrices are compared bit by bit.
    """
    if scores.matrix.size > LEAGUE_SCORES:
        return pool_rows(scores, codes, weights)
    scale = 1.0 if scores.space == "proba" else max(float(np.abs(scores.matrix).max()), 1e-300)
    for columns in (2, scores.n_classes):  # two mostly tell all rows apart, and then the others do not matter
        wide = scores.matrix[:, :columns].astype(np.float64)
        keys = np.round(np.column_stack([codes, wide / scale]), 9) + 0.0  # −0 and 0 are one value
        order = np.lexsort(keys.T[::-1])
        new = np.ones(len(order), dtype=bool)
        new[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
        if new.all():
            break
    first, group = order[new], np.cumsum(new) - 1
    return scores.rows(first), codes[first], np.bincount(group, weights=weights[order]).astype(np.float64, copy=False)


def n_repeats(total: float) -> int:
    """How often folds are drawn: more often when rows are few."""
    return 2 if total < TWICE else 1


def sample_rows(n: int, n_classes: int, rng: np.random.Generator, *, fast: bool) -> Array:
    """Rows the comparison looks at: all, or a sample when the matrix is very large (or time is short)."""
    most = COMPARED_ROWS if fast else max(COMPARED_ROWS, LEAGUE_SCORES // n_classes)
    return np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most])


class Crossing:
    """Fits every candidate on every part of the rows and forecasts the rest."""

    def __init__(
        self,
        entries: Sequence[Entry],
        scores: Scores,
        codes: Ints,
        weights: Floats,
        *,
        space: Space,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.entries, self.scores, self.codes, self.weights = list(entries), scores, codes, weights
        self.space, self.progress = space, progress

    def build(self, entry: Entry, floor: float, total: float) -> Calibrator:
        """Return one unfitted candidate; all share one floor under exact zeros, fitted with the temperature."""
        part = entry.build(total, self.scores.n_classes)
        options: dict[str, Any] = {"space": self.space, "classes": None}
        if floor > 0 and getattr(part, "floor", None) == "fit":
            options["floor"] = floor
        return part.set_params(**options)

    def floor(self, rows: Any, weights: Floats) -> float:
        """The fitted floor of these rows, 0 when no exact zero occurs.

        Where no zero came true it expects half an event among them: none so far does not mean never.
        """
        part, codes = self.scores.rows(rows), self.codes[rows]
        if self.space == "logit" or not part.zeros()[0]:
            return 0.0
        fitted = min(TemperatureScaling().fit(part.matrix, codes, sample_weight=weights).floor_, MOST_FLOOR)
        if (part.matrix[np.arange(part.n), codes] == 0).any():
            return fitted
        zeros = float(weights @ (part.matrix == 0).mean(axis=1))
        return max(fitted, min(0.5 / zeros, 2.0 / float(weights.sum()), MOST_FLOOR))

    def fit(self, entry: Entry, rows: Any, weights: Floats, floor: float, warm: Calibrator | None = None) -> Calibrator:
        """Fit one candidate on some rows; `warm` is its fit on others."""
        part = self.build(entry, floor, float(weights.sum()))
        part._check_options(f"{type(part).__name__}.fit")
        classes = np.arange(self.scores.n_classes)
        return part.fit_near(warm, self.scores.rows(rows).as_view(part.view), self.codes[rows], weights, classes)

    def fit_all(self, entries: Sequence[Entry]) -> list[Calibrator]:
        """Fit several candidates on all rows."""
        every = slice(None)
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the comparison has judged them
            floor = self.floor(every, self.weights)
            return list(map_chunks(lambda entry: self.fit(entry, every, self.weights, floor), entries))

    def run(self, splits: Sequence[Sequence[Split]], *, whole: bool) -> Held:
        """Cross-fit all over repeated splits; keep whole forecasts or only those of the truth."""
        flat = [(index, split) for repeat in splits for index, split in enumerate(repeat)]
        draws = [draw for draw, repeat in enumerate(splits) for _ in repeat]
        starts = np.concatenate([[0], np.cumsum([len(split.held) for _, split in flat])])
        row = np.concatenate([split.held for _, split in flat])
        codes = self.codes[row]
        m = len(self.entries)
        truth = np.empty((len(row), m))
        out = np.empty((m, len(row), self.scores.n_classes)) if whole else None
        spent = np.zeros(m)
        firsts: list[Calibrator | None] = [None] * m  # the fits on the first fold, from which the others start
        begun, done = [threading.Event() for _ in range(m)], 0

        def one(task: tuple[int, int]) -> None:
            nonlocal done
            number, member = task
            split = flat[number][1]
            if number:
                begun[member].wait()
            begin = time.perf_counter()
            try:
                fitted = self.fit(self.entries[member], split.fit, split.fit_weights, floors[number], firsts[member])
                firsts[member] = firsts[member] or fitted
            finally:
                begun[member].set()
            p = forecast(fitted, self.scores.rows(split.held))
            place = slice(starts[number], starts[number + 1])
            truth[place, member] = np.maximum(p[np.arange(len(p)), codes[place]], LEAST)
            if out is not None:
                out[member, place] = p
            spent[member] += time.perf_counter() - begin
            done += 1
            if self.progress is not None:
                self.progress(done, m * len(flat))

        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the comparison judges by held-out rows
            floors = [self.floor(split.fit, split.fit_weights) for _, split in flat]
            order = list(range(m))[::-1]  # the long fits first; the longest is awaited last
            tasks = [(0, member) for member in order]
            tasks += [(n, member) for member in [*order[1:], order[0]] for n in range(1, len(flat))]
            list(map_chunks(one, tasks))
        return Held(
            truth,
            out,
            codes,
            np.concatenate([split.held_weights for _, split in flat]) / len(splits),
            np.concatenate([np.full(len(split.held), index) for index, split in flat]),
            row,
            np.repeat(draws, np.diff(starts)),
            spent,
        )


def forecast(fitted: Calibrator, scores: Scores) -> Floats:
    """Return the probabilities of checked scores."""
    return np.concatenate([fitted.apply_block(scores.as_view("raw").block(rows)) for rows in scores.chunks()])


def allowed(entries: Sequence[Entry], preserve: str | None) -> list[Entry]:
    """Candidates that keep what must be kept."""
    if preserve is None:
        return list(entries)
    return [e for e in entries if (e.preserves_order if preserve == "order" else e.preserves_argmax)]
