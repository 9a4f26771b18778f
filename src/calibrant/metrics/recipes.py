"""The two ways a measure is made: view × estimator × norm, and the mean of a row score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.core import conventions
from calibrant.core.declare import Recipe, check_norm
from calibrant.core.inputs import Forecast, check_forecast
from calibrant.core.parallel import map_chunks
from calibrant.errors import input_error
from calibrant.estimators import Binned, Estimator, State, root
from calibrant.views import TopLabel, View, as_view


@dataclass(frozen=True)
class CalibrationError(Recipe):
    """A calibration error: the view gives pairs, the estimator a distance, the norm the mean."""

    view: View
    estimator: Estimator
    norm: float = 1.0
    root: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", check_norm(self.norm, "calibration_error"))
        self.estimator.check(self.view, self.norm)

    def fill(self, forecast: Forecast) -> State:
        """Return tables or bins, one per group."""
        return self.estimator.fill(forecast, self.view)

    def finish(self, state: State) -> Floats:
        """Join the groups' p-th powers and take the root; leading axes (replicates) stay."""
        power = np.maximum(self.view.join(self.estimator.power(state, self.norm)), 0.0)
        return root(power, self.norm) if self.root else power

    @property
    def top_label_only(self) -> bool:
        """Whether top-label pairs suffice."""
        return self.view.top_label_only


class ScoreSums(NamedTuple):
    """State of a mean score: Σw, Σw·x, Σw·x²."""

    w: float
    wx: float
    wx2: float

    def __add__(self, other: object) -> ScoreSums:
        if not isinstance(other, ScoreSums):
            return NotImplemented
        return ScoreSums(self.w + other.w, self.wx + other.wx, self.wx2 + other.wx2)


@dataclass(frozen=True)
class MeanScore(Recipe):
    """The mean of a score of single rows, e.g. a proper score; `link` is applied to the mean."""

    rows: Callable[[Forecast], Floats]
    link: Callable[[float], float] | None = None
    pairs_suffice: bool = False

    def fill(self, forecast: Forecast) -> ScoreSums:
        """Return the sums of the row scores."""
        x = self.rows(forecast)
        w = forecast.weights
        if w is None:
            return ScoreSums(float(len(x)), float(x.sum()), float(np.dot(x, x)))
        x = np.where(w > 0, x, 0.0)  # a row of weight 0 is absent, also when its score is infinite
        return ScoreSums(float(w.sum()), float(np.dot(w, x)), float(np.dot(w, x * x)))

    def finish(self, state: ScoreSums) -> float:
        """Return the (linked) mean."""
        mean = state.wx / state.w
        return mean if self.link is None else self.link(mean)

    @property
    def top_label_only(self) -> bool:
        """Whether top-label pairs suffice."""
        return self.pairs_suffice


def by_block(score: Callable[[Any, Ints], Floats]) -> Callable[[Forecast], Floats]:
    """Turn a score of (rows, K) blocks into a score of a forecast, on all cores."""

    def rows(forecast: Forecast) -> Floats:
        parts = map_chunks(lambda r: score(forecast.block(r), forecast.codes[r]), forecast.chunks())
        return np.concatenate(list(parts))

    rows.__name__ = score.__name__
    return rows


def top_label_or(view: View | str, otherwise: Recipe, top: Recipe, caller: str) -> Recipe:
    """Choose between the whole-vector score and its top-label form by view."""
    chosen = as_view(view, caller)
    if isinstance(chosen, TopLabel):
        return top
    if chosen.name != "canonical":
        raise input_error("view", caller, "be 'canonical' (whole vector) or 'top-1'", repr(view), "use one of the two")
    return otherwise


def binned(n_bins: int, bins: str, convention: str | None, *, average: str = "count", debias: bool = False) -> Binned:
    """Return the binned estimator; a convention brings its own average."""
    if convention is not None:
        average = conventions.convention(convention).average if bins == "mass" else "count"
    return Binned(n_bins, bins, average, debias, convention)


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
    recipe = CalibrationError(as_view(view), Binned() if estimator is None else estimator, norm, root)
    forecast = check_forecast(
        y_true,
        y_proba,
        caller="calibration_error",
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
    return recipe.value(forecast)


__all__ = [
    "CalibrationError",
    "MeanScore",
    "ScoreSums",
    "binned",
    "by_block",
    "calibration_error",
    "class_reduction",
    "top_label_or",
]
