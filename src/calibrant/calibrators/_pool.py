"""A fixed pool of fitted calibrators: what the automatic repair ships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
from sklearn.base import clone

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._program import Graph, Node
from calibrant.calibrators._scores import Scores, View

#: A probability counts as no less than this before its logarithm is pooled.
LEAST = 1e-7


class Pool(Calibrator):
    """Mix fitted calibrators with given weights, by their probabilities or by their logarithms.

    Parameters
    ----------
    calibrators : sequence of Calibrator, optional
        Members, fitted anew by `fit`; None in a pool put together by `Pool.of`.
    weights : array-like of shape (M,), optional
        Weights; a linear pool scales them to sum 1. Default: equal.
    kind : {"linear", "log"}
        Σ w p, or softmax(Σ w log p).
    space : {"proba", "logit"}
        What X holds.
    classes : array-like, optional
        Labels in column order.
    """

    short_name = "pool"
    title = "Pool of calibrators"
    paper = "Genest & Zidek (1986), Combining probability distributions, Statistical Science 1"
    when = "As part of the automatic choice."
    may_saturate = True
    view: ClassVar[View] = "raw"
    state: ClassVar[tuple[str, ...]] = ("members_", "weights_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"kind": ("linear", "log")}

    members_: list[Calibrator]
    weights_: Floats

    def __init__(
        self, calibrators: Sequence[Calibrator] | None = None, *, weights: ArrayLike | None = None,
        kind: Literal["linear", "log"] = "linear", space: Space = "proba", classes: ArrayLike | None = None,
    ) -> None:
        self.calibrators = calibrators
        self.weights = weights
        self.kind = kind
        self.space = space
        self.classes = classes

    @classmethod
    def of(cls, members: Sequence[Calibrator], weights: Floats, kind: Literal["linear", "log"]) -> Self:
        """Put fitted members together."""
        first = members[0]
        pool = cls(kind=kind, space=first.input_space)
        pool.members_, pool.weights_ = list(members), np.asarray(weights, dtype=np.float64)
        pool.classes_, pool.n_classes_, pool.n_features_in_ = first.classes_, first.n_classes_, first.n_classes_
        pool.floor_, pool.smallest_ = 0.0, 0.0
        return pool

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:  # noqa: ARG003  # depends on the members
        """Return inf: members may grow with the rows."""
        return float("inf")

    @property
    def can_export(self) -> bool:
        """Whether every member has a map other runtimes can run."""
        return all(member.can_export for member in self.members_)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        parts = [clone(part).set_params(space=self.space, classes=None) for part in self.calibrators or ()]
        self.members_ = [part.fit(scores.matrix, codes, sample_weight=weights) for part in parts]
        given = np.ones(len(parts)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        self.weights_ = given / given.sum() if self.kind == "linear" else given

    def _predict(self, x: Floats) -> Floats:
        total = np.zeros(x.shape)
        for member, weight in zip(self.members_, self.weights_, strict=True):
            block = member.apply_block(x)
            total += weight * (block if self.kind == "linear" else np.log(np.maximum(block, LEAST)))
        if self.kind == "log":
            total -= total.max(axis=1, keepdims=True)
            np.exp(total, out=total)
        return total

    def _map(self, graph: Graph, x: Node) -> Node:
        parts = []
        for member, weight in zip(self.members_, self.weights_, strict=True):
            p = member.describe(graph, x)
            parts.append(float(weight) * (p if self.kind == "linear" else graph.log(graph.maximum(p, LEAST))))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total if self.kind == "linear" else graph.softmax(total)
