"""A convex mixture of calibrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone

from calibrant._typing import RNG, Array, ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._common import fact
from calibrant.calibrators._scores import Scores, View, folds, pool_rows
from calibrant.calibrators._simplex import mixture_weights
from calibrant.calibrators.isotonic import IsotonicOneVsRest
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.vector import VectorScaling
from calibrant.core.inputs import to_array, to_float
from calibrant.core.options import check_count
from calibrant.core.programs import Graph, Node
from calibrant.errors import input_error

#: A member's probability of the truth counts as no less than this while weights are fitted.
LEAST = 1e-15


class Ensemble(Calibrator):
    """Mix calibrators with weights on the simplex, chosen by cross-validated proper score.

    A mixture is never worse than its members' average score, and usually better than the best of them.
    It costs one fit of every member per fold.

    Parameters
    ----------
    calibrators : sequence of Calibrator, optional
        The members. Default: temperature scaling, vector scaling and isotonic regression.
    weights : "fit" or array-like of shape (M,), default "fit"
        Fitted on out-of-fold forecasts, or given (scaled to sum 1).
    loss : {"nll", "brier"}, default "nll"
        Proper score the weights minimize.
    n_folds : int, default 5
        Folds for fitting the weights.
    space : {"proba", "logit"}, optional
        What X holds; by default what the first member says.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        Members fitted on all rows.
    weights_ : ndarray of shape (M,)
        Mixture weights.

    Notes
    -----
    The squared error is a convex quadratic in the weights, solved exactly; the log-likelihood is convex
    and solved by Newton. While weights are fitted a member's probability of the truth counts as at
    least 1e-15. Equal rows stay in one fold.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 3.2.

    Examples
    --------
    >>> from calibrant.calibrators import Identity, TemperatureScaling
    >>> cal = Ensemble([Identity(), TemperatureScaling()], weights=[1, 1]).fit([[0.9, 0.1]] * 5, [0, 0, 0, 0, 1])
    >>> cal.predict_proba([[0.9, 0.1]]).round(3)  # half way between 0.9 and 0.8
    array([[0.85, 0.15]])
    """

    short_name = "ensemble"
    title = "Mixture of calibrators"
    paper = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, section 3.2"
    when = (
        "When no single method is clearly best and a few fits per fold are affordable. "
        "Not when the map must be small or easy to explain."
    )
    preserves_argmax = fact(False, lambda self: all(part.preserves_argmax for part in self._used()))
    preserves_order = fact(False, lambda self: all(part.preserves_order for part in self._used()))
    may_saturate = True
    view: ClassVar[View] = "raw"
    free_parameters: ClassVar[float] = float("inf")  # a default member grows with the rows
    state: ClassVar[tuple[str, ...]] = ("calibrators_", "weights_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"loss": ("nll", "brier")}

    def __init__(
        self,
        calibrators: Sequence[Calibrator] | None = None,
        *,
        weights: Literal["fit"] | ArrayLike = "fit",
        loss: Literal["nll", "brier"] = "nll",
        n_folds: int = 5,
        rng: RNG = 0,
        space: Space | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.calibrators = calibrators
        self.weights = weights
        self.loss = loss
        self.n_folds = n_folds
        self.rng = rng
        self.space = space  # type: ignore[assignment]  # None means: as the first member says
        self.classes = classes

    @property
    def input_space(self) -> Space:
        """What X holds: the own option, or that of the first member."""
        return self.space or (self.calibrators[0].input_space if self.calibrators else "proba")

    @property
    def can_export(self) -> bool:
        """Whether every fitted member with a weight has a map other runtimes can run."""
        return all(part.can_export for part in self._used())

    def _used(self) -> list[Calibrator]:
        """Return the fitted members that have a weight; before `fit` all."""
        if not hasattr(self, "calibrators_"):
            return self._members()
        return [part for part, weight in zip(self.calibrators_, self.weights_, strict=True) if weight > 0]

    def _check_options(self, caller: str) -> None:
        parts: Any = self.calibrators
        listed = parts is None or (isinstance(parts, list | tuple) and all(isinstance(p, Calibrator) for p in parts))
        if not listed:
            rule, hint = "be a list of calibrators", "pass [TemperatureScaling(), …]"
            raise input_error("calibrators", caller, rule, repr(parts), hint)
        super()._check_options(caller)
        if self.calibrators is not None and not len(self.calibrators):
            raise input_error("calibrators", caller, "hold at least one calibrator", "none", "pass a list of them")
        check_count(self.n_folds, "n_folds", caller, 2, "5")
        if not isinstance(self.weights, str):
            given = to_float(to_array(self.weights, "weights", caller), "weights", caller)
            if given.shape != (len(self._members()),) or not (given >= 0).all() or not 0 < given.sum() < np.inf:
                raise input_error(
                    "weights",
                    caller,
                    "be 'fit' or one weight per calibrator, not negative and not all 0",
                    repr(self.weights),
                    "leave it at 'fit'",
                )
        elif self.weights != "fit":
            raise input_error("weights", caller, "be 'fit' or numbers", repr(self.weights), "leave it at 'fit'")

    def _members(self) -> list[Calibrator]:
        if self.calibrators is None:
            parts: list[Any] = [TemperatureScaling(), VectorScaling(), IsotonicOneVsRest()]
        else:
            parts = [clone(part) for part in self.calibrators]
        return [part.set_params(space=self.input_space, classes=None) for part in parts]

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        if isinstance(self.weights, str):
            self.weights_ = self._cross_fit(*pool_rows(scores, codes, weights))
        else:
            given = np.asarray(self.weights, dtype=np.float64)
            self.weights_ = given / given.sum()
        self.calibrators_ = [part.fit(scores.matrix, codes, sample_weight=weights) for part in self._members()]

    def _cross_fit(self, scores: Scores, codes: Ints, weights: Floats) -> Floats:
        m = len(self._members())
        truth = np.full((scores.n, m), LEAST)
        gram = np.zeros((m, m))
        for fit, held in folds(codes, self.n_folds, self.rng, f"{type(self).__name__}.fit"):
            if not len(fit) or not len(held):
                continue
            forecasts = [
                part.fit(scores.matrix[fit], codes[fit], sample_weight=weights[fit]).predict_proba(scores.matrix[held])
                for part in self._members()
            ]
            truth[held] = _truth(forecasts, codes[held])
            flat = np.stack([p.ravel() for p in forecasts])
            gram += (flat * np.repeat(weights[held], scores.n_classes)) @ flat.T
        return mixture_weights(np.maximum(truth, LEAST), gram, weights, self.loss)

    def _predict(self, x: Floats) -> Floats:
        out = np.zeros(x.shape)
        for part, weight in zip(self.calibrators_, self.weights_, strict=True):
            if weight > 0:
                out += weight * part.apply_block(x)
        return out

    def _map(self, graph: Graph, x: Node) -> Node:
        parts = [
            part.describe(graph, x) * float(weight)
            for part, weight in zip(self.calibrators_, self.weights_, strict=True)
            if weight > 0
        ]
        out = parts[0]
        for part in parts[1:]:
            out = out + part
        return out


def _truth(forecasts: list[Floats], codes: Ints) -> Array:
    rows = np.arange(len(codes))
    return np.stack([p[rows, codes] for p in forecasts], axis=1)
