"""One isotonic curve shared by all classes (IRM): accuracy stays, rows of all classes help each other."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.isotonic import add_share, check_epsilon
from calibrant.core.pav import isotonic_hits, isotonic_knots
from calibrant.core.programs import Graph, Node

#: Scores sorted at a time (8 MB), unless the hits are so many that larger chunks save searches.
CHUNK = 1 << 20


class IsotonicMulticlass(Calibrator):
    """Fit one non-decreasing curve to all n·K probabilities at once, add ε·p, normalize.

    The order of the classes and the predicted class stay. One curve cannot repair classes that err in
    different directions.

    Parameters
    ----------
    epsilon : float, default 1e-9
        Fraction of the input added to the curve, as published: it makes the map strictly increasing, so order and
        accuracy are kept. 0 gives the bare fit, which keeps the order up to ties.

    Attributes
    ----------
    thresholds_, values_ : arrays
        Ends of the constant stretches of the curve and the values there.

    Notes
    -----
    q_k ∝ g(p_k) + ε·p_k, where g minimizes Σ_i Σ_k w_i (g(p_ik) − 1[y_i = k])² over non-decreasing functions [1]_.
    Equal scores are pooled, the fit is linear between thresholds and held outside. A row whose fitted values
    are all 0 keeps its input. The fit is exact at any size and never holds the n·K pairs: chunks of scores
    are sorted, and the n true-class scores searched in them. Cost: O(n·K log) for the sorts.

    References
    ----------
    .. [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
       Calibration in Deep Learning", ICML, section 3.3.2 (IRM).

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]]
    >>> IsotonicMulticlass().fit(p, [0, 1, 1, 2]).predict_proba([[0.65, 0.25, 0.1]]).round(3)
    array([[0.75, 0.25, 0.  ]])
    """

    short_name = "isotonic-multiclass"
    title = "Isotonic regression shared by all classes"
    paper = "Zhang et al. (2020), section 3.3.2"
    when = (
        "Use it when the predicted class must stay and a few hundred rows or more are at hand; it needs far "
        "fewer rows than one curve per class. Not when classes err in different directions."
    )
    preserves_argmax = True
    preserves_order = True
    injective = True
    may_saturate = True
    default_loss = "brier"
    view: ClassVar[View] = "rank"
    free_parameters: ClassVar[float] = float("inf")  # the curve grows with the rows
    state: ClassVar[tuple[str, ...]] = ("thresholds_", "values_")

    thresholds_: Floats
    values_: Floats

    def __init__(self, *, epsilon: float = 1e-9, space: Space = "proba", classes: ArrayLike | None = None) -> None:
        self.epsilon = epsilon
        self.space = space
        self.classes = classes

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_epsilon(self.epsilon, caller)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        n, k = scores.n, scores.n_classes
        unit = bool((weights == 1).all())
        step = max(1, max(CHUNK, 4 * n) // k)
        chunks = [slice(start, min(start + step, n)) for start in range(0, n, step)]

        given = scores.space == "proba" and not scores.clip  # short floats sort in half the time

        def take(rows: slice) -> Array:
            return scores.matrix[rows] if given else scores.block(rows)

        def block(rows: slice) -> tuple[Array, Floats | None]:
            return take(rows).ravel(), None if unit else np.repeat(weights[rows], k)

        hit = np.concatenate([take(rows)[np.arange(rows.stop - rows.start), codes[rows]] for rows in chunks])
        pieces = isotonic_hits(chunks, block, hit, None if unit else weights)
        self.thresholds_, self.values_ = isotonic_knots(pieces)  # [1] section 3.3.2, steps 1 and 2

    def _map(self, graph: Graph, x: Node) -> Node:
        fitted = graph.interp(x, self.thresholds_, self.values_)
        return add_share(graph, self._probabilities(graph, x), fitted, self.epsilon)
