"""Identity: the reference everything must beat."""

from __future__ import annotations

from typing import ClassVar

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._scores import Scores
from calibrant.core.programs import Graph, Node


class Identity(Calibrator):
    """Leave the probabilities as they are (softmax for logits).

    The reference of every comparison: a method that does not beat it on held-out rows does harm.

    Examples
    --------
    >>> Identity().fit([[0.2, 0.8]], [1]).predict_proba([[0.3, 0.7]])
    array([[0.3, 0.7]])
    """

    short_name = "identity"
    title = "Identity"
    paper = ""
    when = "Always, as the reference in a comparison; ship it when no method beats it on held-out rows."
    preserves_argmax = True
    preserves_order = True
    injective = True
    may_saturate = True
    free_parameters: ClassVar[float] = 0
    state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, space: Space = "proba", classes: ArrayLike | None = None) -> None:
        self.space = space
        self.classes = classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        """Nothing to fit."""

    def _predict(self, x: Floats) -> Floats:
        return x

    def _map(self, graph: Graph, x: Node) -> Node:  # noqa: ARG002  # signature of the contract
        return x
