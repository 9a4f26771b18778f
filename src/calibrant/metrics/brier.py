"""Brier score."""

from __future__ import annotations

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.inputs import Forecast
from calibrant.core.row_scores import brier_rows
from calibrant.metrics.recipes import MeanScore, by_block, top_label_or
from calibrant.views import View


def _top_rows(forecast: Forecast) -> Floats:
    """(s − t)² of the top label."""
    return np.asarray((forecast.top_score - forecast.hit.astype(np.float64)) ** 2, dtype=np.float64)


def _recipe(*, view: View | str = "canonical") -> Recipe:
    return top_label_or(view, MeanScore(by_block(brier_rows)), MeanScore(_top_rows, pairs_suffice=True), "brier_score")


MEASURE = declare(
    Measure(
        name="brier",
        function="brier_score",
        title="Brier score",
        notion="proper score",
        estimates="the squared canonical error CE₂²",
        bound="upper",
        recipe=_recipe,
        weakness="mixes calibration with sharpness: a better classifier may be worse calibrated",
        paper="Brier (1950), Verification of forecasts expressed in terms of probability",
        cost="O(n·K)",
        state="score sums",
        range=(0.0, 2.0),
        proper=True,
        percent=False,
        panel=True,
    )
)


def brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "canonical",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Average the squared distance between forecast and outcome.

    Strictly proper; smaller is better; 0 is perfect. Mixes calibration with sharpness: a better classifier may be
    worse calibrated.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    view : View or str, default "canonical"
        Which pairs (score, outcome) are judged: a view or its name.
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
    (1/n) Σ_i ‖p_i − e_{y_i}‖², the sum over classes: range [0, 2]. `view="top-1"` gives (1/n) Σ (s − t)² of the top
    label.
    Cost O(n·K); state: score sums.

    References
    ----------
    [1] Brier (1950), Verification of forecasts expressed in terms of probability, Monthly Weather Review 78.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> brier_score([1, 0], [0.8, 0.4])  # (2·0.2² + 2·0.4²)/2
    0.2
    """
    return MEASURE(
        y_true,
        y_proba,
        view=view,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
