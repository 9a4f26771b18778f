"""Log score."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.inputs import Forecast
from calibrant.metrics.recipes import MeanScore


def _log_rows(forecast: Forecast) -> Floats:
    """−log p_y; from the logits themselves where they are known."""
    return np.asarray(-forecast.true_log_score) + 0.0


def _recipe() -> Recipe:
    return MeanScore(_log_rows)


MEASURE = declare(
    Measure(
        name="nll",
        function="log_score",
        title="Log score",
        notion="proper score",
        estimates="the Kullback–Leibler calibration error",
        bound="upper",
        recipe=_recipe,
        weakness="one confident mistake can outweigh everything else; an exact 0 on the truth is infinite",
        paper="Good (1952), Rational decisions",
        cost="O(n)",
        state="score sums",
        range=(0.0, math.inf),
        proper=True,
        percent=False,
        panel=True,
    )
)


def log_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Average the negative log-probability of the truth.

    Strictly proper; smaller is better; 0 is perfect. One confident mistake can outweigh everything else; an exact 0
    on the truth is infinite.

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
    −(1/n) Σ_i log p_i(y_i). An exact zero on the truth gives inf, never a hidden clip.
    Cost O(n); state: score sums.

    References
    ----------
    [1] Good (1952), Rational decisions, JRSS B 14.

    Examples
    --------
    >>> from calibrant.metrics import log_score
    >>> round(log_score([1, 0], [0.5, 0.75]), 4)  # (log 2 + log 4)/2
    1.0397
    """
    return MEASURE(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
