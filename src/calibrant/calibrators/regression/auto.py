"""Which map of the variance to use: methods compared by cross-validation, leaving it alone among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.calibrators._crossfit import Split, deal
from calibrant.calibrators.regression._base import RegressionCalibrator
from calibrant.calibrators.regression.identity import Identity
from calibrant.calibrators.regression.isotonic_quantiles import IsotonicQuantiles
from calibrant.calibrators.regression.std_scaling import StdScaling
from calibrant.calibrators.regression.variance_scaling import VarianceScaling
from calibrant.core.options import check_count, check_rng
from calibrant.core.predictions import Normal, Prediction
from calibrant.core.rows import Rows
from calibrant.errors import InputError
from calibrant.metrics.regression._crps import crps_rows
from calibrant.metrics.regression._dss import dss_rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["AutoVarianceCalibrator"]

CRITERIA = {"dss": dss_rows, "crps": crps_rows}
#: Simplest first: the order in which a draw is decided.
CANDIDATES = (Identity, StdScaling, VarianceScaling, IsotonicQuantiles)


class AutoVarianceCalibrator(RegressionCalibrator):
    """Choose among no change, one factor, factor and offset, and recalibrated quantiles by cross-validation.

    Parameters
    ----------
    criterion : {"dss", "crps"}
        Proper score of the recalibrated mean and variance (as a normal distribution) on held-out folds.
    cv : int, default 5
        Number of folds; with fewer than ten rows a fold the model is left alone.
    rng : None, int or Generator, default 0
        Draws the folds. They depend on the content of the rows, not on their order.

    Attributes
    ----------
    best_ : RegressionCalibrator
        The winner, fitted on all rows.
    reason_ : str
        Why the winner won, in a sentence.

    Notes
    -----
    The simplest candidate whose held-out score is within one paired standard error of the best one wins, so a map is
    used only when it beats the uncalibrated forecast by more than noise.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, proposition 4.5 (differences of DSS are differences of calibration for one-to-one maps).

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> AutoVarianceCalibrator().fit(np.zeros(500), np.full(500, 0.1), y).best_
    StdScaling()
    """

    short_name: ClassVar[str] = "auto"
    title: ClassVar[str] = "cross-validated choice"
    paper: ClassVar[str] = ""
    when: ClassVar[str] = "When in doubt: it compares all methods on held-out rows and leaves a good forecast alone."
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"criterion": tuple(CRITERIA)}
    keeps_mean: ClassVar[bool] = False
    n_parameters: ClassVar[float] = float("inf")
    state: ClassVar[tuple[str, ...]] = ("best_", "reason_", "records_")
    best_: RegressionCalibrator
    reason_: str
    records_: list[dict[str, Any]]

    def __init__(self, criterion: str = "dss", *, cv: int = 5, rng: RNG = 0) -> None:
        self.criterion = criterion
        self.cv = cv
        self.rng = rng

    @property
    def cv_results_(self) -> pl.DataFrame:
        """The methods compared, as a frame, best first."""
        import polars as pl

        self._check_fitted("AutoVarianceCalibrator.cv_results_")
        return pl.DataFrame(self.records_)

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        caller = "AutoVarianceCalibrator.fit"
        check_count(self.cv, "cv", caller, 2, "5")
        table, weights = _pool(np.stack([mean, variance, y]), weights)
        total = float(weights.sum())
        if total < 10 * self.cv:
            self.best_, self.records_ = Identity().fit(*table), []
            self.reason_ = f"{int(total)} rows are too few to choose a map (10 per fold are needed): left as it is."
            return
        splits = deal(np.zeros(len(weights), dtype=np.int64), weights, self.cv, check_rng(self.rng, caller))
        held_out = {}
        for kind in CANDIDATES:
            try:
                held_out[kind] = np.concatenate([self._held_out(kind(), split, table) for split in splits])
            except InputError:  # a fold does not determine this map (all residuals are equal)
                continue
        self._decide(held_out, np.concatenate([split.held_weights for split in splits]))
        mean, variance, y = table
        self.best_.fit(mean, variance, y, weights)

    def _held_out(self, method: RegressionCalibrator, split: Split, table: Floats) -> Floats:
        """Score the rows of one fold under the map fitted without it."""
        mean, variance, y = table[:, split.fit]
        method.fit(mean, variance, y, split.fit_weights)
        mean, variance, y = table[:, split.held]
        return np.asarray(CRITERIA[self.criterion](Rows(y, Normal(*method.predict(mean, variance)), None)))

    def _decide(self, held_out: dict[type[RegressionCalibrator], Floats], weights: Floats) -> None:
        total = weights.sum()

        def gain(worse: Floats, better: Floats) -> tuple[float, float]:
            """Mean paired difference and its standard error, rows counted by weight."""
            d = worse - better
            average = float(weights @ d / total)
            return average, float(np.sqrt(weights @ (d - average) ** 2 / total / max(total - 1, 1)))

        means = {kind: float(weights @ values / total) for kind, values in held_out.items()}
        top = min(means, key=lambda kind: means[kind])
        winner = next(kind for kind in held_out if kind is top or np.less_equal(*gain(held_out[kind], held_out[top])))
        self.best_ = winner()
        self.records_ = []
        for kind in sorted(means, key=lambda kind: means[kind]):
            better, error = gain(held_out[Identity], held_out[kind])
            self.records_.append(
                {
                    "method": kind.short_name,
                    self.criterion: means[kind],
                    "gain": better,
                    "gain_se": error,
                    "chosen": kind is winner,
                }
            )
        better, error = gain(held_out[Identity], held_out[winner])
        if winner is Identity:
            self.reason_ = (
                f"No map beats the uncalibrated forecast by more than noise ({self.criterion}, {self.cv} folds)."
            )
        else:
            self.reason_ = f"{winner.short_name} lowers the held-out {self.criterion} by {better:.4g} ± {error:.2g}" + (
                "." if winner is top else f"; {top.short_name} is better by less than a standard error."
            )

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        return self.best_.predict(mean, variance)

    def predict_distribution(self, mean: ArrayLike, variance: ArrayLike) -> Prediction:
        """Return the winner's recalibrated distributions, one per row."""
        self._check_fitted("AutoVarianceCalibrator.predict_distribution")
        return self.best_.predict_distribution(mean, variance)

    def predict_quantiles(self, mean: ArrayLike, variance: ArrayLike, *, levels: int | ArrayLike = 99) -> Floats:
        """Return the winner's recalibrated quantiles, shape (n, levels)."""
        self._check_fitted("AutoVarianceCalibrator.predict_quantiles")
        return self.best_.predict_quantiles(mean, variance, levels=levels)


def _pool(table: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Join equal rows (the columns of `table`) and sort them, so that folds depend on content and not on order."""
    table = table + 0.0  # −0 and 0 are one value
    order = np.lexsort(table)
    new = np.append(True, (table[:, order[1:]] != table[:, order[:-1]]).any(axis=0))
    return table[:, order[new]], np.bincount(np.cumsum(new) - 1, weights[order]).astype(np.float64, copy=False)
