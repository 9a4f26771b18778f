"""Ensemble temperature scaling: a tempered, the original and the uniform forecast, mixed."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._newton import blocks
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators._simplex import mixture_weights
from calibrant.calibrators.temperature import fit_temperature
from calibrant.core.links import softmax
from calibrant.core.options import check_count
from calibrant.core.parallel import map_chunks
from calibrant.core.programs import Graph, Node


class EnsembleTemperatureScaling(Calibrator):
    """Mix the tempered, the original and the uniform forecast: w₁·softmax(z/T) + w₂·softmax(z) + w₃/K.

    A safe step beyond temperature scaling: three more numbers, the same rankings. Like temperature
    scaling it treats all classes alike.

    Parameters
    ----------
    loss : {"brier", "nll"}, default "brier"
        What temperature and weights minimize; the published code uses the squared error for both.
    joint : bool, default False
        Optimize temperature and weights together; by default T first, then the weights, as published.
    n_components : int, default 1
        Number of tempered members, each with a free temperature; above 1 all are optimized together.
    space : {"proba", "logit"}, default "proba"
        What X holds; probabilities are read as logits log p.

    Attributes
    ----------
    temperature_ : float
        T of the first tempered member.
    temperatures_ : ndarray of shape (n_components,)
        All temperatures.
    weights_ : ndarray of shape (n_components + 2,)
        Weights of (tempered …, original, uniform), on the simplex.

    Notes
    -----
    For given temperatures the squared error is a convex quadratic in w, solved exactly by trying every
    support (active set beyond eight members); the log-likelihood is convex and solved by Newton with
    the same exact sub-problem. Joint fits minimize over log T the loss left after the best w (variable
    projection), starting at the published solution, so they never end above it. There is no floor
    option, because the uniform member is one: an exact zero counts as the smallest positive double.
    The uniform weight stays below 1 by 1e-9, so that rankings survive even useless scores. Cost
    O(n·K) per pass.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, eq. (5).

    Examples
    --------
    >>> p = [[0.9, 0.1]] * 5 + [[0.1, 0.9]] * 5
    >>> cal = EnsembleTemperatureScaling().fit(p, [0, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    >>> round(float(cal.predict_proba([[0.9, 0.1]])[0, 0]), 3)
    0.8
    """

    short_name = "ensemble-temperature"
    title = "Ensemble temperature scaling"
    paper = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, eq. (5)"
    when = (
        "Instead of temperature scaling when a thousand rows or more are at hand, or when the model gives exact "
        "zeros (its uniform member repairs them). Not for errors that differ between classes."
    )
    preserves_argmax = True
    preserves_order = True
    injective = True
    default_loss = "brier"
    view: ClassVar[View] = "logit"
    free_parameters: ClassVar[float] = 3  # T and two free weights
    state: ClassVar[tuple[str, ...]] = ("temperature_", "temperatures_", "weights_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"loss": ("brier", "nll")}

    def __init__(
        self,
        *,
        loss: Literal["brier", "nll"] = "brier",
        joint: bool = False,
        n_components: int = 1,
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.loss = loss
        self.joint = joint
        self.n_components = n_components
        self.space = space
        self.classes = classes

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_count(self.n_components, "n_components", caller, 1, "2 to begin with", 20)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        temperature = fit_temperature(scores, codes, weights, self.loss)
        m = self.n_components
        betas = np.full(1, 1.0 / temperature)
        if self.joint or m > 1:
            spread = 2.0 ** np.array([(i + 1) // 2 * (-1) ** i for i in range(m)])  # 1, 1/2, 2, 1/4, 4 …
            betas = self._project(scores, codes, weights, spread / temperature)
        mix, _ = self._best_weights(scores, codes, weights, betas)
        mix[-1] = min(mix[-1], 1.0 - 1e-9)
        mix[0] += 1.0 - mix.sum()
        self.temperatures_ = 1.0 / betas
        self.temperature_ = float(self.temperatures_[0])
        self.weights_ = mix

    def _members(self, z: Floats, betas: Floats) -> Floats:
        """Return the forecasts (M + 2, rows, K): tempered, original, uniform."""
        members = np.empty((len(betas) + 2, *z.shape))
        for i, beta in enumerate([*betas, 1.0]):
            members[i] = softmax(beta * (z - z.max(axis=1, keepdims=True)))
        members[-1] = 1.0 / z.shape[1]
        return members

    def _best_weights(self, scores: Scores, codes: Ints, weights: Floats, betas: Floats) -> tuple[Floats, float]:
        """Return the best weights for these temperatures and the mean loss they leave."""
        m = len(betas) + 2
        truth = np.empty((scores.n, m))

        def visit(rows: slice) -> Floats:
            members = self._members(scores.block(rows), betas)
            truth[rows] = members[:, np.arange(members.shape[1]), codes[rows]].T
            if self.loss == "nll":
                return np.zeros((m, m))  # only the squared error needs the products
            flat = members.reshape(m, -1)
            return np.asarray((flat * np.repeat(weights[rows], scores.n_classes)) @ flat.T)

        gram = np.sum(list(map_chunks(visit, blocks(scores))), axis=0)
        mix = mixture_weights(truth, gram, weights, self.loss)
        if self.loss == "brier":
            value = float(mix @ gram @ mix - 2 * weights @ truth @ mix + weights.sum())
        else:
            value = -float(weights @ np.log(truth @ mix))
        return mix, value / float(weights.sum())

    def _project(self, scores: Scores, codes: Ints, weights: Floats, start: Floats) -> Floats:
        """Minimize over log β the loss left after the best weights; the slope needs no derivative of w."""
        from scipy.optimize import minimize

        total = float(weights.sum())

        def objective(log_betas: Floats) -> tuple[float, Floats]:
            betas = np.exp(log_betas)
            mix, value = self._best_weights(scores, codes, weights, betas)

            def visit(rows: slice) -> Floats:
                return self._slopes(scores.block(rows), codes[rows], weights[rows], betas, mix)

            slopes = np.sum(list(map_chunks(visit, blocks(scores))), axis=0)
            return value, slopes * betas / total

        bounds = [(np.log(b) - 5.0, np.log(b) + 5.0) for b in start]
        found = minimize(
            objective,
            np.log(start),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 200, "ftol": 1e-14, "gtol": 1e-9},
        )
        return np.asarray(np.exp(found.x))

    def _slopes(self, z: Floats, codes: Ints, weights: Floats, betas: Floats, mix: Floats) -> Floats:
        """Return the derivative of the summed loss in each β at fixed weights."""
        members = self._members(z, betas)
        mixed = np.tensordot(mix, members, axes=1)
        rows = np.arange(len(z))
        if self.loss == "brier":
            pull = 2 * mixed
            pull[rows, codes] -= 2.0
        else:
            pull = np.zeros_like(mixed)
            pull[rows, codes] = -1.0 / mixed[rows, codes]
        slopes = np.empty(len(betas))
        for i in range(len(betas)):
            q = members[i]
            centered = z - np.einsum("ij,ij->i", q, z)[:, None]  # dq/dβ = q·(z − E_q z)
            slopes[i] = mix[i] * (weights @ np.einsum("ij,ij,ij->i", pull, q, centered))
        return slopes

    def _predict(self, x: Floats) -> Floats:
        out = np.full(x.shape, self.weights_[-1] / x.shape[1])  # [1] eq. (5)
        for weight, temperature in zip(self.weights_, [*self.temperatures_, 1.0], strict=False):
            if weight > 0:
                with np.errstate(over="ignore"):
                    out += weight * softmax((x - x.max(axis=1, keepdims=True)) * (1.0 / temperature))
        return out

    def _map(self, graph: Graph, x: Node) -> Node:
        out = graph.constant(self.weights_[-1] / self.n_classes_)
        for weight, temperature in zip(self.weights_, [*self.temperatures_, 1.0], strict=False):
            if weight > 0:
                out = out + float(weight) * graph.softmax((x - graph.max(x)) * (1.0 / float(temperature)))
        return out
