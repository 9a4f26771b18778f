"""Mean entropy."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.inputs import Forecast
from calibrant.metrics.recipes import MeanScore
from calibrant.views import entropies


def _rows(forecast: Forecast) -> Floats:
    """−Σ p log p."""
    return entropies(forecast)


def _recipe() -> Recipe:
    return MeanScore(_rows)


MEASURE = declare(
    Measure(
        name="entropy",
        function="mean_entropy",
        title="Mean entropy",
        notion="plain fact",
        estimates="the log score the model expects of itself",
        bound="exact",
        recipe=_recipe,
        weakness="equal to the log score for a calibrated model, but not only for one",
        paper="–",
        cost="O(n·K)",
        state="score sums",
        smaller_is_better=None,
        perfect=None,
        percent=False,
        range=(0.0, math.inf),
    )
)


def mean_entropy(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Mean entropy of the forecasts in nats: the log score the model expects.

    A plain fact; neither direction is better. Equal to the log score for a calibrated model, but not only for one.

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
    −(1/n) Σ_i Σ_k p_ik log p_ik with 0·log 0 = 0.
    Cost O(n·K); state: score sums.

    References
    ----------
    None needed.

    Examples
    --------
    >>> from calibrant.metrics import mean_entropy
    >>> round(mean_entropy([1, 0], [0.5, 0.5]), 4)  # log 2
    0.6931
    """
    return MEASURE(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
