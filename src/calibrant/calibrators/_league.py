"""The cross-fitted league: every candidate forecasts rows it was not fitted on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant._typing import Array, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._multinomial import one_blas_thread
from calibrant.calibrators._scores import Scores, folds
from calibrant.core.parallel import map_chunks
from calibrant.errors import ConvergenceWarning

#: Most scores (rows times classes) the league looks at; the winners are fitted on all rows.
LEAGUE_SCORES = 2_000_000
LEAGUE_ROWS = 2_000
#: Rows below which folds are drawn twice.
TWICE = 2_000
#: Most classes for which a full matrix is fitted without structure.
DIRICHLET_CLASSES = 30
#: A probability of the truth counts as no less than this.
LEAST = 1e-15
#: Shares of the pool before any row is seen; the rest is spread evenly.
PRIOR_SHARES = {"structured-matrix": 0.5, "order-preserving": 0.3}


@dataclass(frozen=True)
class Entry:
    """One candidate: its name in the table and how to build it for so many rows and classes."""

    name: str
    build: Callable[[float, int], Calibrator]
    #: Free numbers, the measure of simplicity.
    size: float
    preserves_argmax: bool
    preserves_order: bool
    title: str

    @property
    def prior(self) -> float:
        """Share in the pool before any row is seen: what was good on many data sets, most of all with few rows."""
        return PRIOR_SHARES.get(self.name, 0.0)


def entry_of(calibrator: Calibrator, n_classes: int, name: str | None = None) -> Entry:
    """Make a candidate of an unfitted calibrator."""
    kind = type(calibrator)
    return Entry(
        name or kind.short_name, lambda _n, _k: clone(calibrator), kind.n_parameters(n_classes),
        kind.preserves_argmax, kind.preserves_order, kind.title,
    )


def default_entries(n_classes: int, *, fast: bool) -> list[Entry]:
    """Return the methods that earned their place, simplest first."""
    from calibrant.calibrators.beta import BetaCalibration
    from calibrant.calibrators.dirichlet import DirichletCalibration
    from calibrant.calibrators.ensemble_temperature import EnsembleTemperatureScaling
    from calibrant.calibrators.identity import Identity
    from calibrant.calibrators.isotonic_multiclass import IsotonicMulticlass
    from calibrant.calibrators.order_preserving import OrderPreserving
    from calibrant.calibrators.structured_matrix import StructuredMatrixScaling
    from calibrant.calibrators.temperature import TemperatureScaling
    from calibrant.calibrators.vector import VectorScaling

    quick: list[Calibrator] = [Identity(), TemperatureScaling(), OrderPreserving(), VectorScaling()]
    if fast:
        return [entry_of(part, n_classes) for part in quick]
    entries = [entry_of(part, n_classes) for part in (
        *quick, EnsembleTemperatureScaling(loss="nll"), BetaCalibration(), StructuredMatrixScaling(),
        IsotonicMulticlass(),
    )]
    if n_classes <= DIRICHLET_CLASSES:
        # penalties worth a fixed number of rows: λ of the mean loss is that number over n
        for worth, name in ((50.0, "dirichlet-firm"), (5.0, "dirichlet")):
            entries.append(Entry(
                name, lambda n, _k, worth=worth: DirichletCalibration(odir=(worth / n, worth / n)),
                DirichletCalibration.n_parameters(n_classes), False, False, DirichletCalibration.title,
            ))
    return sorted(entries, key=lambda entry: entry.size)


@dataclass
class Held:
    """What all M candidates said about N = repeats × rows held-out rows."""

    #: Probability of the truth, (N, M).
    truth: Floats
    #: Whole forecasts, (M, N, K), where the score needs them.
    forecasts: Floats | None
    codes: Ints
    weights: Floats
    fold: Ints
    repeats: int
    seconds: Floats

    def over_repeats(self, rows: Floats) -> Floats:
        """Average values of N rows over the repeats: one per row."""
        return np.asarray(rows.reshape(self.repeats, -1).mean(axis=0))

    def mean_and_error(self, rows: Floats) -> tuple[float, float]:
        """Weighted mean of N row values and its standard error."""
        value = self.over_repeats(rows)
        weight = self.weights[: len(value)] * self.repeats
        total = float(weight.sum())
        mean = float(weight @ value / total)
        return mean, float(np.sqrt(weight @ (value - mean) ** 2 / total / total))


def n_repeats(total: float) -> int:
    """How often folds are drawn: more often when rows are few."""
    return 2 if total < TWICE else 1


def sample_rows(n: int, n_classes: int, rng: np.random.Generator, *, fast: bool) -> Array:
    """Rows the league looks at: all, or a sample when the matrix is very large (or time is short)."""
    most = LEAGUE_ROWS if fast else max(LEAGUE_ROWS, LEAGUE_SCORES // n_classes)
    return np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most])


class Crossing:
    """Fits every candidate on every part of the rows and forecasts the rest."""

    def __init__(
        self, entries: Sequence[Entry], scores: Scores, codes: Ints, weights: Floats, *, space: Space, cv: int = 0,
        rng: np.random.Generator, caller: str, tell: Callable[[int, int], None] | None = None, repeats: int = 1,
    ) -> None:
        self.entries, self.scores, self.codes, self.weights = list(entries), scores, codes, weights
        self.space, self.tell, self.repeats = space, tell, repeats
        self.splits = [
            split for _ in range(repeats if cv else 0) for split in folds(codes, min(cv, len(codes)), rng, caller)
            if len(split[0]) and len(split[1])
        ]
        self.per_repeat = len(self.splits) // max(repeats, 1)

    def build(self, entry: Entry, floor: float, total: float) -> Calibrator:
        """Return one unfitted candidate; all share one floor under exact zeros, fitted with the temperature."""
        part = entry.build(total, self.scores.n_classes)
        options: dict[str, Any] = {"space": self.space, "classes": None}
        if floor > 0 and getattr(part, "floor", None) == "fit":
            options["floor"] = floor
        return part.set_params(**options)  # type: ignore[no-any-return]  # untyped base

    def floor(self, rows: Any) -> float:
        """The fitted floor of these rows; 0 when no exact zero occurs."""
        from calibrant.calibrators.temperature import TemperatureScaling

        part = self.scores.rows(rows)
        if self.space == "logit" or not part.zeros()[0]:
            return 0.0
        probe = TemperatureScaling().fit(part.matrix, self.codes[rows], sample_weight=self.weights[rows])
        return probe.floor_

    def fit(self, entry: Entry, rows: Any, floor: float) -> Calibrator:
        """Fit one candidate on some rows."""
        total = float(self.weights[rows].sum())
        return self.build(entry, floor, total).fit(
            self.scores.matrix[rows], self.codes[rows], sample_weight=self.weights[rows]
        )

    def fit_all(self, entries: Sequence[Entry], floor: float) -> list[Calibrator]:
        """Fit several candidates on all rows."""
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the league has judged them
            return list(map_chunks(lambda entry: self.fit(entry, slice(None), floor), entries))

    def run(self, *, whole: bool, seconds: float | None = None) -> Held:
        """Cross-fit all; keep whole forecasts or only those of the truth. Slow candidates go if time is short."""
        n, k, m = self.scores.n, self.scores.n_classes, len(self.entries)
        truth = np.empty((self.repeats * n, m))
        out = np.empty((m, self.repeats * n, k)) if whole else None
        fold = np.zeros(self.repeats * n, dtype=np.int64)
        spent = np.zeros(m)
        done = 0

        def one(task: tuple[int, int]) -> None:
            nonlocal done
            split, member = task
            fit, held = self.splits[split]
            start = time.perf_counter()
            p = self.fit(self.entries[member], fit, floors[split]).predict_proba(self.scores.matrix[held])
            place = held + (split // self.per_repeat) * n
            truth[place, member] = np.maximum(p[np.arange(len(held)), self.codes[held]], LEAST)
            if out is not None:
                out[member, place] = p
            fold[place] = split % self.per_repeat
            spent[member] += time.perf_counter() - start
            done += 1
            if self.tell is not None:
                self.tell(done, m * len(self.splits))

        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the league judges by held-out rows
            floors = [self.floor(fit) for fit, _ in self.splits]
            keep, first = np.arange(m), 0
            if seconds is not None:
                keep, first = self._within(one, spent, seconds), 1
            tasks = [(split, member) for split in range(first, len(self.splits)) for member in keep.tolist()]
            for _ in map_chunks(one, tasks):
                pass
        self.entries = [self.entries[i] for i in keep]
        weights = np.tile(self.weights / self.repeats, self.repeats)
        return Held(
            truth[:, keep], None if out is None else out[keep], np.tile(self.codes, self.repeats), weights, fold,
            self.repeats, spent[keep],
        )

    def _within(self, one: Callable[[tuple[int, int]], None], spent: Floats, seconds: float) -> Array:
        """Run the first fold, simplest candidates first, and keep those whose sum fits the time."""
        begin, keep = time.perf_counter(), []
        for member in range(len(self.entries)):
            one((0, member))
            whole = (len(self.splits) + 1) * spent[[*keep, member]].sum()
            if member == 0 or whole <= seconds:
                keep.append(member)
            if time.perf_counter() - begin > seconds / 2:
                break
        return np.asarray(keep)


def allowed(entries: Sequence[Entry], preserve: str | None) -> list[Entry]:
    """Candidates that keep what must be kept."""
    if preserve is None:
        return list(entries)
    return [e for e in entries if (e.preserves_order if preserve == "order" else e.preserves_argmax)]
