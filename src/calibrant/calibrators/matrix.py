"""Matrix scaling with off-diagonal and intercept regularization."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator, Floor
from calibrant.calibrators._multinomial import score_unit
from calibrant.calibrators._odir import FROZEN, MOST_FREE, choose_penalty, fit_affine, fit_diagonal
from calibrant.calibrators._scores import Scores, View, pool_rows
from calibrant.calibrators.vector import warn_if_doubtful
from calibrant.core.links import scaled_exp
from calibrant.core.programs import Graph, Node
from calibrant.errors import input_error


class MatrixScaling(Calibrator):
    """Map all logits by a matrix and a shift: softmax(Wz + b), shrunk off the diagonal (MS-ODIR).

    The richest parametric map: it can move probability between confused classes. It needs many rows
    (K² numbers); the cross-validated penalty brings it back towards vector scaling when they are
    missing. It may change the predicted class.

    Parameters
    ----------
    odir : "cv" or (float, float), default "cv"
        Weights λ of the squared off-diagonal entries and μ of the squared intercepts; "cv" picks them
        by cross-validated log-loss (5 folds; 2 above 100 classes).
    penalty : {"sum", "mean"}, default "sum"
        Whether λ and μ multiply sums of squares (the published code and its tuned values) or means
        over the K(K−1) and K entries (the paper's formula).
    space : {"proba", "logit"}, default "proba"
        What X holds: logits are used as they are; probabilities as log p (then it is
        `DirichletCalibration`).

    Attributes
    ----------
    matrix_ : ndarray of shape (K, K)
        W.
    shift_ : ndarray of shape (K,)
        b.
    odir_ : tuple of float
        (λ, μ) used, in the convention of `penalty`.

    Notes
    -----
    Minimizes mean negative log-likelihood + λ Σ_{i≠j} W_ij² + μ Σ b_i² + ‖θ − identity‖²/n² (the last
    ridge keeps separable rows finite and vanishes with n). Convex: Newton with a factorized Hessian up
    to 31 classes, preconditioned conjugate gradients above, until every entry of the gradient is below
    1e-8. Cross-validation walks λ from strong to weak with warm starts and stops when it gets worse,
    then walks μ; the final map is one refit on all rows. Above 200 classes it is not asked: W stays
    diagonal, the limit of a large λ, because no calibration set determines so many numbers. Equal rows
    stay in one fold. Cost O(n·K³) per
    step up to 31 classes, O(n·K²) per product above.

    References
    ----------
    [1] Kull et al. (2019), "Beyond temperature scaling", NeurIPS, section 4 and supplement.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(300, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> cal = MatrixScaling(space="logit", odir=(0.1, 0.1)).fit(3 * z, y)
    >>> bool(abs(np.diag(cal.matrix_) - 1 / 3).max() < 0.15)
    True
    """

    short_name = "matrix"
    title = "Matrix scaling (ODIR)"
    paper = "Kull et al. (2019), Beyond temperature scaling, NeurIPS, section 4"
    when = (
        "When classes are confused with one another and the calibration set is large (a thousand rows for ten "
        "classes, more for more). Not for hundreds of classes, and not when the predicted class must stay."
    )
    view: ClassVar[View] = "logit"
    state: ClassVar[tuple[str, ...]] = ("matrix_", "shift_", "odir_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"penalty": ("sum", "mean")}

    def __init__(
        self,
        *,
        odir: tuple[float, float] | Literal["cv"] = "cv",
        penalty: Literal["sum", "mean"] = "sum",
        floor: Floor = "fit",
        rng: RNG = 0,
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.odir = odir
        self.penalty = penalty
        self.floor = floor
        self.rng = rng
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return K² + K."""
        return n_classes * (n_classes + 1)

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        if isinstance(self.odir, str) and self.odir == "cv":
            return
        pair: Any = self.odir
        try:
            good = len(pair) == 2 and all(bool(np.isfinite(value)) and bool(value >= 0) for value in pair)
        except (TypeError, ValueError):
            good = False
        if not good:
            raise input_error(
                "odir", caller, "be 'cv' or two numbers (λ, μ), finite and not negative", repr(pair), "leave it at 'cv'"
            )

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        scores, codes, weights = pool_rows(scores, codes, weights)
        x = scores.values()
        k = scores.n_classes
        unit = score_unit(x)
        if unit != 1:
            x = x / unit
        if isinstance(self.odir, str) and k > MOST_FREE:
            self._fit_diagonal(x, codes, weights)
            self.matrix_ /= unit
            return
        if isinstance(self.odir, str):
            n_folds = 5 if k <= 100 else 2  # beyond, every fit has ten thousand numbers or more
            lam, mu, _ = choose_penalty(x, codes, weights, n_folds, self.rng, f"{type(self).__name__}.fit")
            if self.penalty == "mean":
                lam, mu = lam * k * (k - 1), mu * k
        else:
            lam, mu = (float(value) for value in self.odir)
        self._fit_penalized(x, codes, weights, lam, mu, unit)
        self.matrix_ /= unit

    def _fit_diagonal(self, x: Floats, codes: Ints, weights: Floats) -> None:
        theta, converged, q = fit_diagonal(x, codes, weights)
        warn_if_doubtful(self.title, converged, q, codes)
        self.matrix_, self.shift_, self.odir_ = theta[:, :-1].copy(), theta[:, -1].copy(), (FROZEN, 0.0)

    def _fit_penalized(self, x: Floats, codes: Ints, weights: Floats, lam: float, mu: float, unit: float = 1.0) -> None:
        warm = self._warm
        begin = None if warm is None else np.concatenate([warm.matrix_ * unit, warm.shift_[:, None]], axis=1)
        theta, converged, q = fit_affine(x, codes, weights, lam, mu, self.penalty, begin)
        warn_if_doubtful(self.title, converged, q, codes)
        self.matrix_, self.shift_ = theta[:, :-1].copy(), theta[:, -1].copy()
        self.odir_ = (lam, mu)

    def _fit_at_floor(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        """Search the floor under a middling penalty; cross-validation follows at the floor found."""
        if isinstance(self.odir, str) and scores.n_classes > MOST_FREE:
            self._fit_diagonal(scores.values(), codes, weights)
        elif isinstance(self.odir, str):
            scale = (1.0, 1.0) if self.penalty == "sum" else (scores.n_classes * (scores.n_classes - 1.0), 1.0)
            self._fit_penalized(scores.values(), codes, weights, 0.1 * scale[0], 0.01 * scale[1])
        else:
            self._fit(scores, codes, weights)

    def _predict(self, x: Floats) -> Floats:
        return scaled_exp(x @ self.matrix_.T + self.shift_)

    def _map(self, graph: Graph, x: Node) -> Node:
        return graph.softmax(graph.matmul(x, self.matrix_.T) + self.shift_)
