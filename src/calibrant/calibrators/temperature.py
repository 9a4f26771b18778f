"""Temperature scaling: one number for all logits."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators import _newton
from calibrant.calibrators._base import Calibrator, Floor
from calibrant.calibrators._scores import Scores, View
from calibrant.core.links import scaled_exp
from calibrant.core.programs import Graph, Node
from calibrant.errors import ConvergenceWarning

#: Scores further apart than this are scaled before the fit.
LARGEST = 1e30


def fit_temperature(scores: Scores, codes: Ints, weights: Floats, loss: str) -> float:
    """Return the temperature with the least loss; warn when the rows do not determine one.

    Shared by every method that starts from temperature scaling. `scores` come in a logit or log view.
    """
    total = float(weights.sum())
    known = scores.ends if scores.view == "logit" else None
    if scores.matrix.size <= _newton.ALONE:  # the logarithms of all passes
        scores = replace(scores, matrix=scores.values(), space="logit", view="logit", ends=known)
    width, separable = _newton.spread(scores, codes)
    if width == 0:
        _doubt("all scores of every row are equal, so no temperature is determined; T = 1 is kept.")
        return 1.0
    if width > LARGEST:  # powers of such scores overflow
        small = replace(scores, matrix=scores.matrix / width, ends=None)
        return width * fit_temperature(small, codes, weights, loss)
    smooth = 0.0
    if separable:  # the optimum is T = 0; one doubtful row in n + 2 (Platt's targets) keeps it finite
        smooth = 1.0 / (total + 2.0)
        _doubt(
            "every row is right, so the best T is 0; smoothed labels (one row in n + 2) gave a finite T. "
            "Use more calibration rows."
        )
    low, high = 1e-3 / width, 1e6 / width
    if loss == "nll":

        def some_sums(some: slice, beta: float) -> _newton.Sums:
            return _newton.total_sums(scores.rows(some), codes[some], weights[some], smooth, beta)

        beta, inside = _newton.search(some_sums, scores.n, 1.0, low, high)
    else:  # not convex: a sample may lie in another valley than all rows
        sums = partial(_newton.total_sums, scores, codes, weights, smooth, loss=loss)
        found = [_newton.solve(sums, *at) for at in _newton.valleys(low, high, scores, codes, weights, smooth)]
        beta, inside = min(found, key=lambda one: sums(one[0]).loss)
    if not inside:
        _doubt(
            f"the scores say nothing about the labels, so the best T is infinite; T = {1 / beta:.3g} is used. "
            "Check that columns and labels match."
        )
    return 1.0 / beta


def _doubt(text: str) -> None:
    warnings.warn(f"temperature: {text}", ConvergenceWarning, stacklevel=5)


class TemperatureScaling(Calibrator):
    """Divide all logits by one temperature: softmax(z/T).

    The first thing to try for neural networks: one parameter, cannot overfit, keeps every ranking.
    It cannot fix errors that differ between classes or between low and high confidence.

    Parameters
    ----------
    loss : {"nll", "brier"}, default "nll"
        What T minimizes on the calibration set; both are proper.
    space : {"proba", "logit"}, default "proba"
        What X holds; probabilities are read as logits log p.

    Attributes
    ----------
    temperature_ : float
        T; above 1 the model was overconfident.

    Notes
    -----
    T is found as β = 1/T: the negative log-likelihood Σ log Σ_k exp(βz_k) − βz_y is convex in β, with
    slope E_q[z] − z_y and curvature Var_q[z], q = softmax(βz); further derivatives are cumulants of z
    under q. A pass over the matrix takes eight of them, and the next β is the root of their Taylor
    polynomial, kept inside a bracket, until its last term moves β by less than 1e-8 of itself (what is
    left is smaller still). Strided samples of the rows give the start, so that one pass or two are
    enough, in cache-sized blocks on all cores. The squared error need not be convex in β: all
    rows show its valleys on a grid of 48 values, and the deepest is taken. If every row is right (T → 0) the
    labels are smoothed by one row in n + 2 and a `ConvergenceWarning` says so; if the scores tell nothing (T → ∞),
    T stops at a bound, with a warning. Cost O(n·K) per step, no (n, K) temporaries.

    References
    ----------
    [1] Guo et al. (2017), "On Calibration of Modern Neural Networks", ICML, eq. (9).

    Examples
    --------
    >>> p = [[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2
    >>> cal = TemperatureScaling().fit(p, [0, 0, 1, 1, 1])
    >>> round(float(cal.predict_proba([[0.9, 0.1]])[0, 0]), 3)  # four of five rows are right
    0.8
    """

    short_name = "temperature"
    title = "Temperature scaling"
    paper = "Guo et al. (2017), On Calibration of Modern Neural Networks, ICML, eq. (9)"
    when = (
        "First choice for neural networks, from a hundred rows on: one number, keeps every ranking. "
        "Not enough when the error differs between classes or confidence levels."
    )
    preserves_argmax = True
    preserves_order = True
    injective = True
    view: ClassVar[View] = "logit"
    largest_logit: ClassVar[float] = float(np.finfo(np.float64).max) / 4  # one number scales: nothing is squared
    free_parameters: ClassVar[float] = 1
    state: ClassVar[tuple[str, ...]] = ("temperature_",)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"loss": ("nll", "brier")}

    def __init__(
        self,
        *,
        loss: Literal["nll", "brier"] = "nll",
        floor: Floor = "fit",
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.loss = loss
        self.floor = floor
        self.space = space
        self.classes = classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        self.temperature_ = fit_temperature(scores, codes, weights, self.loss)

    def _predict(self, x: Floats) -> Floats:
        below = x - x.max(axis=1, keepdims=True)  # before the scaling, which may overflow
        with np.errstate(over="ignore"):
            return scaled_exp(below * (1.0 / self.temperature_))  # [1] eq. (9); rows are normalized by the caller

    def _map(self, graph: Graph, x: Node) -> Node:
        return graph.softmax((x - graph.max(x)) * (1.0 / self.temperature_))
