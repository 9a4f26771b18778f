"""Proper scores as objects: S(P, y), expected score, entropy g, divergence d and inf g.

Scores are losses: smaller is better. A score is proper when E S(P, Y) with Y ~ Q is least at P = Q; then
g(Q) = s(Q, Q) is concave and d(P, Q) = s(P, Q) − g(Q) ≥ 0. [1] section 2.3.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
    NeurIPS, section 2.3.
[2] Gneiting & Raftery (2007), "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 102, theorem 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant import metrics as _metrics  # noqa: F401  -- declares the scores
from calibrant._typing import ArrayLike, Floats, Ints
from calibrant.core.declare import lookup
from calibrant.core.inputs import check_labels, check_names
from calibrant.core.options import check_count
from calibrant.core.row_scores import observed_rows, possible_scores
from calibrant.errors import input_error
from calibrant.metrics.recipes import MeanScore, criteria

__all__ = ["Brier", "Log", "ProperScore", "RankedProbability", "Spherical", "as_score"]


def _laws(value: ArrayLike, argument: str) -> Floats:
    """Return distributions over classes as float64 rows; one distribution may be a plain vector."""
    rows = np.atleast_2d(np.asarray(value, dtype=np.float64))
    bad = ~((rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1.0) <= 1e-4))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise input_error(
            argument,
            "ProperScore",
            "hold probabilities that sum to 1 in each row",
            f"{rows[row]} at row {row}",
            "one row per forecast, one column per class",
        )
    return rows


class ProperScore:
    """A proper score of forecasts over classes.

    The built-in ones are `Brier`, `Log`, `Spherical` and `RankedProbability`; own scores come from a function S
    (`from_function`) or from a concave entropy g (`from_entropy`).

    Examples
    --------
    >>> score = Brier()
    >>> score.score([[0.8, 0.2]], [0])
    array([0.08])
    >>> score.divergence([0.8, 0.2], [0.5, 0.5])  # ‖P − Q‖²
    array([0.18])
    """

    #: Short name, that of the metric where there is one.
    name: str = "score"

    def _rows(self, p: Floats, codes: Ints) -> Floats:
        """Score rows by the program of the declared metric of this name."""
        return observed_rows(self._declared().score, p, codes)

    def _declared(self) -> MeanScore:
        recipe = lookup(self.name, type(self).__name__).build()
        if not isinstance(recipe, MeanScore):
            raise TypeError(f"{self.name} is not a mean of row scores")
        return recipe

    def score(self, forecast: ArrayLike, outcome: ArrayLike) -> Floats:
        """Return S(P, y) of each row: P has shape (n, K), y holds n class indices."""
        p = _laws(forecast, "forecast")
        codes = check_labels(np.atleast_1d(np.asarray(outcome)), len(p), p.shape[1], None, "ProperScore.score")
        return np.asarray(self._rows(p, codes), dtype=np.float64)

    def expected_score(self, forecast: ArrayLike, truth: ArrayLike) -> Floats:
        """Return s(P, Q) = Σ_k Q_k S(P, k) of each row; a class of probability 0 never counts."""
        p, q = np.broadcast_arrays(_laws(forecast, "forecast"), _laws(truth, "truth"))
        return self._expected(p, q)

    def _expected(self, p: Floats, q: Floats) -> Floats:
        total = np.zeros(len(p))
        for k in range(p.shape[1]):
            used = q[:, k] > 0
            total[used] += q[used, k] * self._rows(p[used], np.full(int(used.sum()), k))
        return total

    def entropy(self, law: ArrayLike) -> Floats:
        """Return g(Q) = s(Q, Q) of each row: the score of the truth itself."""
        q = _laws(law, "law")
        return self._expected(q, q)

    def divergence(self, forecast: ArrayLike, truth: ArrayLike) -> Floats:
        """Return d(P, Q) = s(P, Q) − g(Q) ≥ 0 of each row."""
        p, q = np.broadcast_arrays(_laws(forecast, "forecast"), _laws(truth, "truth"))
        return self._divergence(p, q)

    def _divergence(self, p: Floats, q: Floats) -> Floats:
        return np.asarray(self._expected(p, q) - self._expected(q, q))

    def infimum(self, n_classes: int) -> float:
        """Return inf g over all distributions of K classes; concave functions are least at a corner of the simplex."""
        return float(self.entropy(np.eye(check_count(n_classes, "n_classes", "infimum", 2, "2"))).min())

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @staticmethod
    def from_function(name: str, score: Callable[[Floats, Ints], ArrayLike]) -> ProperScore:
        """Make a score from S: a function of rows P, shape (n, K), and class indices y that gives n losses.

        Properness is not checked: a function that is not proper has no meaningful divergence.

        Examples
        --------
        >>> half = ProperScore.from_function("half-brier", lambda p, y: 0.5 * Brier().score(p, y))
        >>> half.entropy([0.5, 0.5])
        array([0.25])
        """
        return _FromFunction(name, score)

    @staticmethod
    def from_entropy(
        name: str, entropy: Callable[[Floats], ArrayLike], gradient: Callable[[Floats], ArrayLike] | None = None
    ) -> ProperScore:
        """Make a score from a concave entropy g of rows, shape (n, K) → (n,), and its gradient, → (n, K).

        S(P, y) = g(P) + ⟨∇g(P), e_y − P⟩ [2]. Without `gradient` the derivative from P towards e_y is taken
        numerically (error about 1e-9 for smooth g), which stays inside the simplex. Concavity makes it proper.

        Examples
        --------
        >>> gini = ProperScore.from_entropy("gini", lambda p: 1 - (p**2).sum(axis=1), lambda p: -2 * p)
        >>> gini.score([[0.8, 0.2]], [0])  # the Brier score
        array([0.08])
        """
        return _FromEntropy(name, entropy, gradient)


class Brier(ProperScore):
    """‖P − e_y‖²: entropy 1 − ‖Q‖², divergence ‖P − Q‖², inf g = 0."""

    name = "brier"

    def _expected(self, p: Floats, q: Floats) -> Floats:
        return self._divergence(p, q) + np.asarray(np.einsum("ij,ij->i", q, 1.0 - q))

    def _divergence(self, p: Floats, q: Floats) -> Floats:
        return np.asarray(((p - q) ** 2).sum(axis=1))


class EventBrier(Brier):
    """(s − t)² of a yes/no forecast (1 − s, s): half the Brier score of its two columns."""

    def _rows(self, p: Floats, codes: Ints) -> Floats:
        return 0.5 * super()._rows(p, codes)

    def _expected(self, p: Floats, q: Floats) -> Floats:
        return 0.5 * Brier()._expected(p, q)

    def _divergence(self, p: Floats, q: Floats) -> Floats:
        return 0.5 * super()._divergence(p, q)


class Log(ProperScore):
    """−log P_y: Shannon entropy, Kullback-Leibler divergence, inf g = 0; an exact zero on the truth gives inf."""

    name = "nll"

    def _expected(self, p: Floats, q: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-np.where(q > 0, q * np.log(p), 0.0).sum(axis=1)) + 0.0


class Spherical(ProperScore):
    """−P_y/‖P‖: entropy −‖Q‖, inf g = −1."""

    name = "spherical"

    def _expected(self, p: Floats, q: Floats) -> Floats:
        return np.asarray(-np.einsum("ij,ij->i", p, q) / np.linalg.norm(p, axis=1))


class RankedProbability(ProperScore):
    """Σ_{k<K} (F_k − 1[y ≤ k])² with F the cumulative forecast, for ordered classes; inf g = 0."""

    name = "rps"

    def _expected(self, p: Floats, q: Floats) -> Floats:
        cumulative = np.cumsum(q, axis=1)[:, :-1]
        return self._divergence(p, q) + np.asarray((cumulative * (1.0 - cumulative)).sum(axis=1))

    def _divergence(self, p: Floats, q: Floats) -> Floats:
        return np.asarray((np.cumsum(p - q, axis=1)[:, :-1] ** 2).sum(axis=1))


class _FromFunction(ProperScore):
    def __init__(self, name: str, score: Callable[[Floats, Ints], ArrayLike]) -> None:
        self.name = name
        self._function = score

    def _rows(self, p: Floats, codes: Ints) -> Floats:
        rows = np.asarray(self._function(p, codes), dtype=np.float64)
        if rows.shape != (len(p),):
            raise input_error(
                "score",
                f"ProperScore {self.name!r}",
                f"give one loss per row, shape ({len(p)},)",
                f"shape {rows.shape}",
                "sum over classes, not over rows",
            )
        return rows

    def __repr__(self) -> str:
        return f"ProperScore.from_function({self.name!r}, …)"


class _FromEntropy(ProperScore):
    #: Step of the one-sided derivative of second order.
    _STEP = 1e-5

    def __init__(self, name: str, entropy: Callable[[Floats], ArrayLike], gradient: Any) -> None:
        self.name = name
        self._entropy = entropy
        self._gradient = gradient

    def _g(self, p: Floats) -> Floats:
        return np.asarray(self._entropy(p), dtype=np.float64)

    def _rows(self, p: Floats, codes: Ints) -> Floats:
        corner = np.eye(p.shape[1])[codes]
        if self._gradient is not None:
            slope = np.einsum("ij,ij->i", np.asarray(self._gradient(p), dtype=np.float64), corner - p)
            return np.asarray(self._g(p) + slope)  # [2] theorem 2
        here, t = self._g(p), self._STEP
        near, far = self._g((1 - t) * p + t * corner), self._g((1 - 2 * t) * p + 2 * t * corner)
        return np.asarray(here + (4.0 * near - far - 3.0 * here) / (2.0 * t))

    def entropy(self, law: ArrayLike) -> Floats:
        """Return the entropy the score was made from."""
        return self._g(_laws(law, "law"))

    def _divergence(self, p: Floats, q: Floats) -> Floats:
        return np.asarray(self._expected(p, q) - self._g(q))

    def __repr__(self) -> str:
        return f"ProperScore.from_entropy({self.name!r}, …)"


class Declared(ProperScore):
    """Any proper mean score of the registry, by its name: entropy and divergence follow from its possible scores."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _expected(self, p: Floats, q: Floats) -> Floats:
        possible = possible_scores(self._declared().score, p)
        return np.asarray(np.where(q > 0, q * np.where(q > 0, possible, 0.0), 0.0).sum(axis=1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


#: Scores whose entropy and divergence are known in closed form.
_CLOSED: dict[str, type[ProperScore]] = {
    "brier": Brier,
    "nll": Log,
    "log": Log,
    "spherical": Spherical,
    "rps": RankedProbability,
}


def as_score(score: ProperScore | str, caller: str) -> ProperScore:
    """Return a score from itself or its name: brier, nll (log), spherical, rps, or another declared proper score.

    Examples
    --------
    >>> as_score("brier", "example")
    Brier()
    """
    if isinstance(score, ProperScore):
        return score
    name = check_names(score, (*dict.fromkeys((*_CLOSED, *criteria())),), "score", caller)
    return _CLOSED[name]() if name in _CLOSED else Declared(name)
