"""What looks wrong without being wrong: said aloud, never changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant.core.text import count, percent
from calibrant.io.layout import listed, note

__all__ = ["say_suspicions", "suspicions"]

#: Fewer rows than this prove nothing.
LEAST = 20


def suspicions(forecast: Any) -> list[str]:
    """Return what a careful reader would ask about checked predictions of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.core.inputs import check_forecast
    >>> p = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], (20, 1))
    >>> suspicions(check_forecast([0, 1] * 20, p, caller="evaluate"))[0]
    'class 2 never occurs in the labels'
    """
    if forecast.n < LEAST or not forecast.has_vectors:
        return []
    found = []
    hits = forecast.hit
    accuracy, chance = float(np.mean(hits)), 1.0 / forecast.n_classes
    error = math.sqrt(chance * (1 - chance) / forecast.n)
    if accuracy < chance - 3 * error:
        ask = "are the labels counted from 1, or the columns in another order?"
        if forecast.n_classes == 2:
            ask = "does the score speak of the other class (--positive), or are the columns swapped?"
        found.append(f"accuracy {percent(accuracy, 1)} is below chance ({percent(chance, 1)}): {ask}")
    seen = np.bincount(forecast.codes, minlength=forecast.n_classes)
    absent = np.flatnonzero(seen == 0)
    if len(absent) and forecast.n >= 5 * forecast.n_classes:
        names = [str(k if forecast.classes is None else forecast.classes[k]) for k in absent]
        word = "class" if len(absent) == 1 else f"{count(len(absent))} classes:"
        verb = "occurs" if len(absent) == 1 else "occur"
        found.append(f"{word} {listed(names)} never {verb} in the labels")
    scores = forecast.top_score
    if float(np.ptp(scores)) < 1e-12 and (forecast.matrix.ndim == 1 or np.ptp(forecast.matrix, axis=0).max() < 1e-12):
        found.append("every row has the same scores: is this the right column?")
    elif bool(hits.all()) and float(np.mean(scores)) < 0.99:
        found.append("the label is the most probable class in every row: is it the prediction instead of the truth?")
    return found


def say_suspicions(evidence: Any) -> None:
    """Say what looks wrong about predictions of classes in memory."""
    if getattr(evidence, "task", "") == "classes":
        for text in suspicions(evidence):
            note(text)
