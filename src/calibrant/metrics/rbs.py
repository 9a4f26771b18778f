"""Root Brier score."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.row_scores import brier_rows
from calibrant.metrics.recipes import MeanScore, by_block


def _recipe() -> Recipe:
    return MeanScore(by_block(brier_rows), math.sqrt)


MEASURE = declare(
    Measure(
        name="rbs",
        function="root_brier_score",
        title="Root Brier score",
        notion="proper score",
        estimates="the canonical error CE₂",
        bound="upper",
        recipe=_recipe,
        weakness="loose when classes overlap: it bounds, it does not estimate",
        paper="Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores, NeurIPS, theorem 3.1",
        cost="O(n·K)",
        state="score sums",
        range=(0.0, 2.0**0.5),
        proper=True,
        percent=False,
    )
)


def root_brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Bound the canonical calibration error from above by the root of the Brier score.

    Proper; smaller is better; 0 is perfect; its changes are honest at any n. Loose when classes overlap: it bounds,
    it does not estimate.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    sample_weight : array-like of shape (n,), optional
        Frequencies: an integer weight equals repeated rows.
    classes : array-like of shape (K,), optional
        Names of the columns, in order, when `y_true` holds names.
    space : {"proba", "logit"}, default "proba"
        What `y_proba` holds; logits go through softmax in float64.
    normalize : bool, default False
        Rescale rows to sum 1 (decimals rounded in a file).

    Returns
    -------
    float
        The value.

    Notes
    -----
    √brier ≥ CE₂. Differences of it do not suffer from the bias of binned errors.
    Cost O(n·K); state: score sums.

    References
    ----------
    [1] Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores, NeurIPS, theorem 3.1.

    Examples
    --------
    >>> from calibrant.metrics import root_brier_score
    >>> root_brier_score([1, 0], [0.8, 0.4]) == 0.2**0.5
    True
    """
    return MEASURE(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
